"""Assembles log entries from rows in arrays.

Arrow joins the bytes field by field, for all rows together. The joined bytes are then compressed and get their
checksums. Rows come in groups, and a batch never contains rows of two groups.
"""

from binascii import crc32
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from minibroker_pipeline.decode.headers import MESSAGE_LAYOUTS, V2_LAYOUT, scan_headers
from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, compress
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CRC_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_FLAG,
    CompressionCodec,
    compute_crc,
)
from minibroker_protocol.records.legacy import encode_message
from minibroker_protocol.records.varint import INT32_MAX

GROUP_END: Final = 0
"""The row after the last row of the group. Groups follow each other, and none is empty."""
ATTRIBUTES: Final = 1
"""The attributes for the batches, as in a v2 header: codec, timestamp type, transactional. They do not change the rows'
timestamps.
"""
LEADER_EPOCH: Final = 2
BATCH_BYTES: Final = 3
"""The maximum size of a batch's records before compression. A single record may be larger."""
GROUP_WIDTH: Final = 4

_CRC: Final = Struct(">I")
_MESSAGE_CRC_AT: Final = LOG_OVERHEAD
_KEY_SIZE: Final = ("key_size", ">i4")
_MESSAGE_HEADS: Final = tuple(np.dtype([*layout.descr, _KEY_SIZE]) for layout in MESSAGE_LAYOUTS)
_VARINT_LIMITS: Final = np.array([1 << 7 * size for size in range(1, 10)], np.uint64)
"""The raw values at which a varint grows by one byte."""
_SEVEN_BITS: Final = np.uint64(7)
_BINARY: Final = pa.large_binary()

_Ints = NDArray[np.int64]
Buffer = bytes | bytearray | memoryview


class Binary(NamedTuple):
    """A column of bytes: the position and size of each value in `data`. The size of a null is -1."""

    data: NDArray[np.uint8]
    at: NDArray[np.int32]
    size: NDArray[np.int32]

    def array(self) -> pa.LargeBinaryArray:
        """Return the values as an Arrow array, with nulls as empty values."""
        starts = self.at.astype(np.int64)
        ends = starts + np.maximum(self.size, 0)
        if (ends[:-1] == starts[1:]).all():
            return _build_array(np.concatenate((starts, ends[-1:] if len(ends) else [0])), self.data)
        # There are gaps between the values, so build an array in which every second item is a gap, and take the other
        # items.
        both = _build_array(np.stack((starts, ends), axis=1).reshape(-1), self.data)
        return both.take(pa.array(np.arange(0, 2 * len(starts), 2)))


class Rows(NamedTuple):
    """All rows to encode. `headers_first` and `headers_count` select the headers of each row."""

    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    keys: Binary
    values: Binary
    headers_first: NDArray[np.int32]
    headers_count: NDArray[np.int32]
    header_keys: Binary
    header_values: Binary


def groups_table(ends: NDArray[np.int64] | list[int], batch_bytes: int = INT32_MAX) -> NDArray[np.int64]:
    """Return a table of groups that end before the rows `ends`, without compression."""
    table = np.empty((len(ends), GROUP_WIDTH), np.int64)
    table[:, GROUP_END] = ends
    table[:, ATTRIBUTES] = 0
    table[:, LEADER_EPOCH] = NO_PARTITION_LEADER_EPOCH
    table[:, BATCH_BYTES] = min(batch_bytes, MAX_DECOMPRESSED_SIZE)
    return table


class EncodedBatches(NamedTuple):
    """Consecutive whole entries, and their headers (`HEADER_DTYPE`) for making index entries."""

    data: memoryview
    headers: NDArray[Any]


def encode_rows(
    rows: Rows, groups: NDArray[np.int64], *, magic: int = MAGIC_V2, level: int | None = None
) -> EncodedBatches:
    """Encode the rows as entries of format `magic`. No entry has rows of two groups.

    A batch ends before its records exceed the group's limit, but has at least one record. With a codec, this also
    applies to the wrappers of v0 and v1. Without a codec, each row of v0 and v1 is an entry. `level` is the codec's
    compression level.

    Raises:
        EncodeError: the format does not support headers, zstd or the negative timestamps of the rows, or a record
            is too large.
    """
    if magic != MAGIC_V2:
        _check_legacy(rows, groups, magic)
        view = memoryview(_build_messages(rows, groups, magic, level))
        return EncodedBatches(view.toreadonly(), scan_headers(view))
    data = _build_batches(rows, groups, level)
    view = memoryview(data)
    headers = scan_headers(view)
    for index, (position, size) in enumerate(zip(headers["position"].tolist(), headers["size"].tolist(), strict=True)):
        crc = compute_crc(view[position : position + size])
        _CRC.pack_into(data, position + CRC_AT, crc)
        headers["crc"][index] = crc
    return EncodedBatches(view.toreadonly(), headers)


def _check_legacy(rows: Rows, groups: NDArray[np.int64], magic: int) -> None:
    if rows.headers_count.any():
        raise EncodeError(f"headers: format v{magic} does not have any")
    if ((groups[:, ATTRIBUTES] & CODEC_MASK) == CompressionCodec.ZSTD).any():
        raise EncodeError(f"codec: zstd, which format v{magic} does not know")
    lowest = int(rows.timestamps.min(initial=NO_TIMESTAMP))
    if lowest < NO_TIMESTAMP:
        raise EncodeError(f"timestamp: {lowest}")


def check_compressible(records: Buffer) -> None:
    """Check that the records are not too large for readers to decompress.

    Raises:
        EncodeError: the records are too large.
    """
    if len(records) > MAX_DECOMPRESSED_SIZE:
        raise EncodeError(f"record: {len(records)} bytes, and under a codec {MAX_DECOMPRESSED_SIZE} can be read again")


def _compress_records(codec: int, records: Buffer, magic: int, level: int | None) -> Buffer:
    check_compressible(records)
    return compress(CompressionCodec(codec), records, magic=magic, level=level)


class _Plan(NamedTuple):
    """The division of rows into batches, or into messages that share a wrapper.

    `bodies` has the size of each v2 record without its length field. `ends` has the end position of each row in the
    bytes of all rows.
    """

    firsts: _Ints
    counts: _Ints
    groups: _Ints
    bodies: _Ints
    ends: _Ints


def _plan_batches(rows: Rows, groups: _Ints, sizes: _Ints, magic: int) -> _Plan:
    """Divide rows into full batches.

    `sizes` has the sizes of the rows. For v2, these exclude the length field and the deltas of each record.
    """
    sums = np.cumsum(sizes)
    bodies, totals = sizes.copy(), sizes.copy()
    batches: list[tuple[int, int, int]] = []
    first = 0
    for number, (end_of_group, limit) in enumerate(groups[:, (GROUP_END, BATCH_BYTES)].tolist()):
        while first < end_of_group:
            bytes_before = sums[first] - sizes[first]
            end = min(end_of_group, int(np.searchsorted(sums, bytes_before + limit, side="right")) + 1)
            span = slice(first, end)
            deltas = rows.offsets[span] - rows.offsets[first]
            if magic == MAGIC_V2:
                bodies[span] += varint_sizes(deltas) + varint_sizes(rows.timestamps[span] - rows.timestamps[first])
                totals[span] = bodies[span] + varint_sizes(bodies[span])
            ends = np.cumsum(totals[span])
            fits = (ends <= limit) & (deltas <= INT32_MAX)
            count = len(fits) if fits.all() else max(int(np.argmin(fits)), 1)
            bodies[first + count : end] = sizes[first + count : end]
            size = int(ends[count - 1]) + (RECORD_BATCH_OVERHEAD if magic == MAGIC_V2 else 0)
            if size > INT32_MAX:
                raise EncodeError(f"record: a batch of {size} bytes")
            batches.append((first, count, number))
            first += count
    firsts, counts, numbers = np.array(batches, np.int64).reshape(-1, 3).T
    return _Plan(firsts, counts, numbers, bodies, np.cumsum(totals))


def _build_batches(rows: Rows, groups: _Ints, level: int | None) -> bytearray:
    """Return v2 batches with checksums of 0."""
    headers = _join_fields(*_encode_sized(rows.header_keys), *_encode_sized(rows.header_values))
    headers_before = np.cumsum(rows.headers_count, dtype=np.int64) - rows.headers_count
    numbers = np.repeat(rows.headers_first - headers_before, rows.headers_count)
    headers = headers.take(pa.array(numbers + np.arange(len(numbers))))
    bounds = _bounds_of(headers)[np.append(headers_before, len(numbers))]
    sizes = 1 + np.diff(bounds) + varint_sizes(rows.headers_count)
    for column in (rows.keys, rows.values):
        sizes += varint_sizes(column.size) + np.maximum(column.size, 0)
    plan = _plan_batches(rows, groups, sizes, MAGIC_V2)
    times, offsets = (
        values - np.repeat(values[plan.firsts], plan.counts) for values in (rows.timestamps, rows.offsets)
    )
    keys = _encode_sized(rows.keys, plan.bodies, np.zeros_like(times), times, offsets)
    all_headers = _build_array(bounds, headers.buffers()[2])
    fields = (*keys, *_encode_sized(rows.values), _encode_varints(rows.headers_count), all_headers)
    records = memoryview(_join_fields(*fields).buffers()[2] or b"")
    heads = _build_batch_heads(rows, groups, plan)
    ends = plan.ends[plan.firsts + plan.counts - 1].tolist()
    contents: list[Buffer] = [records[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    for index, codec in enumerate((heads["attributes"] & CODEC_MASK).tolist()):
        if codec:
            contents[index] = _compress_records(codec, contents[index], MAGIC_V2, level)
    heads["length"] = [RECORD_BATCH_OVERHEAD - LOG_OVERHEAD + len(content) for content in contents]
    data = bytearray()
    for head, content in zip(heads, contents, strict=True):
        data += head.tobytes()
        data += content
    return data


def _build_batch_heads(rows: Rows, groups: _Ints, plan: _Plan) -> NDArray[Any]:
    """Return the headers of v2 batches, without lengths and checksums."""
    firsts, lasts = plan.firsts, plan.firsts + plan.counts - 1
    return _build_heads(
        V2_LAYOUT,
        len(firsts),
        base_offset=rows.offsets[firsts],
        leader_epoch=groups[plan.groups, LEADER_EPOCH],
        magic=MAGIC_V2,
        attributes=groups[plan.groups, ATTRIBUTES],
        last_offset_delta=rows.offsets[lasts] - rows.offsets[firsts],
        base_timestamp=rows.timestamps[firsts],
        max_timestamp=_find_latest_timestamps(rows, plan),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=plan.counts,
    )


def _build_messages(rows: Rows, groups: _Ints, magic: int, level: int | None) -> bytearray:
    """Return messages of v0 or v1. The messages of a group with a codec are in wrappers."""
    layout = _MESSAGE_HEADS[magic]
    sizes = np.full(len(rows.offsets), layout.itemsize + 4, np.int64)
    for column in (rows.keys, rows.values):
        sizes += np.maximum(column.size, 0)
    plan = _plan_batches(rows, groups, sizes, magic)
    attributes = groups[plan.groups, ATTRIBUTES] & (CODEC_MASK | TIMESTAMP_TYPE_FLAG if magic else CODEC_MASK)
    bases = np.where((attributes & CODEC_MASK != 0) & (magic == 1), rows.offsets[plan.firsts], 0)
    heads = _build_heads(
        layout,
        len(sizes),
        base_offset=rows.offsets - np.repeat(bases, plan.counts),
        length=sizes - LOG_OVERHEAD,
        magic=magic,
        attributes=np.repeat(attributes & TIMESTAMP_TYPE_FLAG, plan.counts),
        key_size=rows.keys.size,
        **({"timestamp": rows.timestamps} if magic else {}),
    )
    fields = _encode_fixed(heads), rows.keys.array(), _encode_fixed(rows.values.size.astype(">i4")), rows.values.array()
    messages = bytearray(_join_fields(*fields).buffers()[2] or b"")
    view = memoryview(messages)
    ends = plan.ends.tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        _CRC.pack_into(messages, start + _MESSAGE_CRC_AT, crc32(view[start + MAGIC_AT : end]))
    if not (attributes & CODEC_MASK).any():
        return messages
    out = bytearray()
    start = 0
    table = zip(
        plan.firsts + plan.counts - 1, attributes.tolist(), _find_latest_timestamps(rows, plan).tolist(), strict=True
    )
    for last, chosen, latest in table:
        part = view[start : ends[last]]
        start = ends[last]
        if codec := chosen & CODEC_MASK:
            content = _compress_records(codec, part, magic, level)
            offset = int(rows.offsets[last])
            out += encode_message(offset, None, content, magic=magic, timestamp=latest, attributes=chosen)
        else:
            out += part
    return out


def _find_latest_timestamps(rows: Rows, plan: _Plan) -> _Ints:
    return np.maximum.reduceat(rows.timestamps, plan.firsts) if len(plan.firsts) else plan.firsts


def _build_heads(layout: np.dtype[Any], count: int, **fields: Any) -> NDArray[Any]:
    heads = np.zeros(count, layout)
    for name, values in fields.items():
        heads[name] = values
    return heads


def _build_array(bounds: _Ints, data: Any) -> pa.LargeBinaryArray:
    """Return an array of the values in `data`. Each value lies between two consecutive `bounds`."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds)), pa.py_buffer(b"" if data is None else data)]
    return pa.LargeBinaryArray.from_buffers(_BINARY, len(bounds) - 1, buffers)


def _bounds_of(array: pa.LargeBinaryArray) -> _Ints:
    return np.frombuffer(array.buffers()[1], np.int64)[: len(array) + 1] if len(array) else np.zeros(1, np.int64)


def _encode_fixed(values: NDArray[Any]) -> pa.LargeBinaryArray:
    return _build_array(np.arange(len(values) + 1) * values.itemsize, values.view(np.uint8))


def _join_fields(*fields: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    return pc.call_function("binary_join_element_wise", [*fields, pa.scalar(b"", _BINARY)])


def _encode_sized(column: Binary, *integers: _Ints) -> tuple[pa.LargeBinaryArray, pa.LargeBinaryArray]:
    """Return two arrays: the encoded integers and sizes that precede the values, and the values."""
    return _encode_varints(*integers, column.size), column.array()


def _encode_zigzag(values: NDArray[Any]) -> NDArray[np.uint64]:
    values = values.astype(np.int64, copy=False)
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def varint_sizes(values: NDArray[Any]) -> _Ints:
    """Return the size of each value as a zigzag varint, in bytes."""
    return np.searchsorted(_VARINT_LIMITS, _encode_zigzag(values), side="right") + 1


def _encode_varints(*columns: NDArray[Any]) -> pa.LargeBinaryArray:
    """Return the integers of each row as varints, without gaps between them."""
    columns_of_bytes: list[NDArray[np.uint8]] = []
    used: list[NDArray[np.bool_]] = []
    for column in columns:
        remaining = _encode_zigzag(column)
        is_used = np.ones(len(remaining), np.bool_)
        while is_used.any():
            shifted = remaining >> _SEVEN_BITS
            has_more = shifted != 0
            columns_of_bytes.append((remaining.astype(np.uint8) & 0x7F) | (has_more.view(np.uint8) << 7))
            used.append(is_used)
            remaining, is_used = shifted, has_more
    if not columns_of_bytes:
        return _build_array(np.zeros(1, np.int64), None)
    is_used = np.stack(used, axis=1)
    bounds = np.append(0, np.cumsum(is_used.sum(axis=1)))
    return _build_array(bounds, np.stack(columns_of_bytes, axis=1)[is_used])
