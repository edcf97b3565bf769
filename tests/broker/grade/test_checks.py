"""A correct broker passes all checks, and each broken broker fails the check for its fault."""

import re
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from minibroker_grade.catalogue import STAGES, select_checks
from minibroker_grade.check import Check
from minibroker_grade.process import BrokerProcess, free_port
from minibroker_grade.runner import Result, Target, run_check
from tests.broker.grade.file_mutants import FORGETFUL
from tests.broker.grade.mutants import MUTANTS
from tests.broker.grade.relay import Mutant, Relay
from tests.patience import PATIENCE_S
from tests.sweeps import one_in

SERVE = f"{sys.executable} -m minibroker serve --listen 127.0.0.1:{{port}} --data-dir {{dir}}"
CHECKS = {check.name: check for check in select_checks()}
_LIMIT_S = 5.0
"""The limit for mutants that make a check wait, also for a record or a topic that a restart has lost."""
WAITING = frozenset(
    {
        "CreateTopics answers and does nothing",
        "added partitions are not made",
        "an endless wait",
        "deleted topics stay",
        "incremental changes do nothing",
        "min_bytes 0 taken for 1",
        "new offsets after a cleaning",
        "no compaction",
        "no wake-up by new records",
        "no word of a rebalance",
        "offsets of a transaction lost",
        "one partition, whatever is asked",
    }
)
"""Mutants that make a check wait until its limit. All other mutants are caught by their responses."""


@pytest.mark.parametrize(
    "check", [check for check in select_checks() if "java" not in check.name], ids=lambda check: check.name
)
def test_this_broker_passes(check: Check, graded: Target) -> None:
    result = run_check(graded, check)
    assert result.outcome in {"passed", "skipped"}, result.failure
    if result.outcome == "skipped":
        assert re.search(r"--start", result.reason), result.reason


@pytest.fixture(scope="module")
def waiting_results(graded: Target) -> Mapping[str, Result]:
    """Return the results for mutants that make a check wait. They run in parallel, as each takes its whole limit."""
    mutants = [mutant for mutant in MUTANTS if mutant.name in WAITING]
    with ThreadPoolExecutor(len(WAITING)) as pool:
        futures = {mutant.name: pool.submit(_run_check_on, mutant, graded, limit=_LIMIT_S) for mutant in mutants}
        return {name: future.result() for name, future in futures.items()}


@pytest.mark.parametrize("name", sorted(WAITING))
def test_a_broker_that_lets_wait_is_caught_by_the_check_about_its_fault(
    name: str, waiting_results: Mapping[str, Result]
) -> None:
    _assert_caught(waiting_results[name])


@pytest.mark.parametrize(
    "mutant",
    one_in(2, [mutant for mutant in MUTANTS if mutant.restart is None and mutant.name not in WAITING]),
    ids=lambda mutant: mutant.name,
)
def test_a_broken_broker_is_caught_by_the_check_about_its_fault(mutant: Mutant, graded: Target) -> None:
    result = _run_check_on(mutant, graded, limit=PATIENCE_S)
    assert "limit" not in result.reason
    _assert_caught(result)


def _run_check_on(mutant: Mutant, graded: Target, *, limit: float) -> Result:
    check = CHECKS[mutant.caught_by]
    with Relay(graded.address, mutant, graded.data_dir) as relay:
        return run_check(Target(relay.address, graded.data_dir), replace(check, limit=limit))


def _assert_caught(result: Result) -> None:
    assert result.outcome in {"failed", "died"}, result.reason  # A slow machine can miss the limit and look dead.
    assert list(result.failure) == ["sent", "came", "expected", "why", "byte", "look"]
    assert all(result.failure.values())


class _Forgetful(BrokerProcess):
    """A broker whose directory is changed between its runs."""

    forget: Callable[[str], None] | None = None
    lives = 0

    def start(self) -> None:
        if self.lives and self.forget is not None:
            self.forget(self.directory)
        self.lives += 1
        super().start()


@pytest.mark.parametrize("mutant", one_in(3, FORGETFUL), ids=lambda mutant: mutant.name)
def test_a_broker_that_forgets_in_a_restart_is_caught(mutant: Mutant, tmp_path: Path) -> None:
    address = ("127.0.0.1", free_port())
    process = _Forgetful(SERVE, address, str(tmp_path / "data"))
    process.forget = mutant.restart
    process.start()
    check = CHECKS[mutant.caught_by]
    try:
        result = run_check(Target(address, process.directory, process), replace(check, limit=_LIMIT_S))
    finally:
        process.kill()
    assert result.outcome in {"failed", "died"}, result.reason


def test_mutants_have_names_of_their_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


def test_each_check_says_what_it_teaches_and_who_decides() -> None:
    for stage in STAGES:
        assert stage.checks
        for check in stage.checks:
            assert check.teaches.endswith(".") or check.teaches.endswith("?")
            assert check.source
            assert check.look.endswith((".", "?")), check.name


def test_checks_have_names_of_their_own() -> None:
    names = [check.name for check in select_checks()]
    assert len(set(names)) == len(names)
