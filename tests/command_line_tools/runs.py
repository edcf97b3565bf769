"""Runs our tools in this process and Kafka's in a JVM, and returns their output lines and exit status."""

import io
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Final, NamedTuple

import pytest

from minibroker_tools import dispatch
from tests.command_line_tools.newest_jars import KAFKA_TOOLS, NewestTools
from tests.kafka.oracle import Oracle
from tests.patience import PATIENCE_S
from tests.programs import BINARY, module_command

_NOISE: Final = re.compile(r"log4j:|\s*at |\s*\.\.\. \d+ more|.*exit status \d|IllegalStateException: *$|\s*$")
_EXIT: Final = re.compile(r"exit status (\d+)")
_LOGGED: Final = re.compile(r"\[\d{4}-\d\d-\d\d [\d:,]+\] (ERROR|WARN|INFO) ")
_USAGE: Final = re.compile(r"^(Option( \(\* = required\))? +Description|usage: )", re.MULTILINE)
_REFUSED: Final = "IllegalStateException: "
"""The oracle's prefix for the output of a tool that exited or threw an exception."""
_UNCAUGHT: Final = re.compile(r"^\w*(Option|Argument)\w*Exception: ", re.MULTILINE)
"""Java's prefix for the messages of jopt-simple exceptions that a tool does not catch."""
_TRACE: Final = re.compile(r"^\s*(\S+Exception|Caused by|Suppressed): ")

IN_THIS_PROCESS: Final = pytest.mark.skipif(BINARY is not None, reason="it changes what a tool in this process knows")


class Run(NamedTuple):
    """The lines of both outputs, without log lines, stack traces and usage, and the exit status."""

    lines: tuple[str, ...]
    status: int


class Printed(NamedTuple):
    """The standard output, the standard error and the exit status of one of our tools."""

    out: str
    err: str
    status: int


def run_tool(*words: str, stdin: bytes = b"") -> Printed:
    """Run one of our tools in this process, or with the self-contained program."""
    if BINARY:
        command = [*module_command("minibroker_tools"), *words]
        ended = subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False)
        return Printed(ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace"), ended.returncode)
    out, errors = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(errors):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = dispatch.main(words)
    out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    return Printed(out.buffer.getvalue().decode(errors="replace"), errors.getvalue(), status)


def run_our_tool(tool: str, *arguments: str) -> Run:
    """Run one of our tools and return its result as a `Run`."""
    printed = run_tool(tool, *arguments)
    return Run(_lines(printed.out + printed.err), printed.status)


def run_kafka_tool(oracle: Oracle | NewestTools, tool: str, *arguments: str) -> Run:
    """Run one of Kafka's tools in the JVM."""
    if isinstance(oracle, NewestTools):
        answer = oracle.run(tool, *arguments)
        return Run(_lines(answer.text), answer.status)
    printed = oracle.attempt(KAFKA_TOOLS[tool], *arguments)
    text = _UNCAUGHT.sub("", printed.removeprefix(_REFUSED))
    status = _EXIT.search(text)  # Only the first status counts because a tool's exit handler can call exit again.
    uncaught = int(printed.startswith(_REFUSED))
    return Run(_lines(text), int(status[1]) if status else uncaught)


def _lines(text: str) -> tuple[str, ...]:
    before_usage = _USAGE.split(text, maxsplit=1)[0]
    kept = (line for line in before_usage.splitlines() if not _NOISE.match(line) and not _LOGGED.match(line))
    return tuple(sorted(line.rstrip() for line in kept if not _TRACE.match(line)))
