"""Variables without effect are named once, with their values and the reason; others are not named."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from minibroker.config.properties import parse_properties
from tests.docker.test_entrypoint import printed_command, run, started, values
from tests.patience import PATIENCE_S

CONFLUENT = "these features of Confluent Server do not exist here"
SERVICES = "no such service runs beside a broker, only a schema registry"

# Each environment has the form of a public Compose file's.
NAMED: tuple[tuple[str, Mapping[str, str], str], ...] = (
    (
        "cp-server",
        {"KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1", "CONFLUENT_METRICS_ENABLE": "true"},
        "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR=1, CONFLUENT_METRICS_ENABLE=true; " + CONFLUENT,
    ),
    (
        "cp-server's secrets",
        {"KAFKA_CONFLUENT_LICENSE": "abc", "KAFKA_CONFLUENT_TELEMETRY_API_SECRET": "abc"},
        "KAFKA_CONFLUENT_LICENSE=[hidden], KAFKA_CONFLUENT_TELEMETRY_API_SECRET=[hidden]; " + CONFLUENT,
    ),
    (
        "a long value on several lines",
        {"KAFKA_CONFLUENT_TELEMETRY_METRICS_INCLUDE": "a\n  b" + "c" * 100},
        f"KAFKA_CONFLUENT_TELEMETRY_METRICS_INCLUDE=a b{'c' * 74}...; {CONFLUENT}",
    ),
    (
        "the REST proxy of cp-server",
        {"KAFKA_KAFKA_REST_ADVERTISED_LISTENERS": "http://localhost:8090", "KAFKA_REST_HOST_NAME": "rest"},
        f"KAFKA_KAFKA_REST_ADVERTISED_LISTENERS=http://localhost:8090, KAFKA_REST_HOST_NAME=rest; {SERVICES}",
    ),
    (
        "variables of other services",
        {"SCHEMA_REGISTRY_HOST_NAME": "registry", "CONNECT_GROUP_ID": "c", "ZOOKEEPER_SYNC_LIMIT": "2"},
        f"SCHEMA_REGISTRY_HOST_NAME=registry, CONNECT_GROUP_ID=c, ZOOKEEPER_SYNC_LIMIT=2; {SERVICES}",
    ),
    (
        "user and password in a URL",
        {"CONNECT_VALUE_CONVERTER_SCHEMA_REGISTRY_URL": "http://me:secret@a:8081,http://me:secret@b:8081"},
        f"CONNECT_VALUE_CONVERTER_SCHEMA_REGISTRY_URL=http://[hidden]@a:8081,http://[hidden]@b:8081; {SERVICES}",
    ),
    (
        "fast-data-dev",
        {"SAMPLEDATA": "0", "ENABLE_SSL": "1", "ZK_PORT": "2181", "WEB_PORT": "3030"},
        f"SAMPLEDATA=0, ENABLE_SSL=1, ZK_PORT=2181, WEB_PORT=3030; {SERVICES}",
    ),
    (
        "bitnami",
        {"KAFKA_EXTRA_FLAGS": "--override a=b", "KAFKA_ZOOKEEPER_PROTOCOL": "PLAINTEXT"},
        "KAFKA_EXTRA_FLAGS=--override a=b, KAFKA_ZOOKEEPER_PROTOCOL=PLAINTEXT; no script of Kafka runs here",
    ),
    (
        "redpanda without its command",
        {"REDPANDA_KAFKA_ADDRESS": "0.0.0.0:9092", "RP_BOOTSTRAP_USER": "a:b"},
        "REDPANDA_KAFKA_ADDRESS=0.0.0.0:9092, RP_BOOTSTRAP_USER=[hidden]; the command `redpanda start` reads them",
    ),
    ("strimzi", {"STRIMZI_RACK_ENABLED": "true"}, "STRIMZI_RACK_ENABLED=true; no operator runs here"),
    ("minibroker", {"MINIBROKER_TOPIC": "orders"}, "MINIBROKER_TOPIC=orders; minibroker has no such variable"),
)

UNNAMED: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("the JVM and logging", {"KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_LOG4J_LOGGERS": "a=INFO", "HEAP_OPTS": "-Xmx1G"}),
    ("the scripts of bitnami", {"BITNAMI_DEBUG": "true", "ALLOW_PLAINTEXT_LISTENER": "yes", "KAFKA_KRAFT_MODE": "yes"}),
    ("the scripts of Strimzi", {"STRIMZI_KAFKA_GC_LOG_ENABLED": "false", "STRIMZI_JAVA_OPTS": "-Xmx1G"}),
    ("HTTP ports of cp-server", {"KAFKA_CONFLUENT_HTTP_SERVER_LISTENERS": "http://0.0.0.0:8091"}),
    ("the registry of cp-server", {"KAFKA_CONFLUENT_SCHEMA_REGISTRY_URL": "http://schema-registry:8081"}),
    ("rpk", {"RPK_BROKERS": "localhost:9092", "REDPANDA_BROKERS": "localhost:9092"}),
    ("a place to meet", {"MINIBROKER_MEET": "zookeeper://localhost:2181"}),
    ("an empty value", {"CONFLUENT_METRICS_ENABLE": "", "SCHEMA_REGISTRY_HOST_NAME": ""}),
    (
        "service links of Kubernetes and of containers",
        {
            "SCHEMA_REGISTRY_SERVICE_HOST": "10.0.0.1",
            "CONNECT_SERVICE_PORT_HTTP": "80",
            "ZOOKEEPER_PORT": "tcp://10.0.0.1:2181",
            "ZOOKEEPER_PORT_2181_TCP_ADDR": "10.0.0.1",
            "MINIBROKER_PORT": "tcp://10.0.0.1:9092",
        },
    ),
)


@pytest.mark.parametrize(("environment", "named"), [row[1:] for row in NAMED], ids=[row[0] for row in NAMED])
def test_what_has_no_effect_is_named_in_one_line_with_its_value(environment: Mapping[str, str], named: str) -> None:
    shown = run(environment, "--print-command")
    assert (shown.returncode, shown.stderr) == (0, f"minibroker container: no effect: {named}\n")


@pytest.mark.parametrize("environment", [row[1] for row in UNNAMED], ids=[row[0] for row in UNNAMED])
def test_what_counts_or_has_nothing_to_change_is_not_named(environment: Mapping[str, str]) -> None:
    shown = run(environment, "--print-command")
    assert (shown.returncode, shown.stderr) == (0, "")


def test_confluents_keys_of_a_mounted_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("confluent.balancer.enable=true\n")
    shown = run({"MINIBROKER_CONFIG": str(tmp_path / "server.properties")}, "--print-command")
    assert f"no effect: KAFKA_CONFLUENT_BALANCER_ENABLE=true; {CONFLUENT}\n" in shown.stderr


def test_a_container_with_another_command_names_nothing() -> None:
    shown = run({"CONNECT_GROUP_ID": "c"}, "--print-command", "bash", "-c", "true")
    assert (shown.stdout, shown.stderr) == ("bash -c true\n", "")


def test_spotifys_and_debeziums_names_of_configurations_count() -> None:
    command = printed_command({"LOG_RETENTION_HOURS": "1", "AUTO_CREATE_TOPICS": "false", "ZOOKEEPER_CONNECT": "z:1"})
    expected = {"log.retention.hours=1", "auto.create.topics.enable=false", "zookeeper.connect=z:1"}
    assert expected <= set(values(command, "--set"))


def test_wurstmeisters_script_runs_first_in_a_shell() -> None:
    assert printed_command({"CUSTOM_INIT_SCRIPT": "export A=1"}, "--topic", "a") == ["start-kafka.sh", "--topic", "a"]


def test_configure_writes_properties_for_a_container_of_clients(tmp_path: Path) -> None:
    """Confluent's clients set what `configure` wants to see, and use the file for `cub kafka-ready --config`."""
    environment = {
        "KAFKA_BROKER_ID": "ignored",
        "KAFKA_ZOOKEEPER_CONNECT": "ignored",
        "KAFKA_ADVERTISED_LISTENERS": "ignored",
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_SASL_JAAS_CONFIG": 'org.apache.Module required username="a" password="b";',
        "KAFKA_OPTS": "-Djava.security.auth.login.config=/no/client_jaas.conf",
    }
    path = tmp_path / "kafka.properties"
    written = run(environment, "--write-properties", str(path))
    assert (written.returncode, written.stderr) == (0, "")
    properties = parse_properties(path.read_text())
    assert properties["security.protocol"] == "SASL_PLAINTEXT"
    assert properties["sasl.jaas.config"] == environment["KAFKA_SASL_JAAS_CONFIG"]
    assert "listeners" not in properties
    refused = run({"MINIBROKER_CONFIG": str(path)}, "--print-command")
    assert refused.returncode == 1
    assert "KAFKA_ADVERTISED_LISTENERS: 'ignored' is not NAME://HOST:PORT" in refused.stderr


@pytest.mark.parametrize(("value", "address"), [("8090", "0.0.0.0:8090"), ("127.0.0.1:81", "127.0.0.1:81")])
def test_one_variable_turns_the_lab_on(value: str, address: str) -> None:
    assert values(printed_command({"MINIBROKER_LAB": value}), "--page") == [address]


def test_a_bad_address_of_the_lab_is_refused() -> None:
    refused = run({"MINIBROKER_LAB": "x"})
    assert refused.returncode == 1
    assert refused.stderr.startswith("minibroker container: MINIBROKER_LAB: 'x' is not HOST:PORT")


@pytest.mark.torture
def test_the_labs_address_is_logged_with_a_new_token_unless_one_is_given(tmp_path: Path) -> None:
    listen = {"KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0", "KAFKA_LOG_DIRS": str(tmp_path)}
    environment = {**listen, "MINIBROKER_LAB": "127.0.0.1:0"}
    pattern = r"minibroker container: the lab is at http://localhost:0/\?token=(.+) once port 0 is published\n"
    tokens: list[str] = []
    for given in ({}, {}, {"MINIBROKER_CONTROL_TOKEN": "given"}):
        with started({**environment, **given}) as process:
            assert process.stderr is not None
            assert process.stdout is not None
            match = re.fullmatch(pattern, process.stderr.readline())
            assert match is not None
            tokens.append(match[1])
            ready = re.search(r" page=(http://127\.0\.0\.1:\d+)$", process.stdout.readline())
            assert ready is not None
            if not given:
                request = Request(ready[1], headers={"Authorization": f"Bearer {tokens[-1]}"})
                urlopen(request, timeout=PATIENCE_S).close()
    assert tokens[0] != tokens[1]
    assert tokens[2] == "the value of MINIBROKER_CONTROL_TOKEN"


@pytest.mark.parametrize(
    ("variables", "bootstrap"),
    [
        ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:19092"}, r"localhost:19092"),
        ({"MINIBROKER_LISTEN": "127.0.0.1:0", "MINIBROKER_ADVERTISE": "localhost:19092"}, r"localhost:19092"),
        ({}, r"127\.0\.0\.1:\d+"),
    ],
)
def test_the_ready_line_has_the_advertised_address(
    variables: Mapping[str, str], bootstrap: str, tmp_path: Path
) -> None:
    common = {"KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0", "KAFKA_LOG_DIRS": str(tmp_path / "logs")}
    with started({**common, **variables}) as process:
        assert process.stdout is not None
        assert re.match(rf"minibroker ready: bootstrap={bootstrap} ", process.stdout.readline())
