"""A broker serves on what Windows has: the calls of UNIX are hidden from it, and the locks of msvcrt are imitated."""

import os
import subprocess
import sys
from pathlib import Path

from tests.command_line_tools.runs import run_tool
from tests.patience import PATIENCE_S

HIDE = """
import asyncio, os, shutil, signal, socket, subprocess, sys, tempfile, types

usage = shutil.disk_usage("/")  # It has another implementation on Windows.
shutil.disk_usage = lambda path: usage
for name in ("pread", "preadv", "pwrite", "pwritev", "writev", "sendfile", "statvfs", "nice", "geteuid", "getuid",
             "uname", "killpg", "fork", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW"):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGCHLD", "SIGUSR1", "SIGPIPE"):
    delattr(signal, name)
sys.modules["fcntl"] = sys.modules["resource"] = None
locked = set()

def locking(fd, mode, size):
    status = os.fstat(fd)
    assert (mode, size) == (2, 1)
    if status.st_ino in locked:
        raise PermissionError(13, "locked")
    locked.add(status.st_ino)

sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=locking)

def add_signal_handler(*arguments):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = add_signal_handler
from minibroker.cli.main import main
status = main(sys.argv[1:])
assert not hasattr(os, "pread"), "other libraries see what there is"
assert len(locked) == 2, "the data directory and the mark of a temporary one"
sys.exit(status)
"""


def test_a_broker_needs_no_calls_of_unix(tmp_path: Path) -> None:
    options = ["--listen", "127.0.0.1:0", "--set", "log.segment.bytes=8000", "--topic", "orders", "--stop-with-stdin"]
    with subprocess.Popen(
        [sys.executable, "-c", HIDE, "serve", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as broker:
        try:
            assert broker.stdout is not None
            server = ["--bootstrap-server", broker.stdout.readline().split("bootstrap=")[1].split()[0]]
            lines = "".join(f"{number} {'x' * 100}\n" for number in range(50))
            for _ in range(3):  # The batch is larger than half of a segment, so each goes into another one.
                assert run_tool("kafka-console-producer", *server, "--topic", "orders", stdin=lines.encode()).err == ""
            words = ["--topic", "orders", "--from-beginning", "--group", "billing", "--max-messages", "150"]
            assert run_tool("kafka-console-consumer", *server, *words).out == 3 * lines
            assert '"size"' in run_tool("kafka-log-dirs", *server, "--describe").out
            _, errors = broker.communicate(timeout=PATIENCE_S)
        finally:
            broker.kill()
    assert (broker.returncode, errors) == (0, "")
