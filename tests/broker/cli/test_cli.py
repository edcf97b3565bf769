"""The command line: its commands, its exit status, and its messages about invalid arguments."""

import gc
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from minibroker import Broker, __version__
from minibroker.cli.main import main, make_parser
from minibroker.cluster.node import NodesFile
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.socket_client import SocketClient
from tests.kafka.real_kafka import free_ports
from tests.patience import PATIENCE_S
from tests.programs import module_command, run_program

ROOT: Final = Path(__file__).parents[3]


class Served:
    """`minibroker serve` in a process of its own, once it is ready."""

    def __init__(self, options: tuple[str, ...], temporary: Path) -> None:
        path = os.pathsep.join(str(ROOT / room) for room in (".", "protocol", "storage"))
        self.child = subprocess.Popen(
            [*module_command("minibroker"), "serve", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(temporary)},
        )
        self.temporary = temporary
        self.line = self._first_line()
        self.words = dict(word.split("=", 1) for word in self.line.split() if "=" in word)

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.words["bootstrap"].split(",")[0].rpartition(":")
        return host, int(port)

    def metadata(self) -> MetadataResponse:
        with SocketClient(self.address) as client:
            response = client.ask(MetadataRequest(topics=None), 12)
            assert isinstance(response, MetadataResponse)
            return response

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Stop the process, and return its status and its output after the first line."""
        self.child.send_signal(number)
        out, error = self.child.communicate(timeout=PATIENCE_S)
        return self.child.returncode, (out + error).decode()

    def close(self) -> None:
        self.child.kill()
        self.child.communicate()

    def _first_line(self) -> str:
        assert self.child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.child.stdout, selectors.EVENT_READ)
            if not selector.select(PATIENCE_S):
                self.close()
                raise AssertionError("the broker did not say that it is ready")
        line = self.child.stdout.readline().decode()
        if not line:
            raise AssertionError(f"the broker ended: {self.child.communicate()[1].decode()}")
        return line


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """A function that runs a broker on a free port, with an empty folder for temporary files."""
    (tmp_path / "temporary").mkdir()
    with ExitStack() as ends:

        def start(*options: str, listen: str | None = "127.0.0.1:0") -> Served:
            served = Served((*options, *(("--listen", listen) if listen else ())), tmp_path / "temporary")
            ends.callback(served.close)
            return served

        yield start


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_status_0_and_the_temporary_directory_is_gone(
    serve: Serve, number: signal.Signals
) -> None:
    served = serve("--topic", "t")
    data_dir = Path(served.words["data-dir"])
    assert data_dir.parent == served.temporary
    assert data_dir.is_dir()
    assert served.end(number) == (0, "")
    assert list(served.temporary.iterdir()) == []


def test_several_brokers_say_in_one_line_where_they_are(serve: Serve) -> None:
    served = serve("--brokers", "3", "--listen", "127.0.0.1:0")
    where = served.words["bootstrap"].split(",")
    assert [f"{node.host}:{node.port}" for node in served.metadata().brokers] == where
    assert len(set(where)) == 3
    assert served.end() == (0, "")


def test_brokers_have_the_racks_of_the_command_line(serve: Serve) -> None:
    served = serve("--listen", "127.0.0.1:0", "--racks", "a,,c")
    assert [node.rack for node in served.metadata().brokers] == ["a", None, "c"]


def test_racks_for_another_number_of_brokers_are_refused(refused: Callable[..., str]) -> None:
    assert "racks: 2 racks ('a', 'b') for 3 brokers; give one for each" in refused("--brokers", "3", "--racks", "a,b")


def test_where_each_of_several_listeners_is_stands_in_the_line_too(serve: Serve) -> None:
    served = serve(
        "--set", "listeners=PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
        "--set", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        listen=None,
    )  # fmt: skip
    first, second = served.words["listeners"].split(",")
    assert first == f"PLAINTEXT://{served.words['bootstrap']}"
    host, _, port = second.removeprefix("OTHER://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S):
        pass
    assert served.end() == (0, "")


def test_no_broker_at_all_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--brokers", "0"]) == 1
    assert gc.isenabled()
    assert "brokers: 0 is not at least 1" in capsys.readouterr().err


def test_it_says_in_one_line_that_it_is_ready(serve: Serve, tmp_path: Path) -> None:
    served = serve("--data-dir", str(tmp_path / "data"))
    host, port = served.address
    assert host == "127.0.0.1"
    pid = served.child.pid
    assert served.line == f"minibroker ready: bootstrap=127.0.0.1:{port} data-dir={tmp_path / 'data'} pid={pid}\n"
    assert served.metadata().brokers[0].port == port


def test_a_data_directory_that_was_named_stays(serve: Serve, tmp_path: Path) -> None:
    served = serve("--data-dir", str(tmp_path / "data"), "--topic", "kept:2")
    assert served.end() == (0, "")
    again = serve("--data-dir", str(tmp_path / "data"), "--topic", "kept:5")
    assert [(topic.name, len(topic.partitions)) for topic in again.metadata().topics] == [("kept", 2)]


def test_topics_are_created_with_partitions_and_configuration(serve: Serve, tmp_path: Path) -> None:
    options = ["--topic", "a", "--topic", "b:3", "--topic", "c:2:cleanup.policy=compact,delete,retention.ms=60000"]
    served = serve("--data-dir", str(tmp_path / "data"), "--set", "num.partitions=4", *options)
    assert [(topic.name, len(topic.partitions)) for topic in served.metadata().topics] == [("a", 4), ("b", 3), ("c", 2)]
    noted = (tmp_path / "data" / "minibroker-topics.json").read_text()
    assert '"cleanup.policy": "compact,delete"' in noted
    assert '"retention.ms": "60000"' in noted


def test_the_ready_file_names_the_address(serve: Serve, tmp_path: Path) -> None:
    served = serve("--ready-file", str(tmp_path / "ready"))
    assert (tmp_path / "ready").read_text() == f"{served.words['bootstrap']}\n"


def test_the_broker_stops_when_its_parent_is_gone(tmp_path: Path) -> None:
    options = ["--listen", "127.0.0.1:0", "--stop-with-stdin", "--ready-file", str(tmp_path / "ready")]
    child = subprocess.Popen(
        [*module_command("minibroker"), "serve", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child:
        assert child.stdout.readline().startswith(b"minibroker ready:")
        child.stdin.write(b"input does not matter\n")
        child.stdin.flush()
        assert child.poll() is None
        child.stdin.close()
        assert child.wait(PATIENCE_S) == 0
    assert list(tmp_path.iterdir()) == []


def test_clients_are_told_the_advertised_address(serve: Serve) -> None:
    broker = serve("--advertise", "broker.test:1234").metadata().brokers[0]
    assert (broker.host, broker.port) == ("broker.test", 1234)


def test_advertised_listeners_count_wherever_the_broker_listens(serve: Serve) -> None:
    served = serve("--set", "advertised.listeners=OTHER://elsewhere.test:1, PLAINTEXT://broker.test:1234")
    broker = served.metadata().brokers[0]
    assert (broker.host, broker.port) == ("broker.test", 1234)


def test_a_server_properties_says_where_to_listen_what_to_advertise_and_where_the_data_is(
    serve: Serve, tmp_path: Path
) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        "# as for Kafka\n"
        "listeners=CONTROLLER://127.0.0.1:19093,PLAINTEXT://127.0.0.1:0\n"
        "advertised.listeners=PLAINTEXT://127.0.0.1:9092\n"
        f"log.dirs={tmp_path}/one, {tmp_path}/two\n"
        "node.id=3\n"
        "num.partitions=2\n"
    )
    served = serve("--config", str(config), "--set", "num.partitions=5", "--topic", "t", listen=None)
    assert served.words["data-dir"] == f"{tmp_path}/one"
    response = served.metadata()
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(3, "127.0.0.1", 9092)]
    assert len(response.topics[0].partitions) == 5
    assert served.end() == (0, "")


def test_options_win_over_the_file(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"listeners=PLAINTEXT://no.such.host.test:1\nlog.dirs={tmp_path}/elsewhere\n")
    served = serve("--config", str(config), "--data-dir", str(tmp_path / "data"))
    assert served.words["data-dir"] == str(tmp_path / "data")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(("name", "text"), [("f.json", '[{"api": "Metadata", "topic": "t", "error": 5}]'), ("f", "[]")])
def test_a_file_says_what_is_to_go_wrong(serve: Serve, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    served = serve("--topic", "t", "--faults", str(tmp_path / name))
    (topic,) = served.metadata().topics
    assert topic.error_code == (5 if text != "[]" else 0)


def test_names_that_are_not_known_are_warned_of(serve: Serve) -> None:
    served = serve("--set", "no.such.name=1")
    assert served.end() == (0, "minibroker: no.such.name is not known and has no effect\n")
    served = serve("--set", "message.max.byte=1")
    _, stderr = served.end()
    assert stderr == "minibroker: message.max.byte is not known and has no effect; did you mean message.max.bytes?\n"


def test_a_zookeeper_to_meet_at_is_not_warned_of(serve: Serve) -> None:
    (port,) = free_ports(1)
    connect = f"127.0.0.1:{port}"
    served = serve("--set", f"zookeeper.connect={connect}", "--meet", f"zookeeper://{connect}", "--link", "127.0.0.1:0")
    reason = f"starts alone, since zookeeper.connect={connect} is this container, where no ZooKeeper runs"
    assert served.end() == (0, f"minibroker: this broker {reason}\n")


def test_a_broker_of_a_cluster_starts_again_before_the_others(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIBROKER_LOG_LINES", "none")
    nodes_file = NodesFile(str(tmp_path / "data"))
    nodes_file.keep_holder(1, 1)
    nodes_file.keep_node(2, None)
    meet = ("--meet", "1@127.0.0.1:1", "--link", "127.0.0.1:0")
    served = serve("--data-dir", str(tmp_path / "data"), "--set", "node.id=1", *meet)
    assert served.end() == (0, "")


# Tests of error messages, each of which is one line.


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """A function that runs an invalid command line, which must leave no files and print one line with the reason."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.chdir(tmp_path)

    def run(*options: str, listen: str = "127.0.0.1:0") -> str:
        assert main(["serve", "--listen", listen, *options]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        assert list(temporary.iterdir()) == []
        return line.removeprefix("minibroker: ")

    return run


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", ":-1"])
def test_an_address_that_is_none_is_named(refused: Callable[..., str], address: str) -> None:
    message = f"{address!r} is not HOST:PORT, with a port of 0 to 65535"
    assert refused(listen=address) == f"listen: {message}"
    assert refused("--advertise", address) == f"advertise: {message}"


@pytest.mark.parametrize("address", [":9092", "0.0.0.0:9092", "[::]:9092", "host.test:0"])
def test_an_address_that_leads_clients_nowhere_is_not_advertised(refused: Callable[..., str], address: str) -> None:
    assert refused("--advertise", address) == (
        f"advertise: {address!r} leads clients nowhere: they need a host other than 0.0.0.0, and a port other than 0"
    )


def test_a_topic_given_twice_is_refused(refused: Callable[..., str]) -> None:
    assert refused("--topic", "orders", "--topic", "orders:3") == "topic 'orders' is given 2 times"


def test_an_empty_data_directory_is_refused(refused: Callable[..., str]) -> None:
    assert refused("--data-dir", "") == "--data-dir is empty"


def test_a_data_directory_in_use_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path / "logs")):
        message = refused("--data-dir", str(tmp_path / "logs"))
    assert message == f"{tmp_path}/logs is in use by another broker ({tmp_path}/logs/.lock is locked)"


@pytest.mark.parametrize(
    ("listeners", "reason"),
    [
        ("127.0.0.1:0", "listeners: '127.0.0.1:0' is not NAME://HOST:PORT"),
        (
            "SSL://127.0.0.1:0",
            (
                "ssl.keystore.location is missing: TLS takes a key and a certificate, and "
                "`minibroker certificates DIR` writes some for tests"
            ),
        ),
    ],
)
def test_listeners_that_cannot_be_served_are_refused(tmp_path: Path, listeners: str, reason: str) -> None:
    completed = run_program(
        [*module_command("minibroker"), "serve", "--data-dir", str(tmp_path), "--set", f"listeners={listeners}"]
    )
    assert (completed.returncode, completed.stdout, completed.stderr) == (1, "", f"minibroker: {reason}\n")


def test_an_address_in_use_is_named(refused: Callable[..., str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refused(listen=f"127.0.0.1:{port}")
    assert message == (
        f"cannot listen on 127.0.0.1:{port}: Address already in use. Port 0 picks a free one: --listen 127.0.0.1:0, "
        "in Python Broker(listen='127.0.0.1:0')"
    )


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("a b", "give each topic separately"),
        ("", "Topic name is invalid"),
        (":3", "Topic name is invalid"),
        ("a:0", "Number of partitions"),
        ("a:x", "'x' is not a number of partitions"),
        ("a:-1", "'-1' is not a number of partitions"),
        ("a:1 b", "'1 b' is not a number of partitions; give each topic separately"),
        ("a:1:nothing", "'nothing' is not key=value"),
        ("a:1:no.such.key=1", "no.such.key"),
        ("a:1:retention.ms=soon", "retention.ms"),
        ("__cluster_metadata", "prohibited"),
    ],
)
def test_a_topic_that_cannot_be_is_named(refused: Callable[..., str], spec: str, word: str) -> None:
    message = refused("--topic", spec)
    assert word in message


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("nothing", "'nothing' is not KEY=VALUE"),
        ("num.partitions=many", "num.partitions"),
        ("num.partitions=0", "num.partitions"),
        ("log.segment.bytes=1", "log.segment.bytes"),
    ],
)
def test_a_setting_that_is_not_allowed_is_named(refused: Callable[..., str], setting: str, word: str) -> None:
    assert word in refused("--set", setting)


def test_a_file_that_cannot_be_read_is_named(refused: Callable[..., str], tmp_path: Path) -> None:
    assert refused("--config", "missing.properties") == "--config missing.properties: No such file or directory"
    assert refused("--config", ".") == "--config .: Is a directory"
    (tmp_path / "bad.properties").write_text("key=\\u12\n")
    assert refused("--config", "bad.properties").startswith("bad.properties: line 1: ")
    (tmp_path / "bytes.properties").write_bytes(b"key=\xff\n")
    assert refused("--config", "bytes.properties").startswith("bytes.properties: 'utf-8' codec")


def test_a_data_directory_that_cannot_be_is_named(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert refused("--data-dir", "file") == "--data-dir file: Not a directory"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "minibroker-topics.json").write_text("{")
    assert refused("--data-dir", "data").startswith("data/minibroker-topics.json is not JSON")


def test_faults_that_cannot_be_are_named_with_their_file(refused: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    assert refused("--faults", str(path)) == f"--faults {path}: No such file or directory"
    path.write_text('[{"api": "Fetch", "error": "OOPS"}]')
    message = refused("--faults", str(path))
    assert message == f"{path}: fault 1: error: 'OOPS' is neither the name nor the number of one of Kafka's errors"


def test_a_ready_file_goes_when_the_broker_stops_and_an_old_one_before_it_starts(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    ready.write_text("127.0.0.1:1\n")
    assert refused("--ready-file", str(ready), "--topic", "orders:0")
    assert not ready.exists()


def test_a_ready_file_that_cannot_be_written_is_named(refused: Callable[..., str]) -> None:
    assert refused("--ready-file", "missing/ready").startswith("--ready-file missing/ready")


@pytest.mark.parametrize("arguments", [[], ["serve", "--no-such-option"], ["fly"], ["serve", "--topic"]])
def test_arguments_that_are_not_understood_end_with_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    error, advice = capsys.readouterr().err.splitlines()
    assert "error: " in error
    assert advice.endswith("--help` explains the arguments")


@pytest.mark.parametrize(
    ("option", "value", "meant"),
    [
        ("--topics", "orders:4", "--topic"),
        ("--port", "9092", "--listen HOST:PORT"),
        ("--log-dirs", "data", "--data-dir DIR"),
        ("--override", "num.partitions=3", "--set KEY=VALUE"),
    ],
)
def test_the_option_that_was_probably_meant_is_named(
    option: str, value: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["serve", option, value])
    line, _ = capsys.readouterr().err.splitlines()
    assert line == f"minibroker serve: error: unrecognized arguments: {option} {value}; did you mean {meant}?"


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["serve", "--help"]])
def test_help_and_version_are_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert out == f"minibroker {__version__}\n" if arguments == ["--version"] else out.startswith("usage: minibroker")


def test_verbose_tells_requests_on_stderr(serve: Serve) -> None:
    served = serve("-v", "--topic", "t", "--log-format", "json")
    served.metadata()
    status, stderr = served.end()
    assert status == 0
    assert [json.loads(line)["message"].split()[:2] for line in stderr.splitlines()] == [["Metadata", "v12"]]


def test_a_client_that_speaks_tls_again_and_again_is_one_line(serve: Serve) -> None:
    served = serve()
    for _ in range(3):
        with socket.create_connection(served.address, PATIENCE_S) as client:
            client.sendall(b"\x16\x03\x01\x02\x00")
            assert client.recv(1) == b""
    (line,) = served.end()[1].splitlines()
    assert line.startswith("minibroker: a client speaks TLS")


def test_what_ends_a_start_is_json_where_that_is_asked_for(refused: Callable[..., str]) -> None:
    entry = json.loads(refused("--log-format", "json", "--topic", "orders:0"))
    assert (entry["level"], "Number of partitions" in entry["message"]) == ("CRITICAL", True)


def test_the_page_about_serving_has_every_option() -> None:
    page = (ROOT / "docs" / "serve.md").read_text()
    listed = {
        word
        for line in page.splitlines()
        if line.startswith("| `-")
        for word in re.findall(r"-[-\w]+", line.split("|")[1])
    }
    usage = make_parser(["serve"]).parse_args(["serve"]).parser.format_usage()
    assert set(re.findall(r"\[(--?[a-z][a-z-]*)", usage)) - {"-h"} == listed
