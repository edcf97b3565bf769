"""The container's entry point, run as a plain process, as in the container."""

import contextlib
import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pytest

from minibroker.security.sasl.jaas import parse_jaas
from minibroker_container import entrypoint, vendors
from tests.broker.security.sasl.login import authenticate, handshake
from tests.broker.socket_client import SocketClient
from tests.patience import PATIENCE_S
from tests.programs import run_program

ROOT = Path(__file__).parents[2]
ENTRYPOINT = ROOT / "docker" / "entrypoint.py"

NO_REGISTRY = {"MINIBROKER_REGISTRY": ""}
"""Keeps a test from listening on port 8081 of the machine."""
Completed: TypeAlias = "subprocess.CompletedProcess[str]"


def run(environment: Mapping[str, str], *arguments: str) -> Completed:
    """Run the entry point with nothing else in its environment: in this process if it only prints or writes."""
    variables, command = {**NO_REGISTRY, **environment}, [str(ENTRYPOINT), *arguments]
    if arguments[:1] not in {("--print-command",), ("--write-properties",)}:
        return run_program([sys.executable, *command], env=variables)
    out, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        patch.setattr(os, "environ", variables)
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            entrypoint.main(arguments)
    return subprocess.CompletedProcess(command, int(ended.value.code or 0), out.getvalue(), errors.getvalue())


def printed_command(environment: Mapping[str, str], *arguments: str) -> list[str]:
    """Return the words of the command that the container would run."""
    completed = run(environment, "--print-command", *arguments)
    assert completed.returncode == 0, completed.stderr
    return shlex.split(completed.stdout)


@contextlib.contextmanager
def started(environment: Mapping[str, str], *, may_log_errors: bool = False) -> Iterator["subprocess.Popen[str]"]:
    """Run the entry point until the block ends, and check that it stops at SIGTERM without an error.

    On Python 3.11, asyncio logs the cancellation of a connection that a silent port still has (`may_log_errors`).
    """
    command = [sys.executable, str(ENTRYPOINT)]
    with subprocess.Popen(
        command, env={**NO_REGISTRY, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert may_log_errors or "Traceback" not in errors, errors


def values(command: list[str], option: str) -> list[str]:
    """Return the argument after each `option` in the command."""
    return [value for name, value in pairwise(command) if name == option]


def test_an_empty_environment_serves_the_machine_that_publishes_the_port() -> None:
    assert printed_command({}) == [
        *("minibroker", "serve"),
        *("--listen", "0.0.0.0:9092"),
        *("--advertise", "localhost:9092"),
        *("--data-dir", "/var/lib/minibroker"),
        *("--zookeeper", "0.0.0.0:2181"),  # Compose files name the images of ZooKeeper without variables, too.
    ]
    for environment in ({"KAFKA_NODE_ID": "1"}, {"MINIBROKER_TOPICS": "orders"}):
        assert "--zookeeper" not in printed_command(environment)


def test_the_environment_of_a_single_node_compose_file_is_understood() -> None:
    command = printed_command(
        {
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:19092,CONTROLLER://localhost:9093",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka.example:29092",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        }
    )
    assert values(command, "--listen") == ["0.0.0.0:19092"]
    assert values(command, "--advertise") == ["kafka.example:29092"]
    assert values(command, "--set") == [
        "auto.create.topics.enable=false",
        "controller.listener.names=CONTROLLER",
        "node.id=1",
        "process.roles=broker,controller",
    ]


@pytest.mark.parametrize(
    ("variable", "config"),
    [
        ("KAFKA_LOG_SEGMENT_BYTES", "log.segment.bytes"),
        ("KAFKA_CFG_LOG_SEGMENT_BYTES", "log.segment.bytes"),
        ("KAFKA_CONFLUENT_METRICS__NAME", "confluent.metrics_name"),
        ("KAFKA_SASL_SCRAM___SHA_512", "sasl.scram-sha.512"),
        ("KAFKA_MY_KAFKA_HOST", "my.kafka.host"),
    ],
)
def test_underscores_of_a_variable_become_dots_underscores_and_dashes(variable: str, config: str) -> None:
    assert values(printed_command({variable: "a b=c"}), "--set") == [f"{config}=a b=c"]


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_PORT_9092_TCP_ADDR",
        "KAFKA_SERVICE_HOST",
        "PATH",
    ],
)
def test_variables_that_are_no_broker_configs_are_skipped(variable: str) -> None:
    assert printed_command({variable: "anything"}) == printed_command({})


def test_the_id_of_the_cluster_becomes_a_setting_unless_it_is_empty() -> None:
    assert values(printed_command({"CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk"}), "--set") == [
        "minibroker.cluster.id=MkU3OEVBNTcwNTJENDM2Qk"
    ]
    assert printed_command({"CLUSTER_ID": ""}) == printed_command({})


def test_all_listeners_but_the_controllers_are_served() -> None:
    environment = {
        "KAFKA_LISTENERS": "PLAINTEXT_HOST://:9092, PLAINTEXT://broker:29092, CTRL://:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CTRL",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT,CTRL:PLAINTEXT",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:29092",
    }
    command = printed_command(environment)
    assert values(command, "--listen") == ["broker:29092"]
    assert values(command, "--advertise") == ["broker:29092"]
    assert values(command, "--also-listen") == ["0.0.0.0:9092=localhost:9092"]
    assert run(environment, "--print-command").stderr == ""


def test_listeners_with_tls_or_sasl_are_passed_on_with_all_that_is_said_of_them(tmp_path: Path) -> None:
    login = tmp_path / "jaas.conf"
    login.write_text('KafkaServer {\n  x.PlainLoginModule required user_alice="a;b";\n};\nClient { x.Y required; };\n')
    command = printed_command(
        {
            "KAFKA_LISTENERS": "PLAINTEXT://:9092,SASL_SSL://:9093",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:9092,SASL_SSL://localhost:9093",
            "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
            "KAFKA_SSL_KEYSTORE_LOCATION": "/etc/kafka/secrets/broker.p12",
            "KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={login}",
        }
    )
    assert "--listen" not in command
    assert values(command, "--set") == [
        "sasl.enabled.mechanisms=PLAIN",
        "ssl.keystore.location=/etc/kafka/secrets/broker.p12",
        "listeners=PLAINTEXT://:9092,SASL_SSL://:9093",
        "advertised.listeners=PLAINTEXT://broker:9092,SASL_SSL://localhost:9093",
        "plain.sasl.jaas.config=[hidden]",
    ]


def test_users_of_bitnamis_image_may_log_in_by_every_mechanism() -> None:
    environment = {
        "KAFKA_CFG_LISTENERS": "PLAIN://:9092,SASL://:9093",
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "KAFKA_CFG_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-256",
        "KAFKA_OPTS": "-Djava.security.auth.login.config=/opt/bitnami/kafka/config/kafka_jaas.conf",
        "KAFKA_CLIENT_USERS": "alice, b=b",
        "KAFKA_CLIENT_PASSWORDS": 'a\\"c;,secret',
        "KAFKA_CLIENT_SASL_MECHANISMS": "SCRAM-SHA-256,PLAIN",
        "KAFKA_INTER_BROKER_USER": "broker",
        "KAFKA_INTER_BROKER_PASSWORD": "between",
        "KAFKA_KRAFT_CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
    }
    options, secrets = entrypoint.serve_options(environment)
    settings = dict(each.split("=", 1) for each in values(options, "--set"))
    assert settings["minibroker.cluster.id"] == "MkU3OEVBNTcwNTJENDM2Qk"
    assert not any(name.startswith(("client.", "inter.broker.user", "kraft.")) for name in settings)
    for mechanism, module in (("plain", "Plain"), ("scram-sha-256", "Scram"), ("scram-sha-512", "Scram")):
        login = parse_jaas(secrets[f"{mechanism}.sasl.jaas.config"])
        assert login.module.endswith(f".{module}LoginModule")
        assert login.options == {"user_alice": 'a\\"c;', "user_b=b": "secret", "user_broker": "between"}


def test_key_stores_are_found_where_the_images_have_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrypoint, "SECRETS_DIR", str(tmp_path))
    (tmp_path / "credentials").write_text("secret\n")
    environment = {
        "KAFKA_LISTENERS": "SSL://:9093",
        "KAFKA_SSL_KEYSTORE_FILENAME": "broker.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "credentials",
        "KAFKA_SSL_KEY_CREDENTIALS": "credentials",
    }
    options, secrets = entrypoint.serve_options(environment)
    assert values(options, "--set")[0] == f"ssl.keystore.location={tmp_path / 'broker.p12'}"
    assert secrets == {"ssl.keystore.password": "secret", "ssl.key.password": "secret"}


@pytest.mark.skipif(sys.platform != "linux", reason="containers run on Linux, and so do memfd_create and /proc")
def test_secrets_reach_the_broker_and_no_command_line(tmp_path: Path, path_with_minibroker: str) -> None:
    secret = 'pa\\ss=wo rd"\N{EURO SIGN}'
    environment = {
        "PATH": path_with_minibroker,
        "KAFKA_LISTENERS": "SASL_PLAINTEXT://127.0.0.1:0",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_CLIENT_USERS": "alice",
        "KAFKA_CLIENT_PASSWORDS": secret,
        "KAFKA_SSL_KEYSTORE_PASSWORD": "of-a-variable",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
    }
    shown = run(environment, "--print-command").stdout
    assert "[hidden]" in shown
    with started(environment) as process:
        assert process.stdout is not None
        ready = re.search(r"bootstrap=(?:\S+?://)?(127\.0\.0\.1):(\d+)", process.stdout.readline())
        assert ready is not None
        arguments = Path(f"/proc/{process.pid}/cmdline").read_text(encoding="utf-8")
        assert "serve" in arguments
        for text in (shown, arguments):
            assert "alice" not in text
            assert "of-a-variable" not in text
            assert "pa" + "\\" not in text
        with SocketClient((ready[1], int(ready[2]))) as client:
            handshake(client, "PLAIN")
            assert authenticate(client, f"\0alice\0{secret}".encode()).error_code == 0


def test_without_listeners_all_advertised_ports_are_served_as_in_cp_kafka() -> None:
    command = printed_command(
        {
            "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        }
    )
    assert (values(command, "--listen"), values(command, "--advertise")) == (["0.0.0.0:29092"], ["broker:29092"])
    assert values(command, "--also-listen") == ["0.0.0.0:9092=localhost:9092"]


def test_without_listeners_port_9092_is_served_whatever_is_advertised() -> None:
    command = printed_command({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:32768"})
    assert (values(command, "--listen"), values(command, "--advertise")) == (["0.0.0.0:32768"], ["localhost:32768"])
    assert values(command, "--also-listen") == ["0.0.0.0:9092=localhost:32768"]


def test_a_listener_may_have_any_name_that_has_a_protocol() -> None:
    command = printed_command(
        {"KAFKA_LISTENERS": "INSIDE://[::]:9095", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT"}
    )
    assert values(command, "--listen") == ["[::]:9095"]
    assert values(command, "--advertise") == []


def test_variables_of_minibroker_go_before_those_of_kafka() -> None:
    command = printed_command(
        {
            "KAFKA_LISTENERS": "SSL://:9093",
            "KAFKA_LOG_DIRS": "/elsewhere",
            "MINIBROKER_LISTEN": "127.0.0.1:0",
            "MINIBROKER_ADVERTISE": "localhost:1",
            "MINIBROKER_DATA_DIR": "/data",
            "MINIBROKER_READY_FILE": "/run/ready",
            "MINIBROKER_BROKERS": "3",
            "MINIBROKER_CHAOS": "7:network",
            "MINIBROKER_RACKS": "a,b,c",
            "MINIBROKER_SEED_DATA": "/seeds.yaml",
            "MINIBROKER_TOPICS": "orders:3  audit:1:cleanup.policy=compact",
        }
    )
    assert command[2:] == [
        *("--listen", "127.0.0.1:0"),
        *("--advertise", "localhost:1"),
        *("--data-dir", "/data"),
        *("--ready-file", "/run/ready"),
        *("--brokers", "3"),
        *("--chaos", "7:network"),
        *("--racks", "a,b,c"),
        *("--seed-data", "/seeds.yaml"),
        *("--topic", "orders:3"),
        *("--topic", "audit:1:cleanup.policy=compact"),
    ]


@pytest.mark.parametrize("variable", ["KAFKA_LOG_DIRS", "KAFKA_LOG_DIR"])
def test_log_directories_become_the_data_directory(variable: str) -> None:
    command = printed_command({variable: "/var/lib/kafka/data,/second"})
    assert values(command, "--data-dir") == ["/var/lib/kafka/data"]
    assert values(command, "--set") == []


def test_a_misspelt_variable_of_minibroker_is_named_on_stderr() -> None:
    completed = run({"MINIBROKER_TOPIC": "orders", "MINIBROKER_PORT": "tcp://10.0.0.1:9092"}, "--print-command")
    assert "no effect: MINIBROKER_TOPIC=orders; minibroker has no such variable" in completed.stderr
    assert "MINIBROKER_PORT" not in completed.stderr


def test_a_mounted_server_properties_is_read_and_variables_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = tmp_path / "server.properties"
    monkeypatch.setattr(entrypoint, "MOUNTED_CONFIG", str(mounted))
    assert "--config" not in entrypoint.serve_options({})[0]
    mounted.write_text("listeners=PLAINTEXT://:9096,CONTROLLER://:9093\nlog.dirs=/mounted\nnum.partitions=3\n")
    options, _ = entrypoint.serve_options({"KAFKA_LOG_DIRS": "/mine"})
    assert values(options, "--config") == [str(mounted)]
    assert values(options, "--listen") == ["0.0.0.0:9096"]
    assert values(options, "--data-dir") == ["/mine"]
    assert values(options, "--set") == []


def test_arguments_with_a_dash_are_further_options_and_a_word_is_another_command() -> None:
    assert printed_command({}, "--topic", "orders")[-2:] == ["--topic", "orders"]
    assert printed_command({"KAFKA_LISTENERS": "SSL://:9093"}, "minibroker", "--help") == ["minibroker", "--help"]


@pytest.mark.parametrize(
    ("environment", "port"),
    [
        ({"ZOOKEEPER_CLIENT_PORT": "32181", "ZOOKEEPER_TICK_TIME": "2000", "KAFKA_HEAP_OPTS": "-Xmx1G"}, "32181"),
        ({"ALLOW_ANONYMOUS_LOGIN": "yes"}, "2181"),
        ({"ZOO_PORT_NUMBER": "3181"}, "3181"),
        ({"ZOO_MY_ID": "1", "ZOO_SERVERS": "server.1=zoo1:2888:3888;2181"}, "2181"),
    ],
)
def test_the_variables_of_a_zookeepers_image_alone_start_one(environment: Mapping[str, str], port: str) -> None:
    assert printed_command(environment) == ["zookeeper-server-start", port, "/var/lib/zookeeper"]
    assert printed_command({**environment, "KAFKA_BROKER_ID": "1"})[0] == "minibroker"


def test_the_address_of_a_zookeeper_in_kubernetes_starts_none() -> None:
    links = {"ZOOKEEPER_CLIENT_PORT": "tcp://10.0.0.1:2181", "ZOO_PORT": "tcp://10.0.0.1:2181"}
    assert printed_command(links)[0] == "minibroker"


def test_a_command_that_is_not_there_is_named_and_what_may_stand_in_its_place() -> None:
    completed = run({"PATH": os.defpath}, "serve", "--topic", "orders")
    assert completed.returncode == 1
    assert "serve: there is no such command. Options of `minibroker serve` begin with a dash" in completed.stderr


def test_another_command_takes_the_place_of_the_process() -> None:
    completed = run({"PATH": os.defpath}, "sh", "-c", "exit 7")
    assert completed.returncode == 7


@pytest.fixture
def path_with_minibroker(tmp_path: Path) -> str:
    """Create a PATH with a `minibroker` that runs this checkout, even if it is not installed."""
    script = tmp_path / "minibroker"
    rooms = os.pathsep.join(str(ROOT / room) for room in (".", "protocol", "storage"))
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(rooms)} exec {shlex.quote(sys.executable)} -m minibroker "$@"\n'
    )
    script.chmod(0o755)
    return os.pathsep.join([str(tmp_path), os.defpath])


def test_the_container_serves_and_stops_at_sigterm(tmp_path: Path, path_with_minibroker: str) -> None:
    environment = {
        "PATH": path_with_minibroker,
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0,CONTROLLER://:9093",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
        "MINIBROKER_TOPICS": "orders:2",
    }
    with started(environment) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        match = re.match(r"minibroker ready: bootstrap=127\.0\.0\.1:(\d+) .*pid=(\d+)$", ready)
        assert match, ready
        assert int(match[2]) == process.pid
        assert '"orders"' in (tmp_path / "data" / "minibroker-topics.json").read_text()
        properties = (tmp_path / "data" / "meta.properties").read_text().splitlines()
        assert "cluster.id=MkU3OEVBNTcwNTJENDM2Qk" in properties


def test_a_volume_of_another_cluster_is_refused_by_its_name(tmp_path: Path, path_with_minibroker: str) -> None:
    meta = tmp_path / "meta.properties"
    meta.write_text("version=1\ncluster.id=mine\nnode.id=1\n")
    completed = run(
        {
            "PATH": path_with_minibroker,
            "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
            "KAFKA_LOG_DIRS": str(tmp_path),
            "CLUSTER_ID": "another",
        }
    )
    assert (completed.returncode, completed.stdout) == (1, "")
    assert f"{meta} belongs to cluster mine, but the cluster's id is configured as another" in completed.stderr
    assert "Traceback" not in completed.stderr
    assert meta.read_text() == "version=1\ncluster.id=mine\nnode.id=1\n"


def test_the_lines_by_which_a_started_kafka_is_recognized_follow_once_clients_can_connect(
    tmp_path: Path, path_with_minibroker: str
) -> None:
    environment = {
        "PATH": path_with_minibroker,
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_BROKER_ID": "5",
    }
    awaited = (
        "Creating new log file",
        "Transitioning from RECOVERY to RUNNING",
        "[KafkaRaftServer nodeId=5] Kafka Server started",
        "[KafkaServer id=5] started",
        "Kafka broker started",
    )
    with started(environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("minibroker ready: ")
        lines = iter(process.stdout.readline, "")
        for text in awaited:
            assert any(text in line for line in lines), text


@pytest.mark.parametrize(
    ("environment", "addresses"),
    [
        ({}, ["0.0.0.0:8081"]),
        ({"MINIBROKER_REGISTRY": "9000"}, ["0.0.0.0:9000"]),
        ({"MINIBROKER_REGISTRY": "127.0.0.1:0"}, ["127.0.0.1:0"]),
        ({"MINIBROKER_REGISTRY": ""}, []),
        ({"ADV_HOST": "kafka", "REGISTRY_PORT": "0"}, []),
    ],
)
def test_a_container_has_a_registry_unless_a_variable_turns_it_off(
    environment: dict[str, str], addresses: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendors, "_BRIDGES", str(tmp_path / "*" / "bridge"))
    assert values(entrypoint.container_command(environment, [], lambda _: []), "--registry") == addresses


def test_a_container_in_the_network_of_its_host_has_a_registry_only_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendors, "_BRIDGES", str(tmp_path / "*" / "bridge"))
    (tmp_path / "docker0" / "bridge").mkdir(parents=True)
    for environment, addresses in (({}, []), ({"MINIBROKER_REGISTRY": "9000"}, ["0.0.0.0:9000"])):
        assert values(entrypoint.container_command(environment, [], lambda _: []), "--registry") == addresses


def test_a_taken_port_of_the_registry_is_a_line_in_the_log(tmp_path: Path, path_with_minibroker: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        environment = {
            "PATH": path_with_minibroker,
            "MINIBROKER_LOG_LINES": "kafka",
            "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
            "KAFKA_LOG_DIRS": str(tmp_path / "data"),
            "MINIBROKER_REGISTRY": address,
        }
        with started(environment) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            line = next(line for line in process.stdout if line.startswith("minibroker ready: "))
            assert "registry=" not in line
            warning = next(line for line in process.stderr if "schema registry" in line)
            assert f"there is no schema registry: cannot listen on {address} for the registry" in warning
