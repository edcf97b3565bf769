"""The checks that a produced batch goes through before it is appended.

They are Kafka's: `ProduceRequest.validateRecords` (since Produce v3 exactly one batch of format v2 for a partition),
`UnifiedLog.analyzeAndValidateRecords` (base offset 0, a right CRC) and `LogValidator.validateBatch` (what a client may
say in a header). Kafka then reads every record. Here the caller says up to which record count that is done: a
checksum that is right means that the producer wrote the records as they are, and readers check them again.
"""

from typing import NoReturn

from minibroker_protocol.errors import CorruptRecordError, InvalidRecordError, UnsupportedMagicError
from minibroker_protocol.records.checksum import crc32c
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, decompress
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
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    make_header,
)
from minibroker_protocol.records.record import MIN_RECORD_SIZE, walk_records


def check_produced_batch(
    batch: memoryview, *, opened_records: int, max_decompressed_size: int = MAX_DECOMPRESSED_SIZE
) -> BatchHeader:
    """The header of the one v2 batch that `batch` holds, when a client may append it.

    The records themselves are checked too when there are at most `opened_records` of them, or any number when that is
    negative. `CorruptRecordError` for an impossible size, stray bytes behind the batch or a wrong CRC,
    `UnsupportedMagicError` for message formats v0 and v1, `UnsupportedCodecError` for a codec that does not exist,
    `InvalidRecordError` for anything else, also for a batch that is cut short (to Kafka it is no batch at all).
    """
    size = len(batch)
    if size < RECORD_BATCH_OVERHEAD:
        _refuse_frame(batch)
    fields = HEADER.unpack_from(batch)
    base_offset, length, _, magic, crc, attributes, last_offset_delta, _, _, producer_id, _, sequence, count = fields
    if magic != MAGIC_V2 or length != size - LOG_OVERHEAD:
        _refuse_frame(batch)
    if base_offset:
        raise InvalidRecordError(f"base offset: {base_offset} instead of 0")
    computed = crc32c(batch[CRC_COVERS_FROM:])
    if computed != crc:
        raise CorruptRecordError(f"crc: stored {crc}, computed {computed}")
    if count <= 0 or last_offset_delta != count - 1:
        raise InvalidRecordError(f"record count: {count}, with a last offset delta of {last_offset_delta}")
    if attributes & CONTROL_FLAG:
        raise InvalidRecordError(f"attributes: {attributes:#x} is a control batch, which clients may not write")
    if producer_id >= 0 > sequence:
        raise InvalidRecordError(f"base sequence: {sequence}, with producer id {producer_id}")
    header = make_header(fields)
    if not attributes & CODEC_MASK:
        if count * MIN_RECORD_SIZE > size - RECORD_BATCH_OVERHEAD:
            raise InvalidRecordError(f"record count: {count} in {size - RECORD_BATCH_OVERHEAD} bytes")
        if count <= opened_records or opened_records < 0:
            walk_records(batch, RECORD_BATCH_OVERHEAD, count)
    else:
        codec = header.codec
        if count <= opened_records or opened_records < 0:
            walk_records(decompress(codec, batch[RECORD_BATCH_OVERHEAD:], max_size=max_decompressed_size), 0, count)
    return header


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
    # Kafka drops some kinds of stray bytes. Nobody sends them, and what is appended here must be the batch alone.
    raise CorruptRecordError(f"batch length: {batch_length}, but {len(rest)} bytes follow the batch")


def _starts_with_a_batch(rest: memoryview) -> bool:
    """Whether a batch of some message format follows the first one, whole."""
    if len(rest) < LOG_OVERHEAD + MIN_MESSAGE_LENGTH:
        return False
    batch_length = int.from_bytes(rest[LENGTH_AT:LOG_OVERHEAD], "big", signed=True)
    return MIN_MESSAGE_LENGTH <= batch_length <= len(rest) - LOG_OVERHEAD and rest[MAGIC_AT] <= MAGIC_V2
