"""The offsets of all logs in the checkpoints."""

from collections.abc import Callable, Iterator

import pytest

from minibroker.cluster.logs.checkpoint_chores import Checkpoints
from minibroker.cluster.partition import Partition
from minibroker_storage.log import Log
from tests.broker.harness import Harness
from tests.broker.logs.world import fill, partition_of

PARTITIONS = 6


@pytest.fixture
def noted(harness: Harness) -> Checkpoints:
    """The checkpoints of six partitions with ten records each."""
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

    return Checkpoints(
        harness.data_dir, opened, lambda key: partition_of(harness, *key) if key[0] == "many" else None, at_once
    )


def test_the_offsets_of_open_logs_are_noted(noted: Checkpoints, harness: Harness) -> None:
    partition_of(harness, "many", 0).log.advance_log_start_offset(7)
    noted.note()
    assert noted.high_watermarks.offsets == {("many", index): 10 for index in range(PARTITIONS)}
    assert noted.start_offsets.offsets == {("many", 0): 7}


def test_partitions_that_are_gone_are_not_noted(noted: Checkpoints) -> None:
    noted.recovery_points.offsets = {("gone", 0): 5, ("many", 0): 0}
    noted.note()
    assert ("gone", 0) not in noted.recovery_points.offsets
