"""The records of `__share_group_state`: the delivery of records to share groups (KIP-932, KIP-1226).

The version of a key is the kind of record: 0 is a snapshot, 1 an update. A tombstone has a snapshot's key.
"""

from dataclasses import field
from typing import Annotated, Any, Final

from minibroker_protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    empty,
    message,
    structure,
    tagged,
)


@message(versions="0")
class ShareSnapshotKey:
    """The share-partition whose whole state the value is."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@structure
class StateBatch:
    """Offsets in one state, the last one included.

    `delivery_state` is 0 for available, 2 for acknowledged, 4 for archived records.
    """

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@message(versions="0", flexible="0+")
class ShareSnapshotValue:
    """The whole state; timestamps are in ms.

    `delivery_complete_count` is the number of offsets from `start_offset` on whose delivery is complete.
    """

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, tagged(0, "0+")] = -1
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: Array[StateBatch] = field(default_factory=empty)


@message(versions="1")
class ShareUpdateKey:
    """The share-partition whose state has changed."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@message(versions="0", flexible="0+")
class ShareUpdateValue:
    """The change since the snapshot with this epoch; `start_offset` is -1 if it stays."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, tagged(0, "0+")] = -1
    state_batches: Array[StateBatch] = field(default_factory=empty)


SHARE_STATE_RECORDS: Final[tuple[tuple[type[Any], type[Any]], ...]] = (
    (ShareSnapshotKey, ShareSnapshotValue),
    (ShareUpdateKey, ShareUpdateValue),
)
"""The keys and their values."""
