"""Mutants against all checks of their stage, and brokers by other authors against the tables of docs/grade.md."""

import pytest
from confluent_kafka import libversion

from benchmarks import kfake_program
from minibroker_grade.catalogue import select_checks
from minibroker_grade.runner import Target, run_check
from tests.broker.grade import peers
from tests.broker.grade.matrix import checks_for, find_failures
from tests.broker.grade.mutants import MUTANTS
from tests.broker.grade.peers import KFAKE, MOCK
from tests.broker.grade.relay import Mutant
from tests.broker.grade.tables import PAGE
from tests.clients import toolchains
from tests.sweeps import one_in

_RELAYED = [mutant for mutant in MUTANTS if mutant.restart is None and mutant.stage != "compaction"]


_LIMIT_S = 1.0
"""A slow machine can only make additional checks fail. The check for the fault fails on any machine."""


@pytest.mark.parametrize("mutant", one_in(27, _RELAYED), ids=lambda mutant: mutant.name)
def test_a_fault_is_caught_in_its_stage_when_all_checks_run(mutant: Mutant, graded: Target) -> None:
    failures = find_failures(mutant, graded, checks_for(mutant, whole=False), _LIMIT_S)
    assert mutant.caught_by in {result.check.name for result in failures}
    assert all(all(result.failure.values()) for result in failures)


def test_what_mutants_left_behind_fails_no_check_of_the_sound_broker(graded: Target) -> None:
    stages = {mutant.stage for mutant in _RELAYED}
    results = [run_check(graded, check) for check in select_checks() if check.stage in stages]
    assert [(result.check.name, result.reason) for result in results if result.outcome in {"failed", "died"}] == []


@pytest.mark.parametrize("name", one_in(2, ["mock", "kfake"]))
def test_a_broker_has_the_results_of_its_table(name: str) -> None:
    if name == "kfake":
        toolchains.tool("go")
    stages = {"mock": MOCK, "kfake": KFAKE}[name]
    with {"mock": peers.mock, "kfake": peers.kfake}[name]() as target:
        assert peers.grade(target, stages) == {
            stage: results._replace(findings="") for stage, results in stages.items()
        }


def test_the_page_names_the_versions_that_are_graded() -> None:
    page = PAGE.read_text()
    assert f"kfake `{kfake_program.version()}`" in page
    assert f"librdkafka {libversion()[0]}." in page
