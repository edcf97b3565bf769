"""Tools that start, stop or replace servers."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker_tools.commands import zookeeper
from minibroker_tools.commands.server import list_processes, stop_brokers
from tests.command_line_tools.runs import IN_THIS_PROCESS, run_tool
from tests.patience import PATIENCE_S, eventually
from tests.programs import module_command


@contextmanager
def run_server(*words: str) -> Iterator[subprocess.Popen[str]]:
    command = [*module_command("minibroker_tools"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_line(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if text in line)


def ask_zookeeper(port: int, word: bytes, timeout_s: float = PATIENCE_S) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as client:
        client.sendall(word)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(1024), b""))


def test_the_port_of_a_zookeeper_opens_answers_probes_and_says_what_it_is(tmp_path: Path) -> None:
    properties = tmp_path / "zookeeper.properties"
    properties.write_text("dataDir=/nowhere\nclientPort=0\nclientPortAddress=127.0.0.1\n")
    with run_server("zookeeper-server-start", str(properties)) as server:
        port = int(wait_for_line(server, "binding to port").partition("/127.0.0.1:")[2].split()[0])
        assert "a small ZooKeeper of minibroker" in wait_for_line(server, "ZooKeeper")
        assert ask_zookeeper(port, b"ruok") == b"imok"
        assert b"Mode: standalone" in ask_zookeeper(port, b"srvr")
        assert ask_zookeeper(port, b"\0\0\0\x2d") == b""
        assert run_tool("cub", "zk-ready", f"127.0.0.1:{port}/chroot", "5").status == 0
        assert run_tool("dub", "wait", "127.0.0.1", str(port), "5").status == 0
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0
        refused = run_tool("dub", "wait", "127.0.0.1", str(port), "0.1")
    assert (refused.status, "accepted no connection" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("text", "message"), [("clientPort=soon\n", "clientPort: 'soon' is no port"), (None, "No such file or directory")]
)
def test_a_zookeeper_that_cannot_start_says_why(text: str | None, message: str, tmp_path: Path) -> None:
    properties = tmp_path / "my.properties"
    if text is not None:
        properties.write_text(text)
    refused = run_tool("zookeeper-server-start", str(properties))
    assert (refused.status, message in refused.err) == (1, True)


@IN_THIS_PROCESS
def test_a_zookeeper_takes_a_port_and_a_directory_or_needs_no_file_of_kafkas_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper, "_DEFAULT_PORT", "no default")
    for words, port in ((["soon", str(tmp_path)], "soon"), ([str(tmp_path / "zookeeper.properties")], "no default")):
        refused = run_tool("zookeeper-server-start", *words)
        assert (refused.status, f"clientPort: {port!r} is no port" in refused.err) == (1, True)


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    properties = tmp_path / "zookeeper.properties"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        properties.write_text(f"clientPort={port}\nclientPortAddress=127.0.0.1\n")
        refused = run_tool("zookeeper-server-start", str(properties))
    assert (refused.status, refused.err) == (1, f"clientPort {port} cannot be opened: Address already in use\n")


def test_the_shell_shows_brokers_topics_and_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(config={"node.id": "1"}) as broker:
        broker.create_topic("orders", partitions=2)
        monkeypatch.setenv("MINIBROKER_TOOLS_BOOTSTRAP", broker.bootstrap_servers)

        def shell(*words: str, stdin: bytes = b"") -> tuple[int, str]:
            printed = run_tool("zookeeper-shell", "localhost:2181", *words, stdin=stdin)
            assert "no ZooKeeper is asked at localhost:2181" in printed.err
            assert printed.out.startswith("Connecting to localhost:2181\n\nWATCHER::\n")
            return printed.status, printed.out.splitlines()[-1]

        assert shell("ls", "/brokers/ids") == (0, "[1]")
        assert shell("ls", "/brokers/topics") == (0, "[orders]")
        status, line = shell("get", "/brokers/ids/1")
        host, port = broker.bootstrap_servers.split(":")
        assert (status, json.loads(line)["endpoints"]) == (0, [f"PLAINTEXT://{host}:{port}"])
        assert json.loads(shell("get", "/brokers/topics/orders")[1])["partitions"] == {"0": [1], "1": [1]}
        cluster_id = run_tool("kafka-cluster", "cluster-id", "--bootstrap-server", broker.bootstrap_servers).out
        assert json.loads(shell("get", "/cluster/id")[1])["id"] in cluster_id
        assert json.loads(shell("get", "/controller")[1])["brokerid"] == 1
        assert shell("get", "/brokers/ids/7") == (1, "Node does not exist: /brokers/ids/7")
        assert shell(stdin=b"ls /\nquit\nls /brokers\n") == (0, "[brokers, cluster, controller]")


def broker_properties(directory: Path) -> Path:
    path = directory / "server.properties"
    path.write_text(f"node.id=3\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={directory / 'data'}\n")
    return path


def test_a_broker_starts_with_a_properties_file_and_overrides_and_is_stopped(tmp_path: Path) -> None:
    properties = broker_properties(tmp_path)
    with run_server("kafka-server-start", str(properties), "--override", "num.partitions=3") as server:
        address = wait_for_line(server, "127.0.0.1:").partition("127.0.0.1:")[2]
        port = "".join(character for character in address.split()[0] if character.isdecimal())
        bootstrap = ("--bootstrap-server", f"127.0.0.1:{port}")
        assert run_tool("kafka-topics", *bootstrap, "--create", "--topic", "orders").status == 0
        assert "PartitionCount: 3" in run_tool("kafka-topics", *bootstrap, "--describe", "--topic", "orders").out

        def server_processes() -> list[tuple[int, Sequence[str]]]:
            return [process for process in list_processes() if process[0] == server.pid]

        eventually(lambda: bool(server_processes()))
        assert stop_brokers(server_processes()) == 0
        assert server.wait(PATIENCE_S) == 0


def test_only_brokers_are_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    assert stop_brokers([(os.getpid(), ["python", "-m", "pytest", "minibroker", "serve"])]) == 1
    assert capsys.readouterr().out == "No kafka server to stop\n"


def test_a_broker_without_a_readable_file_or_with_a_wrong_override_does_not_start(tmp_path: Path) -> None:
    missing = run_tool("kafka-server-start", str(tmp_path / "missing"))
    assert (missing.status, missing.err) == (1, f"{tmp_path / 'missing'}: the file cannot be read\n")
    refused = run_tool("kafka-server-start", str(broker_properties(tmp_path)), "--override", "num.partitions")
    assert (refused.status, refused.err) == (1, "--override: 'num.partitions' is not KEY=VALUE\n")


def test_dub_waits_for_a_path(tmp_path: Path) -> None:
    assert run_tool("dub", "path-wait", str(tmp_path), "1").status == 0
    refused = run_tool("dub", "path-wait", str(tmp_path / "missing"), "0.1")
    assert (refused.status, "was not there within 0.1 s" in refused.err) == (1, True)


TEMPLATE = """\
{% set excluded = ['KAFKA_VERSION', 'KAFKA_HEAP_OPTS'] -%}
{% set props = env_to_props('KAFKA_', '', exclude=excluded) -%}
{% for name, value in props | dictsort -%}
{{name}}={{value}}
{% endfor -%}
{% set loggers = {'kafka': 'INFO', 'kafka.controller': 'TRACE'} -%}
{% if env['KAFKA_LOG4J_LOGGERS'] -%}
{% set loggers = parse_log4j_loggers(env['KAFKA_LOG4J_LOGGERS'], loggers) -%}
{% endif -%}
{% for logger, level in loggers.items() -%}
log4j.logger.{{logger}}={{level}}
{% endfor -%}
missing={{env['NO_SUCH_VARIABLE']}}<{{env.get('NEITHER', 'default')}}>
"""


def test_dub_fills_in_a_template_as_confluents_images_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "kafka.properties.template", tmp_path / "kafka.properties"
    source.write_text(TEMPLATE)
    for name in [variable for variable in os.environ if variable.startswith("KAFKA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KAFKA_VERSION", "3.9.1")
    monkeypatch.setenv("KAFKA_NODE_ID", "7")
    monkeypatch.setenv("KAFKA_LISTENER_NAME_A__B_SCRAM___SHA___512_SASL_JAAS_CONFIG", "x <&> y")
    monkeypatch.setenv("KAFKA_LOG4J_LOGGERS", "kafka.controller=WARN,state.change=TRACE,odd")
    done = run_tool("dub", "template", str(source), str(target))
    assert (done.status, done.out, done.err) == (0, "", "")
    assert target.read_text().splitlines() == [
        "listener.name.a_b.scram-sha-512.sasl.jaas.config=x <&> y",
        "log4j.loggers=kafka.controller=WARN,state.change=TRACE,odd",
        "node.id=7",
        "log4j.logger.kafka=INFO",
        "log4j.logger.kafka.controller=WARN",
        "log4j.logger.state.change=TRACE",
        "missing=<default>",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{% for %}", "line 1: "),
        ("{{ env.x.y.z }}", "UndefinedError: "),
        ("{{ 1 / 0 }}", "ZeroDivisionError: "),
        ("{% include '/no/such/file' %}", "there is no file /no/such/file"),
        (None, "there is no file "),
    ],
)
def test_dub_refuses_a_template_in_one_line_and_keeps_the_file(
    tmp_path: Path, text: str | None, complaint: str
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    if text is not None:
        source.write_text(text)
    target.write_text("before")
    refused = run_tool("dub", "template", str(source), str(target))
    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert complaint in refused.err
    assert target.read_text() == "before"


def test_dub_names_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("x")
    refused = run_tool("dub", "template", str(tmp_path / "source"), str(tmp_path))
    assert (refused.status, refused.err) == (1, f"template: {tmp_path} cannot be written: Is a directory\n")
