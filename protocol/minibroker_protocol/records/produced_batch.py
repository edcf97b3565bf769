"""The checks of a produced batch of format v2 that is appended as it comes, its checksum (CRC) among them.

They are Kafka's: `ProduceRequest.validateRecords` (since Produce v3 exactly one batch of format v2 for a partition),
`UnifiedLog.analyzeAndValidateRecords` (base offset 0, a right CRC) and `LogValidator.validateBatch` (what a client may
say in a header). Kafka then reads every record. Here the caller says up to which record count that is done: a
checksum that is right means that the producer wrote the records as they are, and readers check them again.

Kafka also writes the records' largest timestamp into the header, whatever the producer wrote there (`setMaxTimestamp`).
Here this is done where the records are read anyway. Of a larger batch the records' times are read only where the header
is implausible: Sarama before 1.45.1 leaves -1 there, with which a batch is found by no time.
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
from minibroker_protocol.records.record_runs import WORTHWHILE, check_records
from minibroker_protocol.records.varint import CONTINUES, decode_varint

with lazy:
    from minibroker_protocol.records import record_times
    from minibroker_protocol.records import restamp as records_restamp

AHEAD_MS: Final = 60 * 60 * 1000
"""A time further ahead of the broker's is doubted. Kafka 4 refuses it (`message.timestamp.after.max.ms`)."""
TIMED_SIZE: Final = 8 * 1024 * 1024
"""Compressed records that would take more bytes than that keep the time in their header, however implausible."""
OPENED_SIZE: Final = 4 * 1024 * 1024
"""Records that take more bytes than that when they are unpacked are trusted, as those of batches with many records.

A few kilobytes can become 128 MiB, and a request may hold any number of such batches.
"""
PLAUSIBLE_GROWTH: Final = 256
"""A batch whose smallest possible records are that many times its size must show that it holds so many.

Records of 100 bytes get there when they shrink to a four-thousandth.
"""


def check_produced_batch(batch: memoryview, *, opened_records: int, now_ms: int | None = None) -> BatchHeader:
    """Like `check_produced_fields`, but return the fields with their names."""
    return make_header(check_produced_fields(batch, opened_records=opened_records, now_ms=now_ms))


def check_produced_fields(  # noqa: C901, PLR0912 - every batch comes this way, and calls would double its cost
    batch: memoryview, *, opened_records: int, now_ms: int | None = None
) -> tuple[int, ...]:
    """The fields of the header of the one v2 batch that `batch` holds, when a client may append it.

    They are those of `BatchHeader` in their order. Most batches need only a few, and names cost as much as a check.

    The records themselves are checked too when there are at most `opened_records` of them, or any number when that is
    negative. With `now_ms`, the broker's time, `batch` must be writable: a max timestamp that is not that of the
    records is put right there, and the checksum with it.

    Raises:
        CorruptRecordError: impossible size, stray bytes behind the batch, or a wrong CRC.
        UnsupportedMagicError: message formats v0 and v1.
        UnsupportedCodecError: a codec that does not exist.
        InvalidRecordError: anything else. A batch that is cut short is among it: to Kafka it is not a batch at all.
    """
    size = len(batch)
    if size < RECORD_BATCH_OVERHEAD:
        _refuse_frame(batch)
    fields = HEADER.unpack_from(batch)
    # fmt: off
    (base_offset, length, _, magic, crc, attributes, last_offset_delta,
     base_timestamp, max_timestamp, producer_id, _, sequence, count) = fields
    # fmt: on
    if magic != MAGIC_V2 or length != size - LOG_OVERHEAD:
        _refuse_frame(batch)
    # Kafka's `LogValidator.validateBatch`: the broker assigns offsets, and clients count from 0.
    if base_offset:
        raise InvalidRecordError(f"base offset: {base_offset} instead of 0")
    # Before any field behind it is believed.
    computed = crc32c(batch[CRC_COVERS_FROM:])
    if computed != crc:
        raise CorruptRecordError(f"crc: stored {crc}, computed {computed}")
    # Only compaction may leave gaps, and it is the broker's: a producer's batch has every offset.
    if count <= 0 or last_offset_delta != count - 1:
        raise InvalidRecordError(f"record count: {count}, with a last offset delta of {last_offset_delta}")
    if attributes & CONTROL_FLAG:
        raise InvalidRecordError(f"attributes: {attributes:#x} is a control batch, which clients may not write")
    if producer_id >= 0 > sequence:
        raise InvalidRecordError(f"base sequence: {sequence}, with producer id {producer_id}")
    room = size - RECORD_BATCH_OVERHEAD
    if attributes & CODEC_MASK:
        delta = _check_compressed(batch, make_header(fields), opened_records)
    # A count that cannot be true would have consumers allocate for it.
    elif count * MIN_RECORD_SIZE > room:
        raise InvalidRecordError(f"record count: {count} in {room} bytes")
    elif count <= opened_records or opened_records < 0:
        if count == 1:
            delta = check_record(batch, RECORD_BATCH_OVERHEAD)
        else:
            check = walk_records if count < WORTHWHILE else check_records
            delta = check(batch, RECORD_BATCH_OVERHEAD, count)
    else:
        delta = None
    # With LogAppendTime the broker's own time takes its place.
    if now_ms is None or attributes & TIMESTAMP_TYPE_FLAG:
        return fields
    if delta is None:
        # The records were not opened: a plausible time is believed, since a look at each would cost more than the
        # append.
        if base_timestamp <= max_timestamp <= now_ms + AHEAD_MS and max_timestamp >= 0:
            return fields
    elif max_timestamp == base_timestamp + delta and delta >= 0 and max_timestamp >= NO_TIMESTAMP:
        return fields
    return _with_true_time(batch, make_header(fields))


def _check_compressed(batch: memoryview, header: BatchHeader, opened_records: int) -> int | None:
    """Check the records, or at least their count; see `walk_records` for what is returned, None if they are not opened.

    All that is unpacked for a check is unpacked here.
    """
    codec, count = header.codec, header.record_count
    data = batch[RECORD_BATCH_OVERHEAD:]
    if opened_records < 0:
        return check_records(decompress(codec, data, max_size=MAX_DECOMPRESSED_SIZE), 0, count)
    if count <= opened_records:
        records = decompress_within(codec, data, OPENED_SIZE)
        if records is not None:
            return check_records(records, 0, count)
        return None
    check_header(codec, data)
    if count * MIN_RECORD_SIZE > len(data) * PLAUSIBLE_GROWTH:
        check_record_count(codec, data, count)
    return None


def _with_true_time(batch: memoryview, header: BatchHeader) -> BatchHeader:
    """The header with the largest timestamp of the records, which `batch` then holds, too."""
    data: memoryview | bytes | None = batch[RECORD_BATCH_OVERHEAD:]
    if header.codec is not CompressionCodec.NONE:
        data = decompress_within(header.codec, batch[RECORD_BATCH_OVERHEAD:], TIMED_SIZE)
    if data is None:
        return header
    return records_restamp.restamp(
        batch, header, TimestampType.CREATE_TIME, record_times.largest_timestamp(data, header)
    )


def _refuse_frame(batch: memoryview) -> NoReturn:
    """Say what is wrong with the size or the magic, in the order in which Kafka's `ByteBufferLogInputStream` looks."""
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
    rest = batch[LOG_OVERHEAD + batch_length :]
    if _starts_with_a_batch(rest):
        raise InvalidRecordError(f"records: a second batch follows the one of {size - len(rest)} bytes")
    # Kafka drops some kinds of stray bytes. No client sends them, and what is appended here must be the batch alone.
    raise CorruptRecordError(f"batch length: {batch_length}, but {len(rest)} bytes follow the batch")


def _starts_with_a_batch(rest: memoryview) -> bool:
    """Whether a batch of some message format follows the first one, whole."""
    if len(rest) < LOG_OVERHEAD + MIN_MESSAGE_LENGTH:
        return False
    batch_length = int.from_bytes(rest[LENGTH_AT:LOG_OVERHEAD], "big", signed=True)
    return MIN_MESSAGE_LENGTH <= batch_length <= len(rest) - LOG_OVERHEAD and rest[MAGIC_AT] <= MAGIC_V2


MEASURED_SIZE: Final = 8 * 1024 * 1024
"""Bytes at which unpacking for a measurement ends, after some milliseconds."""
_LARGEST_GROWTH: Final = {CompressionCodec.SNAPPY: 64, CompressionCodec.LZ4: 255, CompressionCodec.GZIP: 1_032}
"""The most bytes that one compressed byte becomes. zstd is measured instead: 4 of its bytes become up to 128 KB."""


def check_record_count(codec: CompressionCodec, data: memoryview, count: int) -> None:
    """Check that compressed records can be as many as their header says, by the smallest size that a record has.

    Kafka unpacks every batch and counts. Here larger batches are trusted, but their record count moves the end of a
    log. So data is unpacked up to `MEASURED_SIZE`; what is larger may hold as many records as a reader would unpack
    (`MAX_DECOMPRESSED_SIZE`).

    Raises:
        InvalidRecordError: The data is malformed, or cannot hold `count` records.
    """
    needed = count * MIN_RECORD_SIZE
    most = min(len(data) * _LARGEST_GROWTH.get(codec, needed), MAX_DECOMPRESSED_SIZE)
    if needed <= most:
        records = decompress_within(codec, data, MEASURED_SIZE)
        most = most if records is None else len(records)
    if needed > most:
        raise InvalidRecordError(f"record count: {count} in {len(data)} bytes under {codec.name.lower()}")


MOST_FORMS: Final = 256
"""The forms that are remembered, one for each size. When there are more, all are forgotten."""
_Form = tuple[Callable[[bytes | memoryview], tuple[Any, ...]], tuple[Any, ...], int]
"""A function that returns the bytes of the form in a batch, these bytes, and the result of `check_record`."""


class _Forms:
    """The forms of single records that have passed the check, by the size of their batch.

    The form of a record is every byte that tells where a field ends. A record of a remembered form is valid, whatever
    its key and value are, so one comparison replaces the walk over its fields. Producers that send record by record
    mostly send few sizes. A size gets its form when two batches in a row have it, or sizes that always differ would
    cost more than the walk.
    """

    __slots__ = ("by_size", "last_size")

    def __init__(self) -> None:
        self.by_size: dict[int, _Form] = {}
        self.last_size = -1


_forms: Final = _Forms()
_of_size: Final = _forms.by_size.get


def check_record(batch: bytes | memoryview, position: int) -> int:
    """`walk_records` for one record, with which `batch` ends; it begins at `position`, the same for all batches."""
    form = _of_size(len(batch))
    if form is not None:
        taken_from, content, delta = form
        if taken_from(batch) == content:
            return delta
    return _walk(batch, position)


def _walk(batch: bytes | memoryview, position: int) -> int:
    delta = walk_records(batch, position, 1)
    size = len(batch)
    if size == _forms.last_size and size not in _forms.by_size:
        form = _form_of(batch, position, delta)
        if form is not None:
            if len(_forms.by_size) >= MOST_FORMS:
                _forms.by_size.clear()
            _forms.by_size[size] = form
    _forms.last_size = size
    return delta


def _form_of(batch: bytes | memoryview, position: int, delta: int) -> _Form | None:
    """The form of a valid record; None with headers, which have lengths of their own."""
    _, at = decode_varint(batch, position)
    at += 1  # the attributes
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
    taken_from = Struct(
        f"{position}x{key - position}s{value_size_at - key}x{value - value_size_at}s{end - value}xs"
    ).unpack
    return taken_from, taken_from(batch), delta
