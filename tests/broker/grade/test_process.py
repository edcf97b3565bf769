"""The broker started by `minibroker grade --start` ends with the grader, whatever ends the grader."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_PATIENCE_S = 300
_SILENT = """
import os, signal, socket, sys
port, pipe, kind = sys.argv[1:]
if kind == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if kind == "script" and os.fork():
    signal.pause()
listener = socket.create_server(("127.0.0.1", int(port)))
with open(pipe, "w") as alive:
    print("listening", file=alive, flush=True)
    while True:
        signal.pause()
"""
"""A broker that never answers, so that the grader waits for it. It keeps a pipe open until it ends."""

Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[int]:
    """Return the read end of a pipe. The broker writes a line when it listens, and closes the pipe when it ends."""
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    yield reading
    os.close(reading)


@pytest.fixture
def grader(tmp_path: Path, pipe: int) -> Iterator[Start]:
    """Start a grader, and return once the broker of this kind listens."""
    started: list[subprocess.Popen[bytes]] = []
    (tmp_path / "broker.py").write_text(_SILENT)

    def start(kind: str) -> subprocess.Popen[bytes]:
        command = f"{sys.executable} {tmp_path}/broker.py {{port}} {tmp_path}/pipe {kind}"
        started.append(subprocess.Popen([sys.executable, "-m", "minibroker", "grade", "--start", command]))
        assert _read_pipe(pipe) == b"listening\n"
        return started[0]

    yield start
    for process in started:
        process.kill()
        process.wait()


def _read_pipe(pipe: int) -> bytes:
    assert select.select([pipe], [], [], _PATIENCE_S)[0]
    return os.read(pipe, 100)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_broker_with_the_grader(number: signal.Signals, grader: Start, pipe: int) -> None:
    running = grader("usual")
    running.send_signal(number)
    assert _read_pipe(pipe) == b""
    assert running.wait(_PATIENCE_S) == 128 + number


def test_the_broker_that_a_script_has_started_ends_with_the_script(grader: Start, pipe: int) -> None:
    running = grader("script")
    running.terminate()
    assert _read_pipe(pipe) == b""
    assert running.wait(_PATIENCE_S) == 128 + signal.SIGTERM


def test_a_second_signal_kills_a_broker_that_does_not_end(grader: Start, pipe: int) -> None:
    running = grader("deaf")
    running.terminate()
    while not select.select([pipe], [], [], 0.1)[0]:  # Signals that arrive together count as one.
        running.terminate()
    assert _read_pipe(pipe) == b""
    assert running.wait(_PATIENCE_S) == 128 + signal.SIGTERM
