"""The common modes of kcat, compared with kcat itself."""

import os
import re
import socket
import subprocess
from functools import partial
from pathlib import Path

import pytest

from minibroker import Broker, Security
from tests.clients.contract import Message
from tests.clients.librdkafka_client import Librdkafka
from tests.clients.matrix.builds import kcat
from tests.command_line_tools.comparing import new_topic
from tests.command_line_tools.runs import Printed, run_tool
from tests.patience import PATIENCE_S
from tests.programs import module_command
from tests.sweeps import one_in

_TIMESTAMP = 1_600_000_000_000


@pytest.fixture(scope="module")
def real() -> tuple[str, dict[str, str]]:
    program, environment = kcat()
    return program, {**os.environ, **environment}


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Create a topic with one partition and five records."""
    name = new_topic(bootstrap)
    records = [Message(b"v%d" % n, key=b"k%d" % n, partition=0, timestamp=_TIMESTAMP + n) for n in range(4)]
    Librdkafka(bootstrap).produce(name, [*records, Message(None, partition=0, timestamp=_TIMESTAMP + 4)])
    return name


def run_real_kcat(real: tuple[str, dict[str, str]], *words: str, stdin: bytes = b"") -> Printed:
    program, environment = real
    ran = subprocess.run(
        [program, *words], input=stdin, capture_output=True, timeout=PATIENCE_S, check=False, env=environment
    )
    return Printed(ran.stdout.decode(errors="replace"), ran.stderr.decode(errors="replace"), ran.returncode)


@pytest.mark.parametrize(
    "words",
    one_in(
        8,
        [
            "-L -t {}",
            "-L -J -t {}",
            "-C -t {} -e",
            "-C -t {} -e -q -K:",
            "-C -t {} -e -q -Z -K:",
            "-C -t {} -e -u -D;",
            "-C -t {} -c 3 -f %t[%p]@%o:%k/%K/%s/%S/%T/%h%%\\n",
            "-Ct {} -c2 -f %R%s\\x41\\t",
            "-C -t {} -c 4 -J",
            "-C -t {} -e -J -o 3",
            "-C -t {} -p 0 -o -2 -e -q",
            "-C -t {} -e -q -o s@1600000000002",
            "-C -t {} -q -o e@1600000000002",
            "-C -t {} -e -o end",
            "-C -t {} -p 7 -e",
            "-C -t {}-none -e",
            "-C -t {} -e -f %q",
            "-C -t {} -c 0 -e",
            "-C -t {} -c -1 -e -q",
            "-C -t {} -e -q -o foo",
            "-C -t {} -e -q -o -0",
            "-C -t {} -e -q -o +2",
            "-C -t {} -e -q -o 3x",
            "-C -t {} -e -q -o 99",
            "-C -t {} -e -q -o s@soon",
            "-C -t {} -e -q -o stored -p 0",
            "-C -t {} -e -q -X foo=bar",
            "-C -t {} -e -q -X topic.acks=1 -X fetch.wait.max.ms=10",
            "-Q -t {}:0:1600000000003",
            "-Q -t {}:0:-2",
            "-Q -t {}",
            "-P -t {} -l /nowhere",
        ],
    ),
)
def test_lists_records_and_queries_are_printed_as_by_kcat(
    real: tuple[str, dict[str, str]], bootstrap: str, topic: str, words: str
) -> None:
    call = ("-m", "60", "-b", bootstrap, *words.replace("{}", topic).split())
    expected, found = run_real_kcat(real, *call), run_tool("kcat", *call)
    assert (found.out, found.status) == (expected.out, expected.status)
    remarks = [line for line in expected.err.splitlines() if not line.startswith("%3|")]
    assert found.err.splitlines()[:1] == remarks[:1]


@pytest.mark.parametrize(
    ("options", "stdin"),
    [
        ("-K: -H x=y -H z=", b"a:1\n\nb:\nc\n:z\n"),
        ("-K: -Z -k key", b":\nb\nc:\n:\n"),
        ("-D, -c 2 -T", b"a,b,c"),
        ("-p 0 -z gzip", b"one\ntwo"),
        ("-z zstd -X acks=1", b"one\n"),
    ],
)
def test_records_are_produced_as_by_kcat(
    real: tuple[str, dict[str, str]], bootstrap: str, options: str, stdin: bytes
) -> None:
    written: list[tuple[Printed, str]] = []
    for run in (partial(run_real_kcat, real), partial(run_tool, "kcat")):
        name = new_topic(bootstrap)
        printed = run("-m", "60", "-b", bootstrap, "-P", "-t", name, *options.split(), stdin=stdin)
        read = run_real_kcat(real, "-b", bootstrap, "-C", "-t", name, "-e", "-q", "-J").out
        written.append((printed._replace(err=""), re.sub(r'"ts":\d+', '"ts":0', read.replace(name, "topic"))))
    assert written[0] == written[1]
    assert '"payload"' in written[0][1]


def test_files_are_records_and_lines_of_a_file_too(bootstrap: str, tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(b"one\ntwo\n")
    words = ("-m", "60", "-b", bootstrap, "-t", new_topic(bootstrap))
    assert run_tool("kcat", *words, "-P", str(file)).status == 0
    assert run_tool("kcat", *words, "-P", "-l", str(file)).status == 0
    assert run_tool("kafkacat", *words, "-C", "-e", "-q", "-D|").out == "one\ntwo\n|one|two|"


def test_a_group_goes_on_where_it_stopped(bootstrap: str, topic: str) -> None:
    words = f"kcat -m 60 -b {bootstrap} -X auto.offset.reset=earliest -G g-{topic} {topic} -f %s,".split()
    assert run_tool(*words, "-c", "2").out == "v0,v1,"
    assert run_tool(*words, "-c", "2").out == "v2,v3,"


def test_a_group_that_has_read_everything_ends_and_leaves() -> None:
    with Broker(topics=["t:2"], journal=True) as broker:
        broker.produce("t", "a")
        words = ("kcat", "-b", broker.bootstrap_servers, "-G", "g", "-e", "-X", "auto.offset.reset=earliest", "t")
        read = run_tool(*words)
        assert (read.out, read.status) == ("a\n", 0)
        assert {line[:27] for line in read.err.splitlines()} == {f"% Reached end of topic t [{n}" for n in (0, 1)}
        assert read.err.count("% Reached end") == 2
        assert read.err.endswith(": exiting\n")
        assert [request.api for request in broker.requests][-1] == "LeaveGroup"
        assert run_tool(*words, "-q", "-c", "0") == Printed("", "", 0)


def test_a_signal_has_a_group_left() -> None:
    with Broker(topics=["t"], journal=True) as broker:
        broker.produce("t", "a")
        words = ["kcat", "-b", broker.bootstrap_servers, "-G", "g", "-u", "-X", "auto.offset.reset=earliest", "t"]
        with subprocess.Popen([*module_command("minibroker_tools"), *words], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"a\n"
            child.terminate()
            assert child.wait(PATIENCE_S) == 0
        assert [request.api for request in broker.requests][-1] == "LeaveGroup"


def test_what_this_kcat_lacks_is_named() -> None:
    assert run_tool("kcat", "-b", "127.0.0.1:1", "-L", "-d", "broker", "-m", "1").err.startswith("% -d broker: ")


def test_logins_and_certificates_have_librdkafkas_names(tmp_path: Path) -> None:
    security = Security("SASL_SSL", users={"alice": 'a "secret"'})
    with Broker(security=security) as broker:
        config = tmp_path / "kcat.conf"
        pairs = security.librdkafka("alice")
        config.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
        words = ("kcat", "-m", "60", "-b", broker.bootstrap_servers, "-L", "-F", str(config))
        assert run_tool(*words).status == 0
        refused = run_tool(*words, "-X", "sasl.password=a guess")
        assert (refused.status, "Authentication failed" in refused.err) == (1, True)


def test_wrong_command_lines_and_silent_brokers_end_with_a_message() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # The socket is bound but does not listen, so the port refuses connections.
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        silent = run_tool("kcat", "-b", address, "-L", "-m", "1")
        assert (silent.status, address in silent.err) == (1, True)
        assert silent.err.splitlines()[-2].startswith("% ERROR: Failed to acquire metadata: Local: Broker transport")
        for words, message in (
            (("-C",), "% ERROR: -t <topic> missing"),
            (("-G", "g"), "% ERROR: -G takes the topics to subscribe to"),
            (("-L", "-c", "many", "-m", "x"), "% ERROR: -m: 'x' is no number"),
            (("-L", "-X", "acks"), "% ERROR: -X acks: Expected"),
            (("-L", "-t"), "Option t requires an argument"),
        ):
            refused = run_tool("kcat", "-b", address, *words)
            assert (refused.status, refused.err.startswith(message)) == (1, True), refused.err
    assert run_tool("kcat", "-L").err.startswith("% ERROR: -b <broker,..> missing")
