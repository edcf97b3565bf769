"""The environments of all vendors' images, as Compose files have them, given to the entry point."""

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from minibroker_container import entrypoint, files, lists, vendors
from tests.docker.test_entrypoint import printed_command, run, started, values
from tests.patience import PATIENCE_S

COUNTED = {
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


@pytest.mark.parametrize(
    ("environment", "listen", "advertise"),
    [
        pytest.param({"KAFKA_ADVERTISED_HOST_NAME": "kafka"}, "0.0.0.0:9092", "kafka:9092", id="wurstmeister"),
        pytest.param(
            {"KAFKA_ADVERTISED_HOST_NAME": "10.0.0.1", "KAFKA_ADVERTISED_PORT": "9093", "KAFKA_PORT": "9094"},
            "0.0.0.0:9094",
            "10.0.0.1:9093",
            id="wurstmeister with ports",
        ),
        pytest.param(
            {"HOSTNAME_COMMAND": "echo found", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://_{HOSTNAME_COMMAND}:9094"},
            "0.0.0.0:9094",
            "found:9094",
            id="wurstmeister with a command",
        ),
        pytest.param({"ADVERTISED_HOST_NAME": "kafka", "BROKER_ID": "1"}, "0.0.0.0:9092", "kafka:9092", id="debezium"),
        pytest.param({"ADV_HOST": "127.0.0.1", "RUNTESTS": "0"}, "0.0.0.0:9092", "127.0.0.1:9092", id="fast-data-dev"),
        pytest.param(
            {"ADVERTISED_HOST": "kafka", "ADVERTISED_PORT": "9092"}, "0.0.0.0:9092", "kafka:9092", id="spotify"
        ),
        pytest.param(
            {"LISTENERS": "OUT://:9093", "ADVERTISED_LISTENERS": "OUT://h:1", "SECURITY_PROTOCOL_MAP": "OUT:PLAINTEXT"},
            "0.0.0.0:9093",
            "h:1",
            id="krisgeus",
        ),
        pytest.param({"KRAFT_CONTAINER_HOST_NAME": "kafka"}, "0.0.0.0:9092", "kafka:9092", id="moeenz"),
        pytest.param(
            {"KAFKA_ADVERTISED_LISTENERS": '"PLAINTEXT://kafka:9092"'}, "0.0.0.0:9092", "kafka:9092", id="quotes"
        ),
        pytest.param(
            {**COUNTED, "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://h:32768,BROKER://172.17.0.2 10.0.0.2 :9093,"},
            "0.0.0.0:9092",
            "h:32768",
            id="several addresses and a trailing comma",
        ),
    ],
)
def test_each_vendors_names_for_the_advertised_address_are_understood(
    environment: Mapping[str, str], listen: str, advertise: str
) -> None:
    command = printed_command({"PATH": "/usr/bin:/bin", **environment})
    assert (values(command, "--listen"), values(command, "--advertise")) == ([listen], [advertise])


def test_of_several_addresses_in_an_entry_the_first_is_advertised() -> None:
    assert lists.clean_list("A://h:1, BROKER://172.17.0.2 10.0.0.2 :9093,") == "A://h:1,BROKER://172.17.0.2:9093"


def test_bitnamis_image_without_addresses_advertises_what_clients_have_dialled() -> None:
    command = printed_command({"ALLOW_PLAINTEXT_LISTENER": "yes", "KAFKA_CFG_NODE_ID": "0"})
    assert (values(command, "--listen"), values(command, "--advertise")) == (["0.0.0.0:9092"], [])
    assert values(command, "--set") == ["node.id=0"]


def test_bitnamis_passwords_may_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text("one,two\n")
    environment = {"KAFKA_CLIENT_USERS": "a,b", "KAFKA_CLIENT_PASSWORDS_FILE": str(tmp_path / "passwords")}
    shown = run({**environment, "KAFKA_CFG_LISTENERS": "SASL_PLAINTEXT://:9092"}, "--print-command")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "plain.sasl.jaas.config=[hidden]" in shown.stdout


def test_moeenz_names_for_topics_are_understood() -> None:
    environment = {"KRAFT_CREATE_TOPICS": "a, b", "KRAFT_PARTITIONS_PER_TOPIC": "3", "KRAFT_AUTO_CREATE_TOPICS": "no"}
    command = printed_command(environment)
    assert values(command, "--topic") == ["a:3", "b:3"]
    assert "auto.create.topics.enable=no" in values(command, "--set")


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("test:1:1", ["test:1"]),
        ('"orders:3:1:compact, audit"', ["orders:3:cleanup.policy=compact", "audit:1"]),
        ("a:2:3\nb:1:1,\n", ["a:2:replication.factor=3", "b:1"]),
        ("a:1:1:compact --config=segment.ms=1000", ["a:1:cleanup.policy=compact,segment.ms=1000"]),
        (
            "a:1:1 --config retention.ms=5 --if-not-exists --config=cleanup.policy=delete,b:2",
            ["a:1:retention.ms=5,cleanup.policy=delete", "b:2"],
        ),
    ],
)
def test_topics_to_create_become_topics(text: str, topics: list[str]) -> None:
    assert values(printed_command({"KAFKA_CREATE_TOPICS": text}), "--topic") == topics


@pytest.mark.parametrize(
    ("separator", "text", "topics"),
    [
        ("$'\n'", "a:1:1\nb:2:1:compact\n", ["a:1", "b:2:cleanup.policy=compact"]),
        ("\n", "a:1:1:compact,delete\nb", ["a:1:cleanup.policy=compact,delete", "b:1"]),
        ("|", "a:1:1|b:2:1", ["a:1", "b:2"]),
        ("*", "a:1:1*b:2:1", ["a:1", "b:2"]),
        (",;", "a:1:1,b:2:1;c:3:1", ["a:1", "b:2", "c:3"]),
        ("^-]\\", "a^b-c]d\\e", ["a:1", "b:1", "c:1", "d:1", "e:1"]),
        ("", "a:1:1", ["a:1"]),
    ],
)
def test_each_character_of_the_separator_ends_a_topic_as_at_the_ifs_of_bash(
    separator: str, text: str, topics: list[str]
) -> None:
    """The image of wurstmeister puts the separator into IFS, the form of whose README has a newline between quotes."""
    environment = {"KAFKA_CREATE_TOPICS_SEPARATOR": separator, "KAFKA_CREATE_TOPICS": text}
    assert values(printed_command(environment), "--topic") == topics


def test_a_backslash_continues_a_value_on_the_next_line() -> None:
    # The images put values into a file of properties, where it does the same.
    value = 'Module required \\\n  user="a" \\\n  password="b";\n'
    assert vendors.translate({"KAFKA_X": value}, print)["KAFKA_X"] == 'Module required user="a" password="b";\n'


def test_a_properties_file_at_each_of_the_places_of_bitnami_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(tmp_path / str(number)) for number in range(3)]
    monkeypatch.setattr(entrypoint, "BITNAMI_CONFIGS", paths)
    assert entrypoint.config_file({}) is None
    for path in reversed(paths):
        Path(path).touch()
        assert entrypoint.config_file({}) == path


def test_scripts_run_in_the_order_of_their_names_and_a_failed_one_is_named(tmp_path: Path) -> None:
    for name, line in (("2.sh", "echo second >> ran"), ("1.sh", "echo first >> ran"), ("3.txt", "echo no >> ran")):
        (tmp_path / name).write_text(f"cd {tmp_path}\n{line}\n")
    files.run_init_scripts(str(tmp_path))
    assert (tmp_path / "ran").read_text() == "first\nsecond\n"
    (tmp_path / "4.sh").write_text("exit 7")
    with pytest.raises(OSError, match=r"4\.sh ended with status 7"):
        files.run_init_scripts(str(tmp_path))
    files.run_init_scripts(str(tmp_path / "none"))


def test_a_container_with_another_command_needs_no_valid_listeners() -> None:
    """Files name variables that their image wants to see, with such values, beside a command that starts no broker."""
    ignored = {"KAFKA_ADVERTISED_LISTENERS": "ignored", "KAFKA_BROKER_ID": "ignored"}
    assert printed_command(ignored, "bash", "-c", "true") == ["bash", "-c", "true"]


def test_ports_of_the_controller_and_of_jmx_are_opened_and_stay_silent() -> None:
    command = printed_command({**COUNTED, "KAFKA_JMX_PORT": "9101", "KAFKA_OPTS": "-Dx=y"})
    assert values(command, "--silent-port") == ["0.0.0.0:9094", "0.0.0.0:9101"]
    options = "-Dcom.sun.management.jmxremote -Dcom.sun.management.jmxremote.port=9999"
    assert values(printed_command({"KAFKA_JMX_OPTS": options}), "--silent-port") == ["0.0.0.0:9999"]


def test_a_controller_without_a_broker_keeps_its_port_open_until_it_is_stopped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    environment = {
        "KAFKA_PROCESS_ROLES": "controller",
        "KAFKA_NODE_ID": "7",
        "KAFKA_LISTENERS": f"CONTROLLER://127.0.0.1:{port}",
    }
    with started(environment, may_log_errors=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        assert "[KafkaRaftServer nodeId=7] Kafka Server started" in lines[1]
        assert process.stderr is not None
        assert "controller 7 only tells the brokers which of them holds the logs" in process.stderr.readline()
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"anything")
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)


SEVERAL = {
    **COUNTED,
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "2@kafka-2:9093, 1@kafka-1:9094,3@kafka-3:9093",
}


@pytest.mark.parametrize(
    ("changed", "places"),
    [
        ({"KAFKA_NODE_ID": "3"}, ["1@kafka-1:9094", "2@kafka-2:9093", "3@kafka-3:9093"]),
        ({"KAFKA_NODE_ID": "4", "KAFKA_PROCESS_ROLES": "broker", "KAFKA_CONTROLLER_QUORUM_VOTERS": "9@c:1"}, ["9@c:1"]),
        (
            {
                "KAFKA_CONTROLLER_QUORUM_VOTERS": "",
                "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "kafka-1:9094, kafka-2:9093",
            },
            ["kafka-1:9094", "kafka-2:9093"],
        ),
        ({"KAFKA_NODE_ID": "1", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093"}, []),
        ({"KAFKA_PROCESS_ROLES": "", "KAFKA_ZOOKEEPER_CONNECT": "zk:2181/x"}, ["zookeeper://zk:2181/x"]),
        ({"MINIBROKER_BROKERS": "3"}, []),
    ],
)
def test_brokers_of_several_containers_meet_at_their_controllers_or_in_zookeeper(
    changed: Mapping[str, str], places: list[str]
) -> None:
    command = printed_command({**SEVERAL, "KAFKA_JMX_PORT": "9101", **changed})
    assert values(command, "--meet") == places
    assert values(command, "--link") == (["0.0.0.0:9094"] if places else [])
    assert values(command, "--silent-port") == (["0.0.0.0:9101"] if places else ["0.0.0.0:9094", "0.0.0.0:9101"])


def test_the_listener_of_confluent_local_needs_no_protocol() -> None:
    listed = "PLAINTEXT://kafka:29092,CONTROLLER://kafka:29093,PLAINTEXT_HOST://0.0.0.0:9092"
    command = printed_command({"KAFKA_LISTENERS": listed})
    assert (values(command, "--listen"), values(command, "--also-listen")) == (["kafka:29092"], ["0.0.0.0:9092"])


def test_a_properties_file_as_the_command_starts_the_broker_as_in_ubuntus_image() -> None:
    command = printed_command({}, "/etc/kafka/server.properties", "--override", "num.partitions=3")
    assert command == ["kafka-server-start", "/etc/kafka/server.properties", "--override", "num.partitions=3"]


def test_a_variable_of_cp_server_opens_its_http_port() -> None:
    reporter = {"KAFKA_METRIC_REPORTERS": "io.confluent.metrics.reporter.ConfluentMetricsReporter"}
    assert values(printed_command(reporter), "--admin-api") == []
    command = printed_command({**reporter, "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1"})
    assert values(command, "--admin-api") == ["confluent=0.0.0.0:8090"]


def test_confluents_authorizer_has_kafkas_in_its_place() -> None:
    variable = {"KAFKA_AUTHORIZER_CLASS_NAME": "io.confluent.kafka.security.authorizer.ConfluentServerAuthorizer"}
    shown = run(variable, "--print-command")
    assert "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer" in shown.stdout
    assert "is Confluent's" in shown.stderr
