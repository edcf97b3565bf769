"""Checkpoints are noted in steps, and what happens between two steps counts."""

from collections.abc import Callable, Iterator

import pytest

from minibroker.cluster.partition import Partition
from minibroker.logs import checkpoint_chores
from minibroker.logs.checkpoint_chores import Checkpoints
from minibroker.support.slices import Steps, drain
from minibroker_storage.data_directory import offset_checkpoints
from minibroker_storage.log import Log
from tests.broker.harness import Harness
from tests.broker.logs.world import fill, partition_of

PARTITIONS = 6


@pytest.fixture
def noted(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Checkpoints:
    """The checkpoints of six partitions with ten records each, one partition a step."""
    monkeypatch.setattr(checkpoint_chores, "_OF_A_STEP", 1)
    monkeypatch.setattr(offset_checkpoints, "_OF_A_STEP", 1)
    harness.create("many", PARTITIONS)
    for index in range(PARTITIONS):
        fill(harness, "many", index)

    def opened() -> Iterator[tuple[Partition, Log]]:
        for index in range(PARTITIONS):
            yield partition_of(harness, "many", index), partition_of(harness, "many", index).log

    def at_once(work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
        work()
        if then is not None:
            then()

    return Checkpoints(harness.data_dir, opened, lambda key: key[0] == "many", at_once)


def to_the_middle(steps: Steps[None]) -> Steps[None]:
    for _ in range(PARTITIONS - 1):
        next(steps)
    return steps


def test_each_log_is_noted_in_a_step_of_its_own(noted: Checkpoints) -> None:
    assert len(list(noted.note())) >= PARTITIONS
    assert noted.high_watermarks.offsets == {("many", index): 10 for index in range(PARTITIONS)}
    assert noted.start_offsets.offsets == {}


def test_a_start_that_is_noted_meanwhile_stays(noted: Checkpoints, harness: Harness) -> None:
    steps = to_the_middle(noted.note())
    partition_of(harness, "many", 0).log.advance_log_start_offset(7)
    noted.start_offsets.offsets = {("many", 0): 7}
    drain(steps)
    assert noted.start_offsets.offsets == {("many", 0): 7}


def test_a_topic_that_is_new_meanwhile_inherits_nothing(noted: Checkpoints, harness: Harness) -> None:
    steps = to_the_middle(noted.note())
    harness.core.topics.delete(partition_of(harness, "many").topic)
    drain(noted.forget(["many"]))
    harness.create("many", PARTITIONS)
    drain(steps)
    assert noted.high_watermarks.offsets == {}


def test_what_changes_all_the_time_is_noted_at_last(noted: Checkpoints) -> None:
    taken = 0
    for _ in noted.note():
        noted.cleaner_offsets.offsets = {("many", 0): taken}
        taken += 1
        assert taken < 100
    assert len(noted.high_watermarks.offsets) == PARTITIONS
    assert noted.cleaner_offsets.offsets == {("many", 0): taken - 1}


def test_partitions_that_are_gone_are_not_noted(noted: Checkpoints) -> None:
    noted.recovery_points.offsets = {("gone", 0): 5, ("many", 0): 0}
    drain(noted.note())
    assert ("gone", 0) not in noted.recovery_points.offsets


def test_what_is_noted_while_names_are_forgotten_stays(noted: Checkpoints) -> None:
    noted.start_offsets.offsets = {("old", index): 1 for index in range(4)}
    steps = noted.start_offsets.forget(frozenset({"old"}))
    next(steps)
    noted.start_offsets.offsets = {**noted.start_offsets.offsets, ("many", 0): 3}
    drain(steps)
    assert noted.start_offsets.offsets == {("many", 0): 3}
