"""The plain encoder: batches by `minibroker_protocol`, one object per record. It runs where numba does not."""

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.encoder_arrays import (
    ATTRIBUTES,
    BASE_SEQUENCE,
    BATCH_BYTES,
    BATCH_WIDTH,
    GROUP_END,
    LEADER_EPOCH,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    Binary,
    PlainBatches,
    Rows,
)
from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records import HEADER, LOG_OVERHEAD, MAGIC_V2, RECORD_BATCH_OVERHEAD, NewRecord
from minibroker_protocol.records.header import CODEC_MASK, TIMESTAMP_TYPE_FLAG, increment_sequence
from minibroker_protocol.records.legacy import encode_message
from minibroker_protocol.records.record import encode_record
from minibroker_protocol.records.varint import INT32_MAX, wrap_int64


def write(rows: Rows, groups: NDArray[np.int64], magic: int) -> PlainBatches:
    """See `assemble.encode_rows`."""
    writing = _Writing(rows, magic)
    first = 0
    for number, group in enumerate(groups.tolist()):
        writing.write_group(number, group, first)
        first = group[GROUP_END]
    return PlainBatches(writing.out, np.array(writing.batches, np.int64).reshape(-1, BATCH_WIDTH))


class _Writing:
    def __init__(self, rows: Rows, magic: int) -> None:
        self.out = bytearray()
        self.batches: list[tuple[int, ...]] = []
        self._rows = rows
        self._magic = magic
        self._offsets, self._timestamps = rows.offsets.tolist(), rows.timestamps.tolist()

    def write_group(self, number: int, group: list[int], group_first: int) -> None:
        """Write the batches of one group, which begins with this row."""
        limit, end = group[BATCH_BYTES], group[GROUP_END]
        first, body = group_first, bytearray()
        for row in range(group_first, end):
            encoded = self._encoded(row, first, group[ATTRIBUTES])
            if row > first and (encoded is None or len(body) + len(encoded) > limit):
                self._finish(number, group, group_first, first, row, body)
                first, body = row, bytearray()
                encoded = self._encoded(row, first, group[ATTRIBUTES])
            body += encoded or b""
        self._finish(number, group, group_first, first, end, body)

    def _encoded(self, row: int, first: int, attributes: int) -> bytes | None:
        """One record; None when it is too far from the batch's first one to be in it."""
        delta = self._offsets[row] - self._offsets[first]
        if delta > INT32_MAX:
            return None
        key, value, timestamp = _value(self._rows.keys, row), _value(self._rows.values, row), self._timestamps[row]
        if self._magic == MAGIC_V2:
            record = NewRecord(key, value, timestamp, _headers(self._rows, row))
            return encode_record(delta, wrap_int64(timestamp - self._timestamps[first]), record)
        offset = delta if self._magic and attributes & CODEC_MASK else self._offsets[row]
        kept = attributes & TIMESTAMP_TYPE_FLAG if self._magic else 0
        return encode_message(offset, key, value, magic=self._magic, timestamp=timestamp, attributes=kept)

    def _finish(self, number: int, group: list[int], group_first: int, first: int, end: int, body: bytearray) -> None:
        position, latest = len(self.out), max(self._timestamps[first:end])
        if self._magic == MAGIC_V2:
            self.out += self._head(group, first - group_first, first, end, len(body), latest)
        self.out += body
        self.batches.append((first, end, position, len(self.out) - position, latest, number))
        if len(self.out) - position > INT32_MAX:
            raise EncodeError(f"record: a batch of {len(self.out) - position} bytes")

    def _head(self, group: list[int], before: int, first: int, end: int, size: int, latest: int) -> bytes:
        """A batch's first 61 bytes, its checksum left 0. `before` of its group's rows are in earlier batches."""
        sequence = group[BASE_SEQUENCE]
        length = RECORD_BATCH_OVERHEAD - LOG_OVERHEAD + size
        if length > INT32_MAX:
            raise EncodeError(f"record: a batch of {LOG_OVERHEAD + length} bytes")
        return HEADER.pack(
            self._offsets[first],
            length,
            group[LEADER_EPOCH],
            MAGIC_V2,
            0,
            group[ATTRIBUTES],
            self._offsets[end - 1] - self._offsets[first],
            self._timestamps[first],
            latest,
            group[PRODUCER_ID],
            group[PRODUCER_EPOCH],
            increment_sequence(sequence, before) if sequence >= 0 else sequence,
            end - first,
        )


def _value(column: Binary, row: int) -> bytes | None:
    size, at = int(column.size[row]), int(column.at[row])
    return None if size < 0 else column.data[at : at + size].tobytes()


def _headers(rows: Rows, row: int) -> tuple[tuple[str, bytes | None], ...]:
    first = int(rows.headers_first[row])
    return tuple(
        (
            (_value(rows.header_keys, header) or b"").decode("utf-8", "surrogateescape"),
            _value(rows.header_values, header),
        )
        for header in range(first, first + int(rows.headers_count[row]))
    )
