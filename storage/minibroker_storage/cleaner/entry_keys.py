"""The records of one log entry as far as a cleaning looks at them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.header import CODEC_MASK, MAGIC_V2, RECORD_BATCH_OVERHEAD, BatchHeader
from minibroker_protocol.records.legacy import LegacyRecordBatch
from minibroker_protocol.records.record import Record
from minibroker_protocol.records.record_loop import NUMBER, RecordLoop, become


class Keys(NamedTuple):
    """The records of an entry as far as a cleaning looks at them, one item for each."""

    offsets: list[int]
    keys: list[bytes | None]
    #: Whether the value is null.
    tombstones: list[bool]
    #: `bounds[i]` to `bounds[i + 1]` are the bytes of a v2 record; empty for other formats.
    bounds: list[int]


def v2_data(batch: bytes, header: BatchHeader) -> tuple[bytes, int]:
    """Bytes that hold a v2 batch's records uncompressed, and the position in them where the records begin."""
    if header.attributes & CODEC_MASK:
        return RecordBatch(memoryview(batch)).records_data(), 0
    return batch, RECORD_BATCH_OVERHEAD


def v2_keys(data: bytes, position: int, header: BatchHeader) -> Keys:
    """Offsets, keys and bounds of the records that stand in `data` from `position` on, with one look at each.

    `InvalidRecordError` where those are not `header.record_count` records and nothing else. See `record_loop`.
    """
    become(v2_keys, V2_KEYS)
    return v2_keys(data, position, header)


V2_KEYS: Final = RecordLoop(
    "data, position, header",
    records="header.record_count",
    before="""\
base_offset = header.base_offset
found = Keys([], [], [], [position])
add_offset, add_key = found.offsets.append, found.keys.append
add_tombstone, add_bound = found.tombstones.append, found.bounds.append""",
    fields={
        "length": "end = position + (raw >> 1)",
        "offset_delta": f"add_offset(base_offset + ({NUMBER}))",
        "key": "add_key(key)",
    },
    each="""\
add_tombstone(data[position] & 1 == 1)  # the sign of the value's length
if position >= end:
    raise InvalidRecordError("its key goes beyond its end")
position = end
add_bound(end)""",
    after="""\
if position != len(data):
    count = header.record_count
    raise InvalidRecordError(f"record count: {count}, but they end at byte {position} of {len(data)}")
return found""",
    names={"Keys": Keys},
)


def legacy_keys(records: Sequence[Record]) -> Keys:
    """Return the same of v0 and v1 messages."""
    return Keys(
        [record.offset for record in records],
        [record.key for record in records],
        [record.value is None for record in records],
        [],
    )


def keys_of(entry: bytes, header: BatchHeader) -> Keys:
    """The keys of any entry. `DecodeError`."""
    if header.magic == MAGIC_V2:
        return v2_keys(*v2_data(entry, header), header)
    return legacy_keys(list(LegacyRecordBatch(memoryview(entry))))
