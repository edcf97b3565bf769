"""`minibroker lab --terminal` in a pseudo-terminal."""

import fcntl
import logging
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable

import pytest

from minibroker.cli.console import Console
from minibroker.cli.main import main
from minibroker_lab.terminal import __main__ as terminal
from tests.clients.broker_process import environment
from tests.patience import PATIENCE_S

COMMAND = [sys.executable, "-m", "minibroker", "lab", "--terminal", "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0"]


def read_until(terminal: int, condition: Callable[[str], bool]) -> str:
    """Read a terminal's output until a condition holds for all of it, or the output ends."""
    text = ""
    deadline = time.monotonic() + PATIENCE_S
    while not condition(text) and time.monotonic() < deadline:
        readable, _, _ = select.select([terminal], [], [], deadline - time.monotonic())
        try:
            part = os.read(terminal, 1 << 16) if readable else b""
        except OSError:  # The other side is closed.
            part = b""
        if not part:
            break
        text += part.decode(errors="replace")
    return text


@pytest.mark.torture
def test_the_lab_is_shown_until_its_user_quits() -> None:
    terminal, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    child = subprocess.Popen(
        COMMAND,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env={**environment(), "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(inner)
    try:
        text = read_until(terminal, lambda text: "requests" in text and "shown" in text)
        assert "minibroker ready: " in text
        assert "Requests" in text
        os.write(terminal, b"q")
        read_until(terminal, lambda _: False)
        assert child.wait(PATIENCE_S) == 0
    finally:
        child.kill()
        child.wait()
        os.close(terminal)


def test_without_a_terminal_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "--terminal", "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0"]) == 1
    assert capsys.readouterr().err.endswith("--terminal: stdin and stdout are not a terminal\n")


def test_lines_are_held_while_another_program_has_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Console("text", verbose=False) as console:
        with console.hold_output():
            logging.getLogger("minibroker").warning("a warning")
            assert capsys.readouterr().err == ""
        assert capsys.readouterr().err == "minibroker: a warning\n"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "minibroker_lab.terminal.app", raising=False)
    monkeypatch.setitem(sys.modules, "textual.app", None)
    monkeypatch.setattr(sys, "argv", ["minibroker_lab.terminal", "http://127.0.0.1:1"])
    assert terminal.main() == 1
    assert "the package textual.app of the extra minibroker[lab] is missing: pip install" in capsys.readouterr().err
