"""The page about chaos: its table is that of the code, and its examples run."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker import Broker
from minibroker.chaos.rows import HEAVY, PROFILES, ROWS, Row
from tests.documented import ROOT, blocks
from tests.patience import PATIENCE_S

_PAGE: Final = "docs/chaos.md"


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
    assert table() in (ROOT / _PAGE).read_text()


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
    (commands,) = [block.text for block in blocks(_PAGE) if block.language == "sh"]
    with Broker(control="127.0.0.1:0", topics=["orders", "invoices"]) as broker:
        told = commands.replace("127.0.0.1:9900", broker.control_url.removeprefix("http://")).replace(
            "curl -s", "curl -sf"
        )
        subprocess.run(["sh", "-ec", told], cwd=tmp_path, check=True, timeout=PATIENCE_S)
    assert json.loads((tmp_path / "run.json").read_text())["seed"] == 7
