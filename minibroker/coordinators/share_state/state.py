"""The state of one share-partition, and its records (`ShareGroupOffset`, `ShareCoordinatorRecordHelpers`).

Newer batches of a state are combined with older ones (`PersisterStateBatchCombiner`). If an offset has two states, the
state with more deliveries wins. If the delivery counts are equal, archived wins over acknowledged, and acknowledged
over available.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from minibroker_protocol.coordinator_records.share_groups import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from minibroker_protocol.coordinator_records.share_groups import StateBatch as WrittenBatch
from minibroker_protocol.coordinator_records.versioned import encode_versioned
from minibroker_protocol.primitives import uuid_text

R = TypeVar("R", bound=Any)

_SNAPSHOT_KEY: Final = 0
_UPDATE_KEY: Final = 1
_VALUE: Final = 0
UNKNOWN: Final = -1
"""A start offset or count that is not known yet."""
MAX_BATCHES: Final = 10_000
"""The maximum number of batches in a state: Kafka's limit of offsets in flight per group and partition."""
KEEP_START: Final = -1
"""The start offset of a change that leaves the current start offset unchanged."""
_FIRST: Final = attrgetter("first")
_LAST: Final = attrgetter("last")


class StateBatch(NamedTuple):
    """An inclusive range of offsets in the same state. Batches sort by their fields in this order.

    Attributes:
        state: 0 for available, 2 for acknowledged, 4 for archived records.
    """

    first: int
    last: int
    deliveries: int
    state: int


def combine(so_far: Sequence[StateBatch], newer: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Combine two lists of batches into sorted batches without overlaps, and drop offsets below the start offset.

    Args:
        so_far: The result of an earlier call.
        newer: Batches in any order, possibly overlapping.
        start_offset: The start offset, or KEEP_START to drop nothing.
    """
    batches = _cut_below(so_far, start_offset) if start_offset != KEEP_START else list(so_far)
    changes = sorted(_cut_below(newer, start_offset) if start_offset != KEEP_START else newer)
    if not changes:
        return batches
    # Only the batches that touch a change are combined, because a change is small and the state can be large.
    begin = bisect_left(batches, changes[0].first - 1, key=_LAST)
    end = bisect_right(batches, max(batch.last for batch in changes) + 1, lo=begin, key=_FIRST)
    return [*batches[:begin], *_resolve_overlaps([*batches[begin:end], *changes]), *batches[end:]]


def _cut_below(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    return [
        batch if batch.first >= start_offset else batch._replace(first=start_offset)
        for batch in batches
        if batch.last >= start_offset
    ]


def _resolve_overlaps(batches: list[StateBatch]) -> list[StateBatch]:
    """Resolve overlaps between sorted batches, and merge equal neighbors."""
    heapify(batches)
    combined: list[StateBatch] = []
    earlier = heappop(batches)
    while batches:
        later = heappop(batches)
        rank, later_rank = (earlier.deliveries, earlier.state), (later.deliveries, later.state)
        if rank == later_rank and later.first <= earlier.last + 1:
            earlier = earlier._replace(last=max(earlier.last, later.last))
        elif later.first > earlier.last:
            combined.append(earlier)
            earlier = later
        elif rank > later_rank:
            if later.last > earlier.last:
                heappush(batches, later._replace(first=earlier.last + 1))
        else:
            if earlier.first < later.first:
                combined.append(earlier._replace(last=later.first - 1))
            if earlier.last > later.last:
                heappush(batches, earlier._replace(first=later.last + 1))
            earlier = later
    return merge_neighbors([*combined, earlier])


def merge_neighbors(ranges: Iterable[R]) -> list[R]:
    """Merge adjacent ranges of a sorted list if only their first and last offsets, the first two fields, differ."""
    merged: list[R] = []
    for current in ranges:
        if merged and merged[-1].last + 1 == current.first and merged[-1][2:] == current[2:]:
            merged[-1] = merged[-1]._replace(last=current.last)
        else:
            merged.append(current)
    return merged


class SharePartitionKey(NamedTuple):
    """The key of a share-partition: a partition as one share group sees it."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def text(self) -> str:
        """The key for finding the coordinator, as in a FindCoordinator request (`asCoordinatorKey`)."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"


class ShareState(NamedTuple):
    """The state of a share-partition. Times are in milliseconds.

    Attributes:
        snapshot_epoch: The number of the last snapshot. Each snapshot raises it by one.
        state_epoch: Raised each time the group coordinator initializes the state.
        leader_epoch: The epoch of the last leader that read the state.
        start_offset: The first unfinished offset, or UNKNOWN before the first fetch.
        delivery_complete_count: The number of offsets at or above `start_offset` whose delivery is complete, or
            UNKNOWN if not counted.
        batches: Sorted batches without overlaps.
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
    """A change to a `ShareState`.

    A start offset of KEEP_START or a leader epoch of UNKNOWN leaves that field unchanged.
    """

    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


def apply_change(state: ShareState, change: Change) -> ShareState:
    """Return the state that results from a change."""
    start = state.start_offset if change.start_offset == KEEP_START else change.start_offset
    return state._replace(
        leader_epoch=state.leader_epoch if change.leader_epoch == UNKNOWN else change.leader_epoch,
        start_offset=start,
        delivery_complete_count=change.delivery_complete_count,
        batches=combine(state.batches, change.batches, start),
    )


def encode_snapshot_key(key: SharePartitionKey) -> bytes:
    """Return the key of a share-partition's snapshots and tombstones."""
    return encode_versioned(ShareSnapshotKey(**key._asdict()), _SNAPSHOT_KEY)


def encode_update_key(key: SharePartitionKey) -> bytes:
    """Return the key of a share-partition's updates."""
    return encode_versioned(ShareUpdateKey(**key._asdict()), _UPDATE_KEY)


def encode_snapshot(state: ShareState) -> bytes:
    """Encode a complete state as a snapshot."""
    fields = state._asdict()
    return encode_versioned(ShareSnapshotValue(state_batches=_encode_batches(fields.pop("batches")), **fields), _VALUE)


def encode_update(snapshot_epoch: int, change: Change) -> bytes:
    """Encode a change as an update."""
    fields = change._asdict()
    batches = _encode_batches(fields.pop("batches"))
    return encode_versioned(ShareUpdateValue(snapshot_epoch=snapshot_epoch, state_batches=batches, **fields), _VALUE)


def decode_state(value: ShareSnapshotValue) -> ShareState:
    """Return the state stored in a snapshot."""
    return ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _decode_batches(value.state_batches),
        value.create_timestamp,
        value.write_timestamp,
    )


def decode_change(value: ShareUpdateValue) -> Change:
    """Return the change stored in an update."""
    return Change(
        value.leader_epoch, value.start_offset, value.delivery_complete_count, _decode_batches(value.state_batches)
    )


def _encode_batches(batches: Iterable[StateBatch]) -> list[WrittenBatch]:
    return [
        WrittenBatch(
            first_offset=batch.first,
            last_offset=batch.last,
            delivery_state=batch.state,
            delivery_count=batch.deliveries,
        )
        for batch in batches
    ]


def _decode_batches(batches: Iterable[WrittenBatch]) -> list[StateBatch]:
    return [
        StateBatch(item.first_offset, item.last_offset, item.delivery_count, item.delivery_state) for item in batches
    ]
