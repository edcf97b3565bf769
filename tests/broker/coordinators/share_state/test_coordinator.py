"""The share coordinator: states of share-partitions with their fences and log, restarts, pruning and deletion.

When batches are combined, the state with more deliveries wins for each offset.
"""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from unittest.mock import patch

import pytest

from minibroker.coordinators.share_state.coordinator import ShareCoordinator, Summary
from minibroker.coordinators.share_state.state import UNKNOWN, Change, SharePartitionKey, StateBatch, combine
from minibroker_protocol.coordinator_records.share_groups import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from minibroker_protocol.coordinator_records.versioned import decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.batch import iter_batches
from minibroker_storage.errors import StorageError
from minibroker_storage.log import Log
from tests.broker.coordinators.groups.offset_requests import delete_topics
from tests.broker.harness import Harness
from tests.broker.logs.world import log_of, pass_time, topic_of

TOPIC = "__share_group_state"


FEW_UPDATES = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "share.coordinator.state.topic.prune.interval.ms": "60000",
    "share.coordinator.cold.partition.snapshot.interval.ms": "600000",
}


Make = Callable[[dict[str, str]], Harness]


def key_of(harness: Harness, group: str = "g", topic: str = "t", partition: int = 0) -> SharePartitionKey:
    return SharePartitionKey(group, topic_of(harness, topic).id, partition)


def states_of(harness: Harness) -> ShareCoordinator:
    return harness.services.share_states


def change(start: int = -1, *batches: StateBatch, leader_epoch: int = -1, complete: int = 0) -> Change:
    return Change(leader_epoch, start, complete, batches)


def records_of(harness: Harness, partition: int = 0) -> list[tuple[object, object]]:
    """Return the decoded records in a partition of the coordinator's topic. The value of a tombstone is None."""
    log = log_of(harness, TOPIC, partition)
    records: list[tuple[object, object]] = []
    for batch in iter_batches(memoryview(log.read(log.log_start_offset, 1 << 20).read())):
        for record in batch:
            assert record.key is not None
            is_update = record.key[1] == 1
            key: object = decode_versioned(ShareUpdateKey if is_update else ShareSnapshotKey, record.key)
            value_class: type[object] = ShareUpdateValue if is_update else ShareSnapshotValue
            records.append((key, None if record.value is None else decode_versioned(value_class, record.value)))
    return records


def kinds_of(harness: Harness) -> list[str]:
    return ["Tombstone" if value is None else type(value).__name__ for _, value in records_of(harness)]


def test_an_initialized_state_has_no_finished_records_and_its_epochs_can_be_omitted(harness: Harness) -> None:
    states, key = states_of(harness), key_of(harness)
    states.initialize(key, 5, 3)
    assert states.summary(key) == Summary(state_epoch=5, start_offset=3, delivery_complete_count=0)
    states.read(key, 3)
    assert states.write(key, -1, change(leader_epoch=-1)).code is ErrorCode.NONE
    assert states.write(key, 5, change(leader_epoch=3)).code is ErrorCode.NONE
    assert states.summary(key).leader_epoch == 3


@pytest.mark.parametrize(
    ("partition", "code"), [(-1, ErrorCode.INVALID_REQUEST), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
)
def test_a_missing_partition_has_no_state(harness: Harness, partition: int, code: ErrorCode) -> None:
    key = key_of(harness, partition=partition)
    assert states_of(harness).initialize(key, 0, 0).code is code
    assert states_of(harness).summary(key).code is code
    assert states_of(harness).delete(key).code is code


def test_states_survive_a_restart(configured: Make, again: Callable[[Harness], None]) -> None:
    harness = configured(FEW_UPDATES)
    states, key, other = states_of(harness), key_of(harness), key_of(harness, "h")
    for state_key in (key, other):
        states.initialize(state_key, 1, UNKNOWN)
    for number in range(6):
        states.write(key, 1, change(number, StateBatch(number + 2, number + 3, 2, 2), complete=number))
    states.delete(other)
    before = states.read(key, 7)
    again(harness)
    assert states_of(harness).read(key, -1) == before
    assert states_of(harness).read(key, 6).code is ErrorCode.FENCED_LEADER_EPOCH
    assert states_of(harness).summary(key).delivery_complete_count == 5
    assert states_of(harness).read(other, -1).code is ErrorCode.INVALID_REQUEST


def test_a_snapshot_follows_the_configured_number_of_updates(configured: Make) -> None:
    harness = configured(FEW_UPDATES)
    states, key = states_of(harness), key_of(harness)
    states.initialize(key, 4, 0)
    for number in range(5):
        states.write(key, 4, change(-1, StateBatch(number, number, 1, 2), complete=number + 1))
    update, snapshot = "ShareUpdateValue", "ShareSnapshotValue"
    assert kinds_of(harness) == [snapshot, update, update, update, snapshot, update]
    snapshot_value = records_of(harness)[4][1]
    assert isinstance(snapshot_value, ShareSnapshotValue)
    assert (snapshot_value.snapshot_epoch, snapshot_value.state_epoch, snapshot_value.start_offset) == (1, 4, 0)
    assert [(batch.first_offset, batch.last_offset) for batch in snapshot_value.state_batches] == [(0, 3)]
    assert snapshot_value.create_timestamp == snapshot_value.write_timestamp == harness.clock.now_ms()


def test_records_before_the_oldest_snapshot_are_pruned(configured: Make) -> None:
    harness = configured(FEW_UPDATES)
    states, key, cold = states_of(harness), key_of(harness), key_of(harness, "cold")
    states.initialize(cold, 0, 7)
    states.initialize(key, 0, 0)
    for number in range(4):
        states.write(key, 0, change(number))
    pass_time(harness, 60_000)
    log = log_of(harness, TOPIC)
    assert log.log_start_offset == 0, "the snapshot of the cold one counts"
    pass_time(harness, 540_000)
    pass_time(harness, 60_000)
    assert log.log_start_offset == log.log_end_offset - 2
    assert kinds_of(harness) == ["ShareSnapshotValue"] * 2
    harness.crash()
    assert states_of(harness).read(cold, -1).start_offset == 7
    assert states_of(harness).read(key, -1).start_offset == 3


def test_the_states_of_a_deleted_topic_are_deleted(configured: Make) -> None:
    harness = configured(FEW_UPDATES)
    harness.create("u")
    states, kept_key, deleted_key = states_of(harness), key_of(harness), key_of(harness, topic="u")
    states.initialize(kept_key, 0, 1)
    states.initialize(deleted_key, 0, 2)
    delete_topics(harness, "u")
    assert states.summary(deleted_key).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert kinds_of(harness)[-1] == "Tombstone"
    assert states.read(kept_key, -1).start_offset == 1


def test_a_change_that_the_disk_rejects_has_no_effect(harness: Harness) -> None:
    states, key = states_of(harness), key_of(harness)
    states.initialize(key, 0, 0)
    with patch.object(Log, "append", side_effect=StorageError("the disk is full")):
        assert states.write(key, 0, change(5)).code is ErrorCode.NOT_COORDINATOR
        assert states.delete(key).code is ErrorCode.NOT_COORDINATOR
    assert states.read(key, -1).start_offset == 0


def test_the_leader_of_the_state_partition_is_the_coordinator(several: Harness) -> None:
    states, key = states_of(several), key_of(several)
    states.store.log.ensure()
    coordinator = states.store.log.coordinator(key.text)
    for node in several.core.cluster.nodes.values():
        code = ErrorCode.NONE if node is coordinator else ErrorCode.NOT_COORDINATOR
        assert states.initialize(key, 0, 0, node).code is code


def test_the_topic_is_internal_and_never_loses_records_by_age(harness: Harness) -> None:
    states_of(harness).initialize(key_of(harness), 0, 0)
    topic = topic_of(harness, TOPIC)
    assert topic.is_internal
    assert topic.config.overrides["cleanup.policy"] == "delete"
    assert topic.config.overrides["retention.ms"] == "-1"
    assert len(topic.partitions) == 50


AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def b(first: int, last: int, state: int = AVAILABLE, deliveries: int = 1) -> StateBatch:
    return StateBatch(first, last, deliveries, state)


def by_offset(batches: Sequence[StateBatch]) -> dict[int, tuple[int, int]]:
    """Return the highest (deliveries, state) of each offset."""
    ranks: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(batch.first, batch.last + 1):
            ranks[offset] = max(ranks.get(offset, (-1, -1)), (batch.deliveries, batch.state))
    return ranks


@pytest.mark.parametrize("seed", range(50))
def test_random_batches_combine_to_the_highest_state_of_each_offset(seed: int) -> None:
    chance = random.Random(seed)
    state: list[StateBatch] = []
    expected: list[StateBatch] = []
    start = 0
    for _ in range(20):
        newer = [
            b(first, first + chance.randrange(6), chance.choice((0, 2, 4)), chance.randrange(1, 4))
            for first in chance.choices(range(start, start + 30), k=chance.randrange(4))
        ]
        start += chance.randrange(3)
        state = combine(state, newer, start)
        expected = [batch for batch in expected + newer if batch.last >= start]
        assert by_offset(state) == {offset: rank for offset, rank in by_offset(expected).items() if offset >= start}
        for before, after in pairwise(state):
            assert before.last < after.first
            assert before.last + 1 < after.first or before[2:] != after[2:], "equal neighbors stay apart"
