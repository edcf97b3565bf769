"""The state of one share-partition, and its records (`ShareGroupOffset`, `ShareCoordinatorRecordHelpers`)."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from minibroker.coordinators.share_state.batches import KEEP_START, StateBatch, combine
from minibroker_protocol.coordinator_records.share_group_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from minibroker_protocol.coordinator_records.share_group_state import StateBatch as WrittenBatch
from minibroker_protocol.coordinator_records.versioned import encode_versioned
from minibroker_protocol.uuids import uuid_text

_SNAPSHOT_KEY: Final = 0
_UPDATE_KEY: Final = 1
_VALUE: Final = 0
UNKNOWN: Final = -1
"""A start offset or a count that is not known yet."""


class SharePartitionKey(NamedTuple):
    """A partition as one share group sees it."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def text(self) -> str:
        """The key that FindCoordinator is asked for, which chooses the coordinator (`asCoordinatorKey`)."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"


class ShareState(NamedTuple):
    """The state of a share-partition; times are in ms.

    Attributes:
        snapshot_epoch: counts the snapshots in the log.
        state_epoch: grows when the group coordinator begins the state again.
        leader_epoch: of the leader that has read it last.
        start_offset: the first offset that is not done with; UNKNOWN before the first fetch.
        delivery_complete_count: the offsets from there on whose delivery is complete; UNKNOWN if not counted.
        batches: sorted, without overlaps.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]
    create_timestamp: int
    write_timestamp: int


class Change(NamedTuple):
    """A change of a state; see `ShareState`. A start offset of KEEP_START stays."""

    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


def changed(state: ShareState, change: Change) -> ShareState:
    """The state after a change."""
    start = state.start_offset if change.start_offset == KEEP_START else change.start_offset
    return state._replace(
        leader_epoch=state.leader_epoch if change.leader_epoch == UNKNOWN else change.leader_epoch,
        start_offset=start,
        delivery_complete_count=change.delivery_complete_count,
        batches=combine(state.batches, change.batches, start),
    )


def snapshot_key(key: SharePartitionKey) -> bytes:
    """The key of snapshots and tombstones."""
    return encode_versioned(ShareSnapshotKey(**key._asdict()), _SNAPSHOT_KEY)


def update_key(key: SharePartitionKey) -> bytes:
    """The key of updates."""
    return encode_versioned(ShareUpdateKey(**key._asdict()), _UPDATE_KEY)


def snapshot_value(state: ShareState) -> bytes:
    """The record of a whole state."""
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        create_timestamp=state.create_timestamp,
        write_timestamp=state.write_timestamp,
        state_batches=_written(state.batches),
        delivery_complete_count=state.delivery_complete_count,
    )
    return encode_versioned(value, _VALUE)


def update_value(snapshot_epoch: int, change: Change) -> bytes:
    """The record of a change."""
    value = ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=change.leader_epoch,
        start_offset=change.start_offset,
        state_batches=_written(change.batches),
        delivery_complete_count=change.delivery_complete_count,
    )
    return encode_versioned(value, _VALUE)


def state_in(value: ShareSnapshotValue) -> ShareState:
    """The state in a snapshot."""
    return ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _read(value.state_batches),
        value.create_timestamp,
        value.write_timestamp,
    )


def change_in(value: ShareUpdateValue) -> Change:
    """The change in an update."""
    return Change(value.leader_epoch, value.start_offset, value.delivery_complete_count, _read(value.state_batches))


def _written(batches: Iterable[StateBatch]) -> list[WrittenBatch]:
    return [
        WrittenBatch(
            first_offset=each.first,
            last_offset=each.last,
            delivery_state=each.state,
            delivery_count=each.deliveries,
        )
        for each in batches
    ]


def _read(batches: Iterable[WrittenBatch]) -> list[StateBatch]:
    return [
        StateBatch(each.first_offset, each.last_offset, each.delivery_count, each.delivery_state) for each in batches
    ]
