"""The samples that `make test` takes of sweeps, and the list of them in CONTRIBUTING.md."""

import os
import subprocess
import sys
from itertools import product

import pytest
from hypothesis import HealthCheck, settings

from tests import samples
from tests.documented import ROOT
from tests.patience import PATIENCE_S
from tests.samples import SWEEPS, swept_files

PROGRAM = """
from tests.samples import *
decorator = examples(100, 7)
print(part(100, 7), decorator.max_examples, decorator.derandomize, len(one_of_two("abc", "de")))
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
    assert sizes() == "7 7 True 6"


def test_no_test_of_hypothesis_fails_for_slowness() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


def test_the_whole_is_of_another_seed_each_time() -> None:
    assert sizes(**{SWEEPS: "whole"}) == "100 100 False 12"


def test_half_of_the_pairs_with_a_flag_have_each_element_with_either_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "WHOLE", False)
    taken = samples.one_of_two("abc", "de")
    assert {(left, right) for left, right, _ in taken} == set(product("abc", "de"))
    assert {(left, flag) for left, _, flag in taken} == set(product("abc", (True, False)))
    assert {(right, flag) for _, right, flag in taken} == set(product("de", (True, False)))


def test_every_sweep_is_listed_for_those_who_contribute() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(swept_files()) > 1
    assert [file for file in swept_files() if f"`{file.removeprefix('tests/')}`" not in contributing] == []
