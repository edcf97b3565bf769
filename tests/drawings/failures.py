"""A failing test: pytest's output for the tests of the tutorial, without changing times and ports."""

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.documented import code
from tests.drawings.svg import Drawing
from tests.drawings.terminal import Line, terminal
from tests.programs import run_program

_PAGE: Final = "docs/tutorial.md"
_COLUMNS: Final = 92
_CHANGING: Final = (
    (r"127\.0\.0\.1:\d+", "127.0.0.1:50412"),
    (r"in [\d,]+\.\d+ ms(, \d+ times)?", "in 0.9 ms"),
    (r"passed in .*", "passed in 2.1s"),
    (r"Broker object at 0x[0-9a-f]+", "Broker object at 0x7f3c"),
)
"""Patterns for times, ports and addresses, each with the replacement that is drawn."""
_REQUEST: Final = re.compile(r"  \w+ v\d+ .*from shop ")


def _output() -> str:
    """Run the tests of the tutorial. The first one passes, and the second one fails."""
    tests = [*code(_PAGE, "Write a test", "python"), *code(_PAGE, "Read a failure", "python")]
    with TemporaryDirectory() as directory:
        Path(directory, "test_orders.py").write_text("\n\n".join(tests))
        Path(directory, "pytest.ini").write_text("[pytest]\nkafka_timeout = 1\n")
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:asyncio"]
        result = run_program(command, cwd=directory, env={"COLUMNS": str(_COLUMNS)})
    assert result.returncode == 1, result.stdout + result.stderr
    assert "1 failed, 1 passed" in result.stdout
    return result.stdout


def _kind(text: str) -> str:
    if text.startswith(("E ", "FAILED", "1 failed")):
        return "warm"
    if text.startswith(">"):
        return "title"
    return "soft" if re.match(r"(=|_|-){5}", text) else ""


def failed_test() -> Drawing:
    """Return the report of a failed `expect`: the comparison, topics, groups and requests."""
    output = _output()
    for pattern, drawn in _CHANGING:
        output = re.sub(pattern, drawn, output)
    lines: list[Line] = []
    for text in output.splitlines():
        line = Line(text, _kind(text))
        # A slow client reconnects, or requests metadata more often.
        if not (_REQUEST.match(text) and (line in lines or (text.startswith("  Metadata") and "orders" not in text))):
            lines.append(line)
    return terminal("pytest -q", lines, columns=_COLUMNS)
