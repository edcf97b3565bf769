"""`redpanda start`: options and files become the variables of Kafka's images."""

import os
from pathlib import Path

import pytest

from minibroker_container import entrypoint, redpanda
from tests.docker.test_entrypoint import run

FILE = """
redpanda:
  data_directory: /data
  node_id: 3
  kafka_api: {address: 0.0.0.0, port: 9092, name: main}
  kafka_api_tls:
    - {enabled: true, name: main, cert_file: CERT, key_file: KEY, truststore_file: CERT, require_client_auth: true}
  admin: [{port: 9645}]
  default_topic_partitions: 4
schema_registry: {schema_registry_api: [{address: 127.0.0.1, port: 18081}]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the empty configuration folder."""
    monkeypatch.setattr(redpanda, "NODE_CONFIG", str(tmp_path / "redpanda.yaml"))
    monkeypatch.setattr(redpanda, "BOOTSTRAP_CONFIG", str(tmp_path / ".bootstrap.yaml"))
    return tmp_path


def translated(*arguments: str, **given: str) -> dict[str, str]:
    """Translate a command line, and check that it causes no remark."""
    remarks, found = remarks_on(*arguments, **given)
    assert remarks == []
    return found


def remarks_on(*arguments: str, **given: str) -> tuple[list[str], dict[str, str]]:
    """Translate a command line, and return the remarks and the variables."""
    remarks: list[str] = []
    found = redpanda.environment(arguments, given, remarks.append)
    return remarks, found


def test_without_options_the_default_ports_are_open() -> None:
    assert translated(HOSTNAME="box") == {
        "HOSTNAME": "box",
        "KAFKA_LISTENERS": "REDPANDA://0.0.0.0:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "REDPANDA:PLAINTEXT",
        "KAFKA_NODE_ID": "0",
        "KAFKA_LOG_DIRS": "/var/lib/redpanda/data",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "MINIBROKER_LOG_LINES": "redpanda",
        "MINIBROKER_ADMIN_API": "redpanda=0.0.0.0:9644 absent=0.0.0.0:8082",
        "MINIBROKER_REGISTRY": "0.0.0.0:8081",
    }


def test_options_have_both_forms_and_flags_take_no_value() -> None:
    found = translated(
        "--overprovisioned", "--kafka-addr=internal://0.0.0.0:9092,my.host://:19092", "--smp", "1", "--check=false",
        "--advertise-kafka-addr", "internal://redpanda:9092,my.host://localhost:19092", "--mode", "dev-container",
        "--set", "redpanda.enable_sasl=true", "--node-id", "2", "--pandaproxy-addr", "internal://0.0.0.0:18082",
    )  # fmt: skip
    assert found["KAFKA_LISTENERS"] == "INTERNAL://0.0.0.0:9092,MY_HOST://0.0.0.0:19092"
    assert found["KAFKA_ADVERTISED_LISTENERS"] == "INTERNAL://redpanda:9092,MY_HOST://localhost:19092"
    assert found["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] == "INTERNAL:SASL_PLAINTEXT,MY_HOST:SASL_PLAINTEXT"
    assert found["KAFKA_SASL_ENABLED_MECHANISMS"] == "SCRAM-SHA-256,SCRAM-SHA-512"
    assert found["KAFKA_AUTHORIZER_CLASS_NAME"].endswith("StandardAuthorizer")
    assert (found["KAFKA_NODE_ID"], found["KAFKA_AUTO_CREATE_TOPICS_ENABLE"]) == ("2", "true")
    assert found["MINIBROKER_ADMIN_API"].endswith(" absent=0.0.0.0:18082")


def test_an_option_and_its_value_may_be_one_item_of_a_list() -> None:
    items = ["--smp 1", "--kafka-addr in://0.0.0.0:9092,out://:19092", "--set redpanda.default_topic_partitions=6"]
    assert translated(*items) == translated(*(word for item in items for word in item.split()))
    assert translated(*items)["KAFKA_NUM_PARTITIONS"] == "6"


# Each has the form of a list in public Compose files.
FORMS: tuple[tuple[list[str], dict[str, str]], ...] = (
    (
        ["--smp 1 --memory 1G --overprovisioned", "--kafka-addr in://0.0.0.0:9092, out://:19092"],
        {"KAFKA_LISTENERS": "IN://0.0.0.0:9092,OUT://0.0.0.0:19092"},
    ),
    (["--smp=1 --node-id=2 --check=false"], {"KAFKA_NODE_ID": "2"}),
    (["--mode=dev-container --kafka-addr 0.0.0.0"], {"KAFKA_AUTO_CREATE_TOPICS_ENABLE": "true"}),
    (["--kafka-addr", "0.0.0.0"], {"KAFKA_LISTENERS": "REDPANDA://0.0.0.0:9092"}),
    (['--kafka-addr "a://:1,b://:2"'], {"KAFKA_LISTENERS": "A://0.0.0.0:1,B://0.0.0.0:2"}),
    (
        ["--kafka-addr a://:1|sasl,b://:2|none"],
        {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "A:SASL_PLAINTEXT,B:PLAINTEXT"},
    ),
    (
        ['--set redpanda.kafka_api=[{"name": "a", "address": "::", "port": 9}]', "--set redpanda.developer_mode=true"],
        {"KAFKA_LISTENERS": "A://:::9", "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "true"},
    ),
    (
        ["--set rpk.additional_start_flags=[--reactor-backend=epoll]", "--set redpanda.delete_retention_ms=5"],
        {"KAFKA_LOG_RETENTION_MS": "5"},
    ),
    (
        ["--set", "redpanda.enable_idempotence=true", "--set", "group_initial_rebalance_delay=0", "--tune", "true"],
        {"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0"},
    ),
)


@pytest.mark.parametrize(("arguments", "expected"), FORMS, ids=[" ".join(arguments) for arguments, _ in FORMS])
def test_options_of_public_files_count_without_a_remark(arguments: list[str], expected: dict[str, str]) -> None:
    found = translated(*arguments)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("start", "command"),
    [
        (["redpanda start", "--smp 1"], ["--smp 1"]),
        (["start", "--smp 1"], ["--smp 1"]),
        (["redpanda start --smp 1 --memory 1G"], ["--smp 1 --memory 1G"]),
        (["rpk redpanda start", "--smp", "1"], ["--smp", "1"]),
        (["start --smp 1", "--check=false"], ["--smp 1", "--check=false"]),
    ],
)
def test_a_command_may_be_one_item_and_leave_out_its_program(start: list[str], command: list[str]) -> None:
    found = entrypoint.container_command({}, start, entrypoint.hide_secrets)
    assert found == ["redpanda", "start", *command]
    assert entrypoint.container_command({}, ["topic", "list"], entrypoint.hide_secrets) == ["rpk", "topic", "list"]
    for other in (["redpanda", "start", "--smp", "1"], ["starter"], ["redpanda-tool", "x"]):
        assert entrypoint.container_command({}, other, entrypoint.hide_secrets) == other


def test_a_command_in_the_place_of_the_broker_chooses_the_lines_of_the_log() -> None:
    shown = run({"PATH": os.defpath}, "sh", "-c", "echo lines=$MINIBROKER_LOG_LINES")
    assert shown.stdout == "lines=\n"


def test_variables_of_redpanda_count_without_their_option() -> None:
    variables = {
        "REDPANDA_KAFKA_ADDRESS": "in://:9092,out://:19092",
        "REDPANDA_ADVERTISE_KAFKA_ADDRESS": "in://redpanda:9092,out://localhost:19092",
        "REDPANDA_SCHEMA_REGISTRY_ADDRESS": "127.0.0.1",
    }
    found = translated(**variables)
    assert found["KAFKA_ADVERTISED_LISTENERS"] == "IN://redpanda:9092,OUT://localhost:19092"
    assert found["MINIBROKER_REGISTRY"] == "127.0.0.1:8081"
    assert not set(variables) & set(found)
    assert translated("--kafka-addr", ":1", REDPANDA_KAFKA_ADDRESS=":2")["KAFKA_LISTENERS"].endswith(":1")


def test_what_has_no_effect_and_does_not_tune_resources_is_named_once_with_its_value(folder: Path) -> None:
    text = "redpanda:\n  cloud_storage_secret_key: abc\npandaproxy_client: {}\n"
    (folder / "redpanda.yaml").write_text(text)
    options = ["--smp 1", "--new-option", "stray", "--set", "enable_transactions=false"]
    remarks, _ = remarks_on(*options, KAFKA_NUM_PARTITIONS="3", REDPANDA_RPC_ADDRESS="a", RPK_BROKERS="b:1")
    named = "--new-option stray, pandaproxy_client={}, cloud_storage_secret_key=[hidden], enable_transactions=false"
    assert remarks == [
        f"no effect: {named}; minibroker does not have these features of Redpanda",
        "no effect: KAFKA_NUM_PARTITIONS=3, REDPANDA_RPC_ADDRESS=a; `redpanda start` does not read them",
    ]


def test_another_file_may_be_named_and_must_exist(folder: Path) -> None:
    (folder / "other.yaml").write_text("redpanda: {node_id: 7}\n")
    assert translated("--config", str(folder / "other.yaml"))["KAFKA_NODE_ID"] == "7"
    with pytest.raises(OSError, match=r"redpanda start: .*missing\.yaml: No such file"):
        translated("--config", str(folder / "missing.yaml"))


def test_the_files_name_ports_certificates_and_superusers(folder: Path) -> None:
    for name in ("CERT", "KEY"):
        (folder / name).write_text(f"the {name}")
    text = FILE.replace("CERT", str(folder / "CERT")).replace("KEY", str(folder / "KEY"))
    (folder / "redpanda.yaml").write_text(text)
    (folder / ".bootstrap.yaml").write_text("superusers: [alice, bob]\nlog_segment_size: 1048576\n")
    found = translated(RP_BOOTSTRAP_USER="alice:se:cret:SCRAM-SHA-512")
    assert found["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] == "MAIN:SSL"
    tls = {name.removeprefix("KAFKA_LISTENER_NAME_MAIN_SSL_"): each for name, each in found.items() if "_SSL_" in name}
    assert tls == {
        "KEYSTORE_TYPE": "PEM",
        "KEYSTORE_CERTIFICATE_CHAIN": "the CERT",
        "KEYSTORE_KEY": "the KEY",
        "TRUSTSTORE_TYPE": "PEM",
        "TRUSTSTORE_CERTIFICATES": "the CERT",
        "CLIENT_AUTH": "required",
    }
    assert (found["KAFKA_NODE_ID"], found["KAFKA_LOG_DIRS"], found["KAFKA_NUM_PARTITIONS"]) == ("3", "/data", "4")
    assert (found["KAFKA_SUPER_USERS"], found["KAFKA_LOG_SEGMENT_BYTES"]) == ("User:alice;User:bob", "1048576")
    assert (found["KAFKA_CLIENT_USERS"], found["KAFKA_CLIENT_PASSWORDS"]) == ("alice", "se:cret")
    assert found["MINIBROKER_ADMIN_API"] == "redpanda=0.0.0.0:9645 absent=0.0.0.0:8082"
    assert found["MINIBROKER_REGISTRY"] == "127.0.0.1:18081"


@pytest.mark.parametrize(
    ("arguments", "node_id", "places", "link"),
    [
        (["--seeds", "a:1,b:2", "--rpc-addr", "0.0.0.0:3"], "-1", "a:1 b:2", "0.0.0.0:3"),
        (["--seeds", "127.0.0.1:33145,b:2"], "0", "127.0.0.1:33145 b:2", "0.0.0.0:33145"),
        (["--seeds", "a,b:2", "--rpc-addr", "0.0.0.0"], "-1", "a:33145 b:2", "0.0.0.0:33145"),
        (["--advertise-rpc-addr", "a:33145", "--node-id", "4"], "4", "0.0.0.0:33145", "0.0.0.0:33145"),
        (["--set", "redpanda.seed_servers=[{host: {address: a, port: 1}}]"], "-1", "a:1", "0.0.0.0:33145"),
        ([], "0", None, None),
    ],
)
def test_seed_servers_are_where_brokers_meet(
    arguments: list[str], node_id: str, places: str | None, link: str | None
) -> None:
    found = translated(*arguments)
    assert (found["KAFKA_NODE_ID"], found.get("MINIBROKER_MEET"), found.get("MINIBROKER_LINK")) == (
        node_id,
        places,
        link,
    )


def test_a_login_of_the_admin_api_is_remarked_upon(folder: Path) -> None:
    (folder / ".bootstrap.yaml").write_text("admin_api_require_auth: true\n")
    remarks: list[str] = []
    redpanda.environment([], {}, remarks.append)
    assert remarks == ["admin_api_require_auth, admin_api_tls: the admin API asks for no login here, and speaks no TLS"]


@pytest.mark.parametrize(
    ("arguments", "file", "reason"),
    [
        (["--kafka-addr", "a:b"], "", r"--kafka-addr: 'a:b' is not \[NAME://\]HOST:PORT"),
        (["--mode", "fast"], "", "--mode 'fast' is not known; give dev-container, or leave it out"),
        (["--set", "redpanda.admin=[{"], "", "--set redpanda.admin: while parsing a flow "),
        (["--kafka-addr", "a:1,b:2"], "", "two Kafka listeners have the name ''; give each one of its own"),
        (
            ["--kafka-addr", "a://:1", "--advertise-kafka-addr", "b://h:1"],
            "",
            "the advertised 'b' is not one of the Kafka listeners",
        ),
        (["--set", "a"], "", "--set 'a' is not KEY=VALUE"),
        ([], "redpanda: [", "while parsing a flow "),
        ([], "text", "it is not a YAML mapping"),
        ([], "redpanda: {kafka_api: [9092]}", "kafka_api: 9092 has no address and port"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(folder: Path, arguments: list[str], file: str, reason: str) -> None:
    (folder / "redpanda.yaml").write_text(file)
    with pytest.raises(ValueError, match=reason) as error:
        translated(*arguments)
    assert "\n" not in str(error.value)
