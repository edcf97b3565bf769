"""Kills at chosen steps: see `steps`. `make torture ARGS=steps` takes every one."""

import shutil
from pathlib import Path

import pytest

from tests.sweeps import one_in
from tests.torture.steps import kill_at, steps_of

SEED = 2
SHARES = 4
STRIDE = 36


@pytest.mark.parametrize("share", one_in(2, range(SHARES)))
def test_a_kill_between_any_two_steps_loses_nothing(tmp_path: Path, share: int) -> None:
    steps = steps_of(tmp_path / "whole", SEED).calls
    assert steps > 300
    for number, step in enumerate(range(share, steps, SHARES * STRIDE)):
        directory = tmp_path / f"killed-at-{step}"
        kill_at(directory, SEED, step, torn=number % 2 == 1)
        shutil.rmtree(directory)
