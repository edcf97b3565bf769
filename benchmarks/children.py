"""Child processes that never outlive the benchmark, which starts and ends all brokers and clients here."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

Child = subprocess.Popen[bytes]

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""

INHERITED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of a child, without PYTHONDONTWRITEBYTECODE: with it, each child would compile what it imports."""
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> Callable[[], None] | None:
    """Return a function that has the Linux kernel kill this child when its parent is gone, or None on other systems."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # Looked up before the fork, because a child should do little.
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_PREPARE_CHILD = _die_with_parent()


def start(
    command: Sequence[str], output: IO[bytes], *, env: Mapping[str, str] | None = None, stdin: int = subprocess.DEVNULL
) -> Child:
    """Start a child in its own process group, so that Ctrl-C reaches only the benchmark, which then ends the child."""
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**INHERITED, **(env or {})},
        stdin=stdin,
        stdout=output,
        stderr=subprocess.STDOUT,
        process_group=0,
        preexec_fn=_PREPARE_CHILD,  # noqa: PLW1509 - one system call, looked up beforehand, that takes no lock
    )


def end(child: Child, grace: float = 8.0, number: signal.Signals = signal.SIGTERM) -> None:
    """End the child's group with a signal, and with SIGKILL if it still runs after `grace` seconds."""
    if child.poll() is None:
        _signal_group(child, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    if child.poll() is None:
        _signal_group(child, signal.SIGKILL)
    child.wait()
    if child.stdin is not None:
        child.stdin.close()


def _signal_group(child: Child, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)  # With `process_group=0`, the pid is the group's id.
