"""The tables of docs/grade.md. `python -m tests.broker.grade.tables` writes them."""

from pathlib import Path

from minibroker_grade.catalogue import STAGES
from tests.broker.grade import peers
from tests.broker.grade.mutants import MUTANTS

PAGE = Path(__file__).parents[3] / "docs" / "grade.md"


def stages() -> str:
    """Return the table of stages with their number of checks."""
    rows = [f"| `{stage.name}` | {len(stage.checks)} | {stage.about} |" for stage in STAGES]
    return "\n".join(["| stage | checks | about |", "|---|---|---|", *rows])


def mutants() -> str:
    """Return the table of mutants with the check that catches each of them."""
    rows = [f"| {mutant.name} | `{mutant.caught_by}` |" for mutant in MUTANTS]
    return "\n".join([f"| the {len(MUTANTS)} faults | caught by |", "|---|---|", *rows])


def replaced(page: str, name: str, table: str) -> str:
    """Return the page with this table between the markers of its name."""
    head, begin, body = page.partition(f"<!-- {name} -->\n")
    _, end, tail = body.partition(f"<!-- end of {name} -->")
    return f"{head}{begin}{table}\n{end}{tail}"


def with_tables(page: str) -> str:
    """Return the page with up-to-date versions of all tables derived from the code."""
    tables = {
        "stages": stages(),
        "kfake": peers.table(peers.KFAKE),
        "mock": peers.table(peers.MOCK),
        "mutants": mutants(),
    }
    for name, table in tables.items():
        page = replaced(page, name, table)
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
