"""The records of one log entry as far as a cleaning looks at them."""

from collections.abc import Iterable
from typing import NamedTuple

from minibroker_protocol.errors import DecodeError, InvalidRecordError
from minibroker_protocol.records import RECORD_BATCH_OVERHEAD, BatchHeader, RecordBatch
from minibroker_protocol.records.header import CODEC_MASK, MAGIC_V2
from minibroker_protocol.records.legacy import LegacyRecordBatch
from minibroker_protocol.records.varint import CONTINUES, finish_varint


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


def v2_keys(data: bytes, position: int, header: BatchHeader) -> Keys:  # noqa: C901, PLR0912, PLR0915 - see below
    """Offsets, keys and bounds of the records that stand in `data` from `position` on, with one look at each.

    `InvalidRecordError` where those are not `header.record_count` records and nothing else. Runs once for each record,
    and a call per field would cost more than the field.
    """
    size, base_offset, continues = len(data), header.base_offset, CONTINUES
    found = Keys([], [], [], [position])
    add_offset, add_key = found.offsets.append, found.keys.append
    add_tombstone, add_bound = found.tombstones.append, found.bounds.append
    index = 0
    try:
        for index in range(header.record_count):
            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varint(data, position, raw)
            end = position + (raw >> 1)

            position += 1  # the attributes
            while data[position] >= continues:
                position += 1
            position += 1  # the timestamp delta

            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varint(data, position, raw)
            add_offset(base_offset + ((raw >> 1) ^ -(raw & 1)))

            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varint(data, position, raw)
            if raw & 1:
                add_key(None)
            else:
                start = position
                position += raw >> 1
                add_key(data[start:position])

            add_tombstone(data[position] & 1 == 1)  # the sign of the value's length
            if position >= end:
                raise InvalidRecordError(f"record {index}: its key goes beyond its end")
            position = end
            add_bound(end)
    except IndexError:
        raise InvalidRecordError(f"record {index}: a field goes beyond the end of the batch") from None
    except DecodeError as error:
        raise InvalidRecordError(f"record {index}: {error}") from None
    if position != size:
        raise InvalidRecordError(f"record count: {header.record_count}, but they end at byte {position} of {size}")
    return found


def legacy_keys(records: Iterable[tuple[int, bytes | None, bytes | None]]) -> Keys:
    """The same of v0 and v1 messages, each an offset, a key and a value."""
    found = Keys([], [], [], [])
    for offset, key, value in records:
        found.offsets.append(offset)
        found.keys.append(key)
        found.tombstones.append(value is None)
    return found


def keys_of(entry: bytes, header: BatchHeader) -> Keys:
    """The keys of any entry. `DecodeError`."""
    if header.magic == MAGIC_V2:
        return v2_keys(*v2_data(entry, header), header)
    return legacy_keys((record.offset, record.key, record.value) for record in LegacyRecordBatch(memoryview(entry)))
