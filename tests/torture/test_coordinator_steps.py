"""Kills at chosen steps of the coordinators: see `coordinator_steps`. `make torture` takes every one."""

import shutil
from pathlib import Path

import pytest

from tests.samples import WHOLE, not_in_check
from tests.torture.coordinator_steps import kill_at, steps_of

SEED = 1
SHARES = 3
STRIDE = SHARES if WHOLE else 260
"""Of the steps that write no records."""
WRITES = 1 if WHOLE else 4
"""Of the steps that write some, each share takes one of so many."""


@not_in_check
@pytest.mark.parametrize("share", range(SHARES))
def test_a_kill_between_any_two_steps_of_the_coordinators_loses_nothing(tmp_path: Path, share: int) -> None:
    names = steps_of(tmp_path / "whole", SEED).names
    writes = [step for step, name in enumerate(names) if name == "pwritev"]
    assert len(writes) > 80
    for number, step in enumerate(sorted({*writes[share :: WRITES * SHARES], *range(share, len(names), STRIDE)})):
        directory = tmp_path / f"killed-at-{step}"
        kill_at(directory, SEED, step, torn=number % 3 == 1)
        shutil.rmtree(directory)
