"""Extracts the keys and offsets of a log entry's records, for the cleaner."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.header import CODEC_MASK, MAGIC_V2, RECORD_BATCH_OVERHEAD, BatchHeader
from minibroker_protocol.records.legacy import LegacyRecordBatch
from minibroker_protocol.records.record import Record
from minibroker_protocol.records.record_loop import NUMBER, RecordLoop, replace_body


class Keys(NamedTuple):
    """The parts of an entry's records that the cleaner needs, as parallel lists with one item per record."""

    offsets: list[int]
    keys: list[bytes | None]
    #: Whether each record's value is null.
    tombstones: list[bool]
    #: The positions of v2 records: record `i` occupies the bytes from `bounds[i]` to `bounds[i + 1]`. The list is empty
    #: for other formats.
    bounds: list[int]


def v2_data(batch: bytes, header: BatchHeader) -> tuple[bytes, int]:
    """Return a buffer with a v2 batch's uncompressed records, and the position of the first record in it."""
    if header.attributes & CODEC_MASK:
        return RecordBatch(memoryview(batch)).records_data(), 0
    return batch, RECORD_BATCH_OVERHEAD


def extract_v2_keys(data: bytes, position: int, header: BatchHeader) -> Keys:
    """Extract the offsets, keys and bounds of the records in `data` from `position` on, in one pass.

    The first call compiles the loop (see `record_loop`).

    Raises:
        InvalidRecordError: the data does not consist of exactly `header.record_count` records.
    """
    replace_body(extract_v2_keys, V2_KEYS)
    return extract_v2_keys(data, position, header)


V2_KEYS: Final = RecordLoop(
    "data, position, header",
    records="header.record_count",
    before="""\
base_offset = header.base_offset
entry_keys = Keys([], [], [], [position])
add_offset, add_key = entry_keys.offsets.append, entry_keys.keys.append
add_tombstone, add_bound = entry_keys.tombstones.append, entry_keys.bounds.append""",
    fields={
        "length": "end = position + (raw >> 1)",
        "offset_delta": f"add_offset(base_offset + ({NUMBER}))",
        "key": "add_key(key)",
    },
    per_record="""\
add_tombstone(data[position] & 1 == 1)  # the sign of the value's length
if position >= end:
    raise InvalidRecordError("its key goes beyond its end")
position = end
add_bound(end)""",
    after="""\
if position != len(data):
    count = header.record_count
    raise InvalidRecordError(f"record count: {count}, but they end at byte {position} of {len(data)}")
return entry_keys""",
    names={"Keys": Keys},
)


def extract_legacy_keys(records: Sequence[Record]) -> Keys:
    """Extract the offsets and keys of v0 and v1 messages, like extract_v2_keys(), but without bounds."""
    return Keys(
        [record.offset for record in records],
        [record.key for record in records],
        [record.value is None for record in records],
        [],
    )


def keys_of(entry: bytes, header: BatchHeader) -> Keys:
    """Extract the keys and offsets of an entry's records, in any format.

    Raises:
        DecodeError: the records cannot be decoded.
    """
    if header.magic == MAGIC_V2:
        return extract_v2_keys(*v2_data(entry, header), header)
    return extract_legacy_keys(list(LegacyRecordBatch(memoryview(entry))))
