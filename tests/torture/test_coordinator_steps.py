"""Kills at chosen steps of the coordinators: see `coordinator_steps`. `make torture ARGS=--steps` takes every one."""

import shutil
from pathlib import Path

import pytest

from tests.torture.coordinator_steps import kill_at, steps_of

SEED = 1
SHARES = 3
STRIDE = 130
"""Of the steps that write no records."""


@pytest.mark.parametrize("share", range(SHARES))
def test_a_kill_between_any_two_steps_of_the_coordinators_loses_nothing(tmp_path: Path, share: int) -> None:
    names = steps_of(tmp_path / "whole", SEED).names
    writes = [step for step, name in enumerate(names) if name == "pwritev"]
    assert len(writes) > 80
    for number, step in enumerate(sorted({*writes[share :: 2 * SHARES], *range(share, len(names), STRIDE)})):
        directory = tmp_path / f"killed-at-{step}"
        kill_at(directory, SEED, step, torn=number % 3 == 1)
        shutil.rmtree(directory)
