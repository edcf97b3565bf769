"""Kills at chosen steps of the coordinators: see `coordinator_steps`. `make torture` takes every one."""

import shutil
from pathlib import Path

import pytest

from tests.sweeps import one_in
from tests.torture.coordinator_steps import kill_at, kill_move_at, steps_of, steps_of_move

SEED = 1
SHARES = 96
MOVES = 3


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The system calls of a whole life."""
    return steps_of(tmp_path_factory.mktemp("life") / "whole", SEED).names


@pytest.mark.torture
@pytest.mark.parametrize("share", range(SHARES))
def test_a_kill_between_any_two_steps_of_the_coordinators_loses_nothing(
    tmp_path: Path, names: list[str], share: int
) -> None:
    writes = [step for step, name in enumerate(names) if name == "pwritev"]
    assert len(writes) > 80
    others = [step for step in range(len(names)) if step not in set(writes)]
    for number, step in enumerate((*writes[share::SHARES], *others[share::SHARES])):
        directory = tmp_path / f"killed-at-{step}"
        kill_at(directory, SEED, step, torn=number % 3 == 1)
        shutil.rmtree(directory)


@pytest.mark.parametrize("move", one_in(MOVES, range(MOVES)))
@pytest.mark.parametrize("share", one_in(16, range(16)))
def test_a_kill_within_the_move_of_what_version_1_has_left_loses_nothing(
    tmp_path: Path, names: list[str], share: int, move: int
) -> None:
    writes = [step for step, name in enumerate(names) if name == "pwritev"]
    left_at = writes[len(writes) // 2 + move * 3]
    steps = steps_of_move(tmp_path / "moved", SEED, left_at)
    assert steps > 10
    for number, step in enumerate(range(share, steps, 16)):
        directory = tmp_path / f"killed-at-{step}"
        kill_move_at(directory, SEED, left_at, step, torn=number % 2 == 1)
        shutil.rmtree(directory)
