"""The pages about chaos: the table is that of the code, the examples run, and the tutorial finds its bug."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker import Broker
from minibroker_chaos.rows import HEAVY, PROFILES, ROWS, Row
from tests.documented import ROOT, blocks
from tests.patience import PATIENCE_S
from tests.programs import run_program

_PAGE: Final = "docs/chaos.md"
_TUTORIAL: Final = "docs/chaos-tutorial.md"


def _line(row: Row) -> str:
    """Return the row of the page's table."""
    if row.act is None:
        when = "always"
    else:
        when = ", ".join(name for name in PROFILES if name in row.profiles and name != HEAVY) or (
            "if asked for" if row.is_optional else HEAVY
        )
    brokers = f" {row.brokers} brokers at least." if row.brokers > 1 else ""
    return f"| `{row.name}` | {row.text} | {row.mechanism} | {row.kept}{brokers} | {when} | {row.evidence} |"


def table() -> str:
    """Return the page's table of misbehaviours."""
    head = "| name | what a client sees | why it is legal in Kafka | still guaranteed | profiles | evidence |"
    return "\n".join([head, "|---|---|---|---|---|---|", *map(_line, ROWS)])


def test_the_table_is_that_of_the_code() -> None:
    assert table() in (ROOT / "docs/chaos-misbehaviours.md").read_text()


@pytest.mark.slow
def test_the_examples_run() -> None:
    namespace: dict[str, Any] = {}
    try:
        for block in blocks(_PAGE):
            if block.language == "python":
                exec(compile("\n" * block.line + block.text, _PAGE, "exec"), namespace)
    finally:
        namespace["broker"].stop()


def test_the_requests_of_the_control_plane_run(tmp_path: Path) -> None:
    (commands,) = [block.text for block in blocks(_PAGE) if block.language == "sh" and "curl" in block.text]
    with Broker(control="127.0.0.1:0", topics=["orders", "invoices"]) as broker:
        told = commands.replace("127.0.0.1:9900", broker.control_url.removeprefix("http://")).replace(
            "curl -s", "curl -sf"
        )
        subprocess.run(["sh", "-ec", told], cwd=tmp_path, check=True, timeout=PATIENCE_S)
    assert json.loads((tmp_path / "run.json").read_text())["seed"] == 8


@pytest.mark.torture
def test_the_tutorial_finds_keeps_and_mends_its_bug(tmp_path: Path) -> None:
    service, tests, kept, mended = [block.text for block in blocks(_TUTORIAL) if block.language == "python"]
    _, *commands = [block.text for block in blocks(_TUTORIAL) if block.language == "sh"]
    plain, find, shrink, copy, check = map(shlex.split, commands)

    def run(command: list[str], *options: str) -> str:
        assert command[0] == "pytest"
        done = run_program([sys.executable, "-m", *command, "-p", "no:asyncio", *options], cwd=tmp_path)
        return done.stdout + done.stderr

    (tmp_path / "billing.py").write_text(service)
    (tmp_path / "test_billing.py").write_text(tests)
    assert "1 passed" in run(plain)
    found = run(find)
    assert "without chaos the test passes" in found
    assert re.search(r"^E +request \d+: [a-z-]+(, .*)? at Produce of ", found, re.MULTILINE)
    assert shrink == [*find, "--kafka-chaos-shrink"]  # tests/pytest_plugin/test_chaos.py shrinks another test.
    assert copy[0] == "cp"
    (tmp_path / copy[1]).rename(tmp_path / copy[2])
    (tmp_path / "test_billing.py").write_text(f"{tests}\n\n{kept}")
    assert "1 failed" in run(check, "-k", "refused")
    changed, count = re.subn(r"(?ms)^PRODUCER = .*?^}\n", mended, service)
    assert count == 1
    (tmp_path / "billing.py").write_text(changed)
    assert "2 passed" in run(check, "--kafka-chaos-runs=3")
