"""`python -m benchmarks.documented RESULT.json` writes a run's figures into docs/performance.md and its drawing."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.children import ROOT

PAGE: Final = ROOT / "docs" / "performance.md"
KEYS: Final = {
    "Cold start until Metadata is answered": "start.ms",
    "Memory (RSS) a second later": "start.rss",
    "One-record produce, p50": "ping-pong.p50",
    "One-record produce": "ping-pong.cpu",
    "Pipelined on 16 connections": "pipelined.rate",
    "Produce to a waiting consumer, p50": "tail.p50",
    "Produce 100 B records": "produce-raw.100.cpu",
    "Produce 1 KB in 16 KB batches": "produce-raw.1024-16k.cpu",
    "Produce 1 KB in 1 MB batches": "produce-raw.1024.cpu",
    "librdkafka produces 1 KB records": "produce-client.1024.rate",
    "Fetch by 1 MB": "fetch-raw.1048576.cpu",
    "librdkafka consumes 1 KB records": "fetch-client.1024.rate",
    "First assignment, librdkafka": "assignment.librdkafka",
}
"""The keys of the figures, by the first cell of each row of the page."""
_PEERS: Final = ("minibroker", "kafka", "kfake")
_WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_RUN: Final = re.compile(
    r"The figures above are medians of .*?, on .*? cores of a virtual machine with Python .*?\.(?=\n)", re.DOTALL
)


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def with_figures(page: str, result: dict[str, Any]) -> str:
    """Return the page with the medians of a result.

    Raises:
        ValueError: The result lacks a figure for one of the page's rows.
    """
    lines = page.splitlines(keepends=True)
    for place, line in enumerate(lines):
        first, *rest = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if first not in KEYS or len(rest) != 5:
            continue
        figure = result["figures"].get(KEYS[first])
        if figure is None:
            raise ValueError(f"the result has no figure {KEYS[first]}: run make bench whole")
        cells = [first, rest[0], *(_cell(figure["median"].get(peer)) for peer in _PEERS), rest[4]]
        lines[place] = f"| {' | '.join(cells)} |\n"
    rounds, cpus = (_WORDS[int(number) - 1] for number in (result["scale"]["rounds"], result["versions"]["cpus"]))
    machine = f"{cpus} cores of a virtual machine with Python {result['versions']['python']}"
    run = f"The figures above are medians of {rounds} rounds of it, on {machine}."
    return _RUN.sub(lambda _: run, "".join(lines))


def main() -> None:
    (name,) = sys.argv[1:] or [""]
    if not name:
        sys.exit(__doc__)
    PAGE.write_text(with_figures(PAGE.read_text(), json.loads(Path(name).read_text())))
    subprocess.run([sys.executable, "-m", "tests.drawings"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
