"""Mutants against all checks of their stage."""

import pytest

from minibroker_grade.catalogue import chosen
from minibroker_grade.runner import Target, run_check
from tests.broker.grade.matrix import checks_for, failing
from tests.broker.grade.mutants import MUTANTS
from tests.broker.grade.relay import Mutant
from tests.sweeps import one_in

_RELAYED = [mutant for mutant in MUTANTS if mutant.restart is None and mutant.stage != "compaction"]
_LIMIT_S = 1.0
"""A check that a slow machine makes fail is one more; the one about the fault fails on any machine."""


@pytest.mark.parametrize("mutant", one_in(27, _RELAYED), ids=lambda mutant: mutant.name)
def test_a_fault_is_caught_in_its_stage_when_all_checks_run(mutant: Mutant, graded: Target) -> None:
    found = failing(mutant, graded, checks_for(mutant, whole=False), _LIMIT_S)
    assert mutant.caught_by in {result.check.name for result in found}
    assert all(all(result.failure.values()) for result in found)


def test_what_mutants_left_behind_fails_no_check_of_the_sound_broker(graded: Target) -> None:
    stages = {mutant.stage for mutant in _RELAYED}
    results = [run_check(graded, check) for check in chosen() if check.stage in stages]
    assert [(each.check.name, each.reason) for each in results if each.outcome in {"failed", "died"}] == []
