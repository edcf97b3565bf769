"""Batches by `minibroker_protocol`, one Python object per record: where numba is not; what the kernel must equal."""

from typing import TYPE_CHECKING

from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records import (
    HEADER,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RECORD_BATCH_OVERHEAD,
    NewRecord,
)
from minibroker_protocol.records.record import encode_record
from minibroker_protocol.records.varint import INT32_MAX, wrap_int64

if TYPE_CHECKING:
    from minibroker_pipeline.decode.encoder import Binary, Rows


def write(rows: "Rows", batch_bytes: int, leader_epoch: int) -> bytearray:
    """See `encoder.encode`."""
    out = bytearray()
    offsets, timestamps = rows.offsets.tolist(), rows.timestamps.tolist()
    first, body = 0, bytearray()
    for row, (offset, timestamp) in enumerate(zip(offsets, timestamps, strict=True)):
        record = NewRecord(_value(rows.keys, row), _value(rows.values, row), timestamp, _headers(rows, row))
        if row > first:
            encoded = _encoded(record, offset - offsets[first], timestamp - timestamps[first])
            if encoded is not None and len(body) + len(encoded) <= batch_bytes:
                body += encoded
                continue
            out += _batch(body, offsets[first:row], timestamps[first:row], leader_epoch)
        first, body = row, bytearray(_encoded(record, 0, 0) or b"")
    if offsets:
        out += _batch(body, offsets[first:], timestamps[first:], leader_epoch)
    return out


def _encoded(record: NewRecord, offset_delta: int, timestamp_delta: int) -> bytes | None:
    """One record; None when it is too far from the batch's first one to be in it."""
    return None if offset_delta > INT32_MAX else encode_record(offset_delta, wrap_int64(timestamp_delta), record)


def _batch(body: bytearray, offsets: list[int], timestamps: list[int], leader_epoch: int) -> bytes:
    """One batch, its checksum left 0."""
    length = RECORD_BATCH_OVERHEAD - LOG_OVERHEAD + len(body)
    if LOG_OVERHEAD + length > INT32_MAX:
        raise EncodeError(f"record: a batch of {LOG_OVERHEAD + length} bytes")
    last_delta = offsets[-1] - offsets[0]
    no_producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    times = (timestamps[0], max(timestamps))
    head = (offsets[0], length, leader_epoch, MAGIC_V2, 0, 0, last_delta, *times, *no_producer, len(offsets))
    return HEADER.pack(*head) + body


def _value(column: "Binary", row: int) -> bytes | None:
    size, at = int(column.size[row]), int(column.at[row])
    return None if size < 0 else column.data[at : at + size].tobytes()


def _headers(rows: "Rows", row: int) -> tuple[tuple[str, bytes | None], ...]:
    first = int(rows.headers_first[row])
    return tuple(
        (
            (_value(rows.header_keys, header) or b"").decode("utf-8", "surrogateescape"),
            _value(rows.header_values, header),
        )
        for header in range(first, first + int(rows.headers_count[row]))
    )
