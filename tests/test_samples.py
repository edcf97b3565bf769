"""The samples that `make test` takes of sweeps, and the list of them in CONTRIBUTING.md."""

import os
import subprocess
import sys
from collections.abc import Hashable
from itertools import product

import pytest
from hypothesis import HealthCheck, settings

from tests import samples
from tests.conftest import COLLECTED
from tests.documented import ROOT
from tests.patience import PATIENCE_S
from tests.samples import FEW, SWEEPS, swept_files

PROGRAM = """
from tests.samples import *
decorator = examples(100, 7)
print(part(100, 7), decorator.max_examples, decorator.derandomize, len(one_of_two("abc", "de")), len(some("abcd", 2)))
"""


def sizes(**environment: str) -> str:
    """The number of 100 or 7 cases that are taken, whether Hypothesis makes the same ones each time; pairs of 12."""
    inherited = {name: value for name, value in os.environ.items() if name not in {SWEEPS, "CI"}}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout.strip()


def test_a_sample_is_the_same_each_time() -> None:
    assert sizes() == "7 7 True 6 2"


def test_no_test_of_hypothesis_fails_for_slowness() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


def test_the_whole_is_of_another_seed_each_time() -> None:
    assert sizes(**{SWEEPS: "whole"}) == "100 100 False 12 4"


def test_few_examples_are_taken_in_make_check() -> None:
    assert sizes(**{SWEEPS: FEW}) == "7 3 True 6 2"


def test_half_of_the_pairs_with_a_flag_have_each_element_with_either_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "WHOLE", False)
    taken = samples.one_of_two("abc", "de")
    assert {(left, right) for left, right, _ in taken} == set(product("abc", "de"))
    assert {(left, flag) for left, _, flag in taken} == set(product("abc", (True, False)))
    assert {(right, flag) for _, right, flag in taken} == set(product("de", (True, False)))


def test_some_are_the_same_ones_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "WHOLE", False)
    taken = samples.some(range(100), 5)
    assert len(set(taken)) == 5
    assert taken == sorted(taken) == samples.some(range(100), 5)
    assert samples.some("abc", 5) == ["a", "b", "c"]


def test_few_cases_have_all_that_any_case_has() -> None:
    cases = {f"{client}-{codec}": {client, codec} for client, codec in product("abc", "wxyz")}
    taken = samples.covering(cases, 12)
    assert set().union(*(cases[name] for name in taken)) == set("abcwxyz")
    assert len(taken) == 4
    assert len(samples.covering(cases, 2)) == 2
    assert samples.covering(dict(reversed(cases.items())), 12) == taken


def test_a_sample_has_each_test_and_each_value_of_the_whole(request: pytest.FixtureRequest) -> None:
    collected = request.config.stash.get(COLLECTED, [])
    left = set(samples.left_out(collected))
    marked = {test for test in left if test.get_closest_marker(samples.in_torture.name)}
    assert {test.nodeid for test in left - marked if not test.nodeid.startswith(samples.ROOMS)} == set()
    whole = {trait for test in set(collected) - marked for trait in in_its_file(test)}
    assert whole == {trait for test in set(collected) - left for trait in in_its_file(test)}


def test_a_quick_sample_is_a_part_of_the_other(request: pytest.FixtureRequest) -> None:
    collected = request.config.stash.get(COLLECTED, [])
    assert set(samples.left_out(collected)) <= set(samples.left_out(collected, quick=True))
    quick = request.config.getoption("--python-alone")
    assert set(request.session.items) >= set(collected) - set(samples.left_out(collected, quick=quick))


def in_its_file(test: pytest.Item) -> set[tuple[str, Hashable]]:
    """The name of a test and the values of its parameters, each with the file."""
    return {(test.nodeid.partition("::")[0], trait) for trait in samples.traits(test)}


def test_a_room_of_which_few_are_taken_is_there() -> None:
    assert [room for room in samples.COSTLY if not (ROOT / room).is_dir()] == []


def test_every_sweep_is_listed_for_those_who_contribute() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(swept_files()) > 1
    assert [room for room in samples.ROOMS if f"`{room.removeprefix('tests/')}`" not in contributing] == []
    assert [file for file in swept_files() if f"`{file.removeprefix('tests/')}`" not in contributing] == []
