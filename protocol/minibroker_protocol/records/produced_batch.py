"""Checks of a produced v2 batch that is appended without changes, including its checksum (CRC).

The checks are Kafka's own. `ProduceRequest.validateRecords` requires exactly one v2 batch per partition since Produce
v3, `UnifiedLog.analyzeAndValidateRecords` requires base offset 0 and a correct CRC, and `LogValidator.validateBatch`
checks the header fields that a client sets. Kafka then reads every record. Here the caller sets the record count up to
which records are read. Larger batches need no reading, because a correct checksum shows that the records are as the
producer wrote them, and consumers check them again.

Kafka also writes the largest timestamp of the records into the header, ignoring the producer's value
(`setMaxTimestamp`). Here this is done only if the records are read anyway. The records of a larger batch are read only
if the max timestamp in its header is implausible. Sarama before 1.45.1 sends -1, and a search by time would never find
such a batch.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, NoReturn

from minibroker_protocol.errors import CorruptRecordError, InvalidRecordError, UnsupportedMagicError
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, check_header, decompress, decompress_within
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    HEADER,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_LENGTH,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    CompressionCodec,
    TimestampType,
    crc32c,
    make_header,
)
from minibroker_protocol.records.record import MIN_RECORD_SIZE, walk_records
from minibroker_protocol.records.record_runs import MIN_RECORDS_FOR_RUNS, check_records
from minibroker_protocol.records.varint import CONTINUES, decode_varint

with lazy:
    from minibroker_protocol.records import record_times
    from minibroker_protocol.records import restamp as records_restamp

MAX_AHEAD_MS: Final = 60 * 60 * 1000
"""The maximum plausible lead over the broker's time. Kafka 4 rejects more (`message.timestamp.after.max.ms`)."""
MAX_TIMED_BYTES: Final = 8 * 1024 * 1024
"""The maximum size of decompressed records for which an implausible max timestamp is corrected."""
MAX_OPENED_BYTES: Final = 4 * 1024 * 1024
"""The maximum size of decompressed records that are checked. Larger records are trusted, like those of large batches.

A few kilobytes can become 128 MiB, and a request can have any number of such batches.
"""
MAX_PLAUSIBLE_GROWTH: Final = 256
"""The maximum plausible expansion. Above it, a compressed batch must be checked to contain its record count.

The limit compares the batch with the smallest possible size of its records. Records of 100 bytes reach it only if they
shrink to a four-thousandth of their size.
"""


def check_produced_batch(batch: memoryview, *, opened_records: int, now_ms: int | None = None) -> BatchHeader:
    """Like `check_produced_fields`, but return the header as a `BatchHeader`."""
    return make_header(check_produced_fields(batch, opened_records=opened_records, now_ms=now_ms))


def check_produced_fields(  # noqa: C901, PLR0912 - every batch comes this way, and calls would double its cost
    batch: memoryview, *, opened_records: int, now_ms: int | None = None
) -> tuple[int, ...]:
    """Check that `batch` is a single v2 batch that a client is allowed to append. Return its header fields.

    The fields are a plain tuple in the order of `BatchHeader`: most batches need only a few of them, and creating a
    `BatchHeader` would take as long as the check itself. The records are also checked if there are at most
    `opened_records` of them, or always if `opened_records` is negative. If `now_ms`, the broker's time, is given,
    `batch` must be writable: a max timestamp that differs from the records' largest timestamp is corrected in
    place, together with the checksum.

    Raises:
        CorruptRecordError: the size is invalid, extra bytes follow the batch, or the CRC is wrong.
        UnsupportedMagicError: the batch has message format v0 or v1.
        UnsupportedCodecError: the codec does not exist.
        InvalidRecordError: the batch is invalid in another way. A truncated batch is invalid too: Kafka
            does not treat it as a batch.
    """
    size = len(batch)
    if size < RECORD_BATCH_OVERHEAD:
        _raise_frame_error(batch)
    fields = HEADER.unpack_from(batch)
    # fmt: off
    (base_offset, length, _, magic, crc, attributes, last_offset_delta,
     base_timestamp, max_timestamp, producer_id, _, sequence, count) = fields
    # fmt: on
    if magic != MAGIC_V2 or length != size - LOG_OVERHEAD:
        _raise_frame_error(batch)
    # Clients number the records of each batch from 0, and the broker assigns the offsets
    # (`LogValidator.validateBatch`).
    if base_offset:
        raise InvalidRecordError(f"base offset: {base_offset} instead of 0")
    # Check the CRC before using any later field.
    computed = crc32c(batch[CRC_COVERS_FROM:])
    if computed != crc:
        raise CorruptRecordError(f"crc: stored {crc}, computed {computed}")
    # A producer's batch has a record for every offset, because only compaction in the broker leaves gaps.
    if count <= 0 or last_offset_delta != count - 1:
        raise InvalidRecordError(f"record count: {count}, with a last offset delta of {last_offset_delta}")
    if attributes & CONTROL_FLAG:
        raise InvalidRecordError(f"attributes: {attributes:#x} is a control batch, which clients may not write")
    if producer_id >= 0 > sequence:
        raise InvalidRecordError(f"base sequence: {sequence}, with producer id {producer_id}")
    room = size - RECORD_BATCH_OVERHEAD
    if attributes & CODEC_MASK:
        delta = _check_compressed(batch, make_header(fields), opened_records)
    # Reject an impossible count, because consumers would allocate memory for that many records.
    elif count * MIN_RECORD_SIZE > room:
        raise InvalidRecordError(f"record count: {count} in {room} bytes")
    elif count <= opened_records or opened_records < 0:
        if count == 1:
            delta = check_record(batch, RECORD_BATCH_OVERHEAD)
        else:
            check = walk_records if count < MIN_RECORDS_FOR_RUNS else check_records
            delta = check(batch, RECORD_BATCH_OVERHEAD, count)
    else:
        delta = None
    # With LogAppendTime, the broker's time replaces the max timestamp, so no correction is needed.
    if now_ms is None or attributes & TIMESTAMP_TYPE_FLAG:
        return fields
    if delta is None:
        # The records were not decoded. Accept a plausible max timestamp, because reading the records would cost more
        # than appending the batch.
        if base_timestamp <= max_timestamp <= now_ms + MAX_AHEAD_MS and max_timestamp >= 0:
            return fields
    elif max_timestamp == base_timestamp + delta and delta >= 0 and max_timestamp >= NO_TIMESTAMP:
        return fields
    return _correct_max_timestamp(batch, make_header(fields))


def _check_compressed(batch: memoryview, header: BatchHeader, opened_records: int) -> int | None:
    """Check compressed records, or at least their count. Return the result of `walk_records`, or None if not opened.

    All decompression for checks happens here.
    """
    codec, count = header.codec, header.record_count
    data = batch[RECORD_BATCH_OVERHEAD:]
    if opened_records < 0:
        return check_records(decompress(codec, data, max_size=MAX_DECOMPRESSED_SIZE), 0, count)
    if count <= opened_records:
        records = decompress_within(codec, data, MAX_OPENED_BYTES)
        if records is not None:
            return check_records(records, 0, count)
        return None
    check_header(codec, data)
    if count * MIN_RECORD_SIZE > len(data) * MAX_PLAUSIBLE_GROWTH:
        check_record_count(codec, data, count)
    return None


def _correct_max_timestamp(batch: memoryview, header: BatchHeader) -> BatchHeader:
    """Set the max timestamp in `batch` to the largest of its records, and return the new header."""
    data: memoryview | bytes | None = batch[RECORD_BATCH_OVERHEAD:]
    if header.codec is not CompressionCodec.NONE:
        data = decompress_within(header.codec, batch[RECORD_BATCH_OVERHEAD:], MAX_TIMED_BYTES)
    if data is None:
        return header
    largest = record_times.largest_timestamp(data, header)
    return records_restamp.restamp(batch, header, TimestampType.CREATE_TIME, largest)


def _raise_frame_error(batch: memoryview) -> NoReturn:
    """Raise the error for a wrong size or magic, checking them in the order of Kafka's `ByteBufferLogInputStream`."""
    size = len(batch)
    if size < LOG_OVERHEAD:
        raise InvalidRecordError(f"records: {size} bytes, which hold no batch")
    batch_length = int.from_bytes(batch[LENGTH_AT:LOG_OVERHEAD], "big", signed=True)
    if batch_length < MIN_MESSAGE_LENGTH:
        raise CorruptRecordError(f"batch length: {batch_length}")
    if batch_length > size - LOG_OVERHEAD:
        raise InvalidRecordError(f"batch length: {batch_length}, but {size - LOG_OVERHEAD} bytes are there")
    magic = batch[MAGIC_AT]
    if magic < MAGIC_V2:
        raise UnsupportedMagicError(f"magic: {magic} instead of {MAGIC_V2}")
    if magic > MAGIC_V2:
        raise CorruptRecordError(f"magic: {magic}")
    if batch_length < RECORD_BATCH_OVERHEAD - LOG_OVERHEAD:
        raise CorruptRecordError(f"batch length: {batch_length}, less than a batch's header takes")
    extra = batch[LOG_OVERHEAD + batch_length :]
    if _starts_with_a_batch(extra):
        raise InvalidRecordError(f"records: a second batch follows the one of {size - len(extra)} bytes")
    # Kafka ignores some kinds of extra bytes after a batch. Here they are rejected, because no client sends any, and
    # the whole buffer is appended.
    raise CorruptRecordError(f"batch length: {batch_length}, but {len(extra)} bytes follow the batch")


def _starts_with_a_batch(extra: memoryview) -> bool:
    """Return whether `extra`, the bytes after a batch, starts with a second complete batch of any message format."""
    if len(extra) < LOG_OVERHEAD + MIN_MESSAGE_LENGTH:
        return False
    batch_length = int.from_bytes(extra[LENGTH_AT:LOG_OVERHEAD], "big", signed=True)
    return MIN_MESSAGE_LENGTH <= batch_length <= len(extra) - LOG_OVERHEAD and extra[MAGIC_AT] <= MAGIC_V2


MAX_MEASURED_BYTES: Final = 8 * 1024 * 1024
"""Maximum number of bytes to decompress for counting. This takes a few milliseconds."""
_MAX_GROWTH: Final = {CompressionCodec.SNAPPY: 64, CompressionCodec.LZ4: 255, CompressionCodec.GZIP: 1_032}
"""Maximum expansion of one compressed byte. zstd is measured instead: 4 of its bytes can become 128 KB."""


def check_record_count(codec: CompressionCodec, data: memoryview, count: int) -> None:
    """Check that compressed data can contain `count` records, the number in the header.

    The check uses the minimum size of a record. Kafka decompresses every batch and counts the records. Here the
    records of larger batches are trusted, but their number determines the log end offset. The data is therefore
    decompressed up to `MAX_MEASURED_BYTES`. Larger data is allowed as many records as fit into the reader's limit
    (`MAX_DECOMPRESSED_SIZE`).

    Raises:
        InvalidRecordError: the data is malformed, or cannot contain `count` records.
    """
    needed = count * MIN_RECORD_SIZE
    max_size = min(len(data) * _MAX_GROWTH.get(codec, needed), MAX_DECOMPRESSED_SIZE)
    if needed <= max_size:
        records = decompress_within(codec, data, MAX_MEASURED_BYTES)
        max_size = max_size if records is None else len(records)
    if needed > max_size:
        raise InvalidRecordError(f"record count: {count} in {len(data)} bytes under {codec.name.lower()}")


MAX_FORMS: Final = 256
"""Maximum number of cached forms, one per batch size. When it is exceeded, all are dropped."""
_Form = tuple[Callable[[bytes | memoryview], tuple[Any, ...]], tuple[Any, ...], int]
"""A function that extracts the form's bytes from a batch, these bytes, and the result of `check_record`."""


class _FormCache:
    """A cache of the forms of valid single records, by the size of their batch.

    The form of a record is every byte that determines where a field ends. A record with a cached form is valid whatever
    its key and value are, so one comparison replaces a walk over its fields. Producers that send single records usually
    use few sizes. A size is cached when two consecutive batches have it. Otherwise sizes that always differ would cost
    more than the walk.
    """

    __slots__ = ("by_size", "last_size")

    def __init__(self) -> None:
        self.by_size: dict[int, _Form] = {}
        self.last_size = -1


_forms: Final = _FormCache()
_cached_form: Final = _forms.by_size.get


def check_record(batch: bytes | memoryview, position: int) -> int:
    """Check, like `walk_records`, a single record that extends from `position` to the end of `batch`.

    The position must be the same in every call.
    """
    form = _cached_form(len(batch))
    if form is not None:
        extract, content, delta = form
        if extract(batch) == content:
            return delta
    delta = walk_records(batch, position, 1)
    size = len(batch)
    if size == _forms.last_size and size not in _forms.by_size:
        form = _extract_form(batch, position, delta)
        if form is not None:
            if len(_forms.by_size) >= MAX_FORMS:
                _forms.by_size.clear()
            _forms.by_size[size] = form
    _forms.last_size = size
    return delta


def _extract_form(batch: bytes | memoryview, position: int, delta: int) -> _Form | None:
    """Return the form of a valid record, or None if the record has headers, because they have lengths of their own."""
    _, at = decode_varint(batch, position)
    at += 1  # Skip the attributes.
    for _ in ("timestamp delta", "offset delta"):
        while batch[at] >= CONTINUES:
            at += 1
        at += 1
    key_size, key = decode_varint(batch, at)
    value_size_at = key + max(key_size, 0)
    value_size, value = decode_varint(batch, value_size_at)
    end = value + max(value_size, 0)
    if batch[end:] != b"\0":
        return None
    extract = Struct(
        f"{position}x{key - position}s{value_size_at - key}x{value - value_size_at}s{end - value}xs"
    ).unpack
    return extract, extract(batch), delta
