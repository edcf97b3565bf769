"""Runs programs for tests."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Final, TypeAlias

from tests.patience import PATIENCE_S

Completed: TypeAlias = subprocess.CompletedProcess[str]
BINARY: Final = os.environ.get("MINIBROKER_BINARY")
"""The self-contained program that takes the place of this Python's packages, as a path."""


def module_command(module: str, *options: str) -> list[str]:
    """Return the words that run a module of ours, with options of Python that the self-contained program lacks."""
    return [BINARY, "-m", module] if BINARY else [sys.executable, *options, "-m", module]


def run_program(
    command: Sequence[str | PathLike[str]],
    *,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    input: str = "",  # noqa: A002 - as subprocess names it
    timeout: float = PATIENCE_S,
) -> Completed:
    """Run a program to its end, and capture its output as text."""
    return subprocess.run(
        command, cwd=cwd, env=env, input=input, capture_output=True, text=True, timeout=timeout, check=False
    )


def run_to_success(
    command: Sequence[str | PathLike[str]],
    *,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    input: str = "",  # noqa: A002 - the same
    timeout: float = PATIENCE_S,
) -> Completed:
    """Like run_program().

    Raises:
        AssertionError: The program fails. The message is all of its output.
    """
    completed = run_program(command, cwd=cwd, env=env, input=input, timeout=timeout)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed
