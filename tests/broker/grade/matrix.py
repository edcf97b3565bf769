"""Runs mutants against all checks, and writes a table of docs/grade.md: `python -m tests.broker.grade.matrix`."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from minibroker import Broker
from minibroker_grade.catalogue import STAGES, select_checks
from minibroker_grade.check import Check
from minibroker_grade.runner import Result, Target, run_check
from tests.broker.grade.conftest import CONFIG
from tests.broker.grade.mutants import MUTANTS
from tests.broker.grade.relay import Mutant, Relay
from tests.broker.grade.tables import PAGE, replaced

_LIMIT_S = 6.0
_SECOND_LIMIT_S = 30.0
"""The limit for repeating a check that has reached its first limit, which can happen on a busy machine."""
_APART = {"compaction", "clients"}
"""Stages that wait for the cleaner or start programs. They run only against their own mutants."""

Row = tuple[Mutant, list[Result]]
"""A mutant with the checks that fail on it."""


def checks_for(mutant: Mutant, *, whole: bool) -> list[Check]:
    """Return the checks to run against a mutant: all of them if `whole`, otherwise those of its stage."""
    normal_stages = {stage.name for stage in STAGES} - _APART
    stages = {mutant.stage, *(normal_stages if whole else ())}
    return [check for check in select_checks() if check.stage in stages and check.stage != "clients"]


def find_failures(mutant: Mutant, target: Target, checks: Iterable[Check], *limits: float) -> list[Result]:
    """Return the checks that fail on a mutant of the broker at this address.

    Each check has the first limit in seconds. A check that reaches its limit is repeated with the next limit.
    """
    first, *further = limits
    with Relay(target.address, mutant, target.data_dir) as relay:
        broken = Target(relay.address, target.data_dir)
        results = [run_check(broken, replace(check, limit=first)) for check in checks]
        for limit in further:
            results = [
                run_check(broken, replace(result.check, limit=limit))
                if result.seconds >= result.check.limit
                else result
                for result in results
            ]
    return [result for result in results if result.outcome not in {"passed", "skipped"}]


def table(rows: Sequence[Row]) -> str:
    """Return a table of how many mutants of each stage are caught by each stage."""
    names = [stage.name for stage in STAGES if stage.name not in _APART]
    lines = ["| mutants of | " + " | ".join(f"`{name}`" for name in names) + " |", "|---" * (len(names) + 1) + "|"]
    for name in names:
        caught_stages = [
            {result.check.stage for result in failures} for mutant, failures in rows if mutant.stage == name
        ]
        counts = Counter(stage for stages in caught_stages for stage in stages)
        lines.append(
            f"| `{name}` ({len(caught_stages)}) | " + " | ".join(str(counts[stage] or "") for stage in names) + " |"
        )
    return "\n".join(lines)


def run(done: Callable[[Row], None]) -> list[Row]:
    """Run all mutants of the relay against all checks, and pass each row to `done` immediately."""
    rows: list[Row] = []
    with Broker(config=CONFIG) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        target = Target((host, int(port)), broker.data_dir)
        for mutant in MUTANTS:
            if mutant.restart is None:
                failures = find_failures(mutant, target, checks_for(mutant, whole=True), _LIMIT_S, _SECOND_LIMIT_S)
                rows.append((mutant, failures))
                done(rows[-1])
    return rows


def _print(row: Row) -> None:
    mutant, failures = row
    names = ", ".join(result.check.name for result in failures)
    print(f"{mutant.name}: {names}", flush=True)  # noqa: T201 - the program tells how far it is


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(), "matrix", table(run(_print))))
