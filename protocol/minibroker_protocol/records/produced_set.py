"""The checks of a produced set that the log validator opens: whether a topic may take it. Nothing is changed here.

First the set as a whole, `analyze` (Kafka's `UnifiedLog.analyzeAndValidateRecords`): sizes, checksums, message
formats, codecs. Then whether the topic's message format knows such producers, `check_target`. Then the records,
`open_batch` and `RecordValidator` (`LogValidator.validateRecord`): checksums of inner messages, keys, timestamps.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from minibroker_protocol.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordError,
    UnsupportedMagicError,
)
from minibroker_protocol.records.append_policy import NO_LIMIT_BYTES, NO_LIMIT_MS, AppendPolicy
from minibroker_protocol.records.batch import Batch, RecordBatch, iter_batches
from minibroker_protocol.records.header import (
    MAGIC_AT,
    MAGIC_V2,
    NO_TIMESTAMP,
    BatchHeader,
    CompressionCodec,
    TimestampType,
)
from minibroker_protocol.records.legacy import LegacyRecordBatch
from minibroker_protocol.records.produced_batch import check_produced_batch
from minibroker_protocol.records.record import Record
from minibroker_protocol.records.varint import decode_varint, wrap_int64
from minibroker_protocol.steps import Steps, collect

MAX_OPENED_RECORDS: Final = 500_000
"""Where each record has to be read, a batch may have so many: a few compressed bytes can promise millions."""
RECORDS_PER_STEP: Final = 2_048
"""Records, or messages of a set, that are read or checked in a step, in a few milliseconds."""
_SHOWN_ERRORS: Final = 3


class OpenedBatch(NamedTuple):
    """A batch whose records have been read."""

    header: BatchHeader
    data: bytes
    """The encoded records, decompressed."""
    records: list[Record]


def checked_batches(records: memoryview) -> Iterator[Batch]:
    """Yield the batches of a produced set, with their sizes, checksums and headers checked.

    `CorruptRecordError` for impossible sizes, wrong checksums and magics that do not exist; and what
    `check_produced_batch` says of a v2 batch.
    """
    if len(records) > MAGIC_AT and records[MAGIC_AT] >= MAGIC_V2:
        check_produced_batch(records, opened_records=0)
        yield RecordBatch(records)
        return
    try:
        for batch in iter_batches(records):
            batch.check_crc()
            yield batch
    except UnsupportedMagicError as error:
        raise CorruptRecordError(str(error)) from None


def analyze(batches: Sequence[Batch], size: int) -> CompressionCodec:
    """Check a produced set of `size` bytes as a whole, given its `checked_batches`; return its codec.

    A set is one v2 batch, or one wrapper, or any number of plain v0 or v1 messages.

    `InvalidRecordError` for a set without any whole batch, for several where the format allows one, and for unequal
    magics; `UnsupportedCodecError` for a codec that does not exist.
    """
    if not batches:
        raise InvalidRecordError(f"records: {size} bytes, which hold no whole message")
    source_codec = next((codec for batch in reversed(batches) if (codec := batch.header.codec)), CompressionCodec.NONE)
    magic = batches[0].header.magic
    if source_codec is not CompressionCodec.NONE and len(batches) > 1:
        raise InvalidRecordError(f"records: {len(batches)} messages of format v{magic}, some of them compressed")
    for index, batch in enumerate(batches):
        if batch.header.magic != magic:
            raise InvalidRecordError(f"magic: {batch.header.magic} in message {index}, but {magic} in the first")
    return source_codec


def check_target(header: BatchHeader, magic: int) -> None:
    """Whether a log of message format `magic` can hold the batch that `header` heads.

    `UnsupportedMagicError` for an idempotent or transactional batch where the log is older than v2.
    """
    if magic < MAGIC_V2 and (header.has_producer_id or header.is_transactional):
        raise UnsupportedMagicError(f"producer id: {header.producer_id}, which message format v{magic} cannot hold")


def open_batch(batch: Batch) -> Steps[OpenedBatch]:
    """Read a batch's records, and check what only that shows: the checksums of a wrapper's messages, the offsets of v2.

    `CorruptRecordError` for an inner checksum, `InvalidRecordError` for more than `MAX_OPENED_RECORDS` records; else
    raises what iterating over the batch raises.
    """
    header = batch.header
    if header.record_count > MAX_OPENED_RECORDS:
        raise InvalidRecordError(f"record count: {header.record_count}, above the limit of {MAX_OPENED_RECORDS}")
    if header.magic < MAGIC_V2 and header.codec is CompressionCodec.NONE:
        return OpenedBatch(header, b"", list(batch))
    data = b"".join((yield from collect(batch.pieces())))
    if isinstance(batch, LegacyRecordBatch):
        reading = batch.read(data, most=MAX_OPENED_RECORDS, checks_crcs=True)
    else:
        reading = batch.read(data)
    records = yield from collect(reading, RECORDS_PER_STEP)
    offset = header.base_offset
    if header.magic == MAGIC_V2 and [record.offset for record in records] != list(range(offset, offset + len(records))):
        raise InvalidRecordError("offset delta: out of order")
    return OpenedBatch(header, data, records)


class RecordValidator:
    """The rules that a topic has for single records, at one point of the broker's time (milliseconds)."""

    def __init__(self, policy: AppendPolicy, now_ms: int, topic_partition: str | None = None) -> None:
        """`topic_partition` is for error messages only."""
        self._policy: Final = policy
        self._now_ms: Final = now_ms
        self._place: Final = f" in topic partition {topic_partition}" if topic_partition else ""
        self._has_limits: Final = policy.timestamp_type is TimestampType.CREATE_TIME and (
            policy.before_max_ms < NO_LIMIT_MS or policy.after_max_ms < NO_LIMIT_MS
        )

    def must_open(self, header: BatchHeader) -> bool:
        """Whether the header of a v2 batch is not enough to say that its records obey, and what the highest time is."""
        return (
            self._policy.timestamp_type is TimestampType.CREATE_TIME
            or self._policy.require_keys
            or self._limits_sizes(header)
            or header.timestamp_type is TimestampType.LOG_APPEND_TIME
        )

    def validate(self, batches: Sequence[OpenedBatch]) -> Steps[None]:
        """Check all records; the first batch with a bad one decides. A step looks at a number of records.

        `InvalidTimestampError` when a timestamp is out of range or was set as only a broker may, else
        `InvalidRecordError`; both say which records of the batch are to blame.
        """
        for batch in batches:
            if self._limits_sizes(batch.header):
                _check_sizes(batch.data, batch.header.record_count, self._policy.max_record_bytes)
            errors: list[RecordError] = []
            bad_timestamps = False
            for index in range(0, len(batch.records), RECORDS_PER_STEP):
                some = batch.records[index : index + RECORDS_PER_STEP]
                if not self._all_obey(some, batch.header):
                    for number, record in enumerate(some, index):
                        message = self._key_error(record)
                        if message is None:
                            message = self._timestamp_error(record, batch.header)
                            bad_timestamps = bad_timestamps or message is not None
                        if message is not None:
                            errors.append(RecordError(number, message))
                yield
            if bad_timestamps:
                raise InvalidTimestampError("One or more records have been rejected due to invalid timestamp", errors)
            if errors:
                raise InvalidRecordError(_summary(errors), errors)

    def _limits_sizes(self, header: BatchHeader) -> bool:
        """Kafka counts the bytes of records only where it unpacks them."""
        is_packed = header.magic == MAGIC_V2 and header.codec is not CompressionCodec.NONE
        return is_packed and self._policy.max_record_bytes < NO_LIMIT_BYTES

    def _all_obey(self, records: Sequence[Record], header: BatchHeader) -> bool:
        """Whether none of a batch's records can be at fault. A no means that they must be looked at one by one."""
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return False
        if self._policy.require_keys and None in [record.key for record in records]:
            return False
        if not self._has_limits:
            return True
        timestamps = [record.timestamp for record in records]
        policy = self._policy
        return (
            self._now_ms - min(timestamps) <= policy.before_max_ms
            and max(timestamps) - self._now_ms <= policy.after_max_ms
        )

    def _key_error(self, record: Record) -> str | None:
        if self._policy.require_keys and record.key is None:
            return f"Compacted topic cannot accept message without key{self._place}"
        return None

    def _timestamp_error(self, record: Record, header: BatchHeader) -> str | None:
        policy = self._policy
        timestamp = record.timestamp
        if policy.timestamp_type is TimestampType.CREATE_TIME and timestamp != NO_TIMESTAMP:
            # Kafka takes LOG_APPEND_TIME from a producer here, and then stamps it as CREATE_TIME.
            age = self._now_ms - timestamp
            if age > policy.before_max_ms or -age > policy.after_max_ms:
                earliest = wrap_int64(self._now_ms - policy.before_max_ms)
                latest = wrap_int64(self._now_ms + policy.after_max_ms)
                return (
                    f"Timestamp {timestamp} of message with offset {record.offset} is out of range. "
                    f"The timestamp should be within [{earliest}, {latest}]"
                )
        elif header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return (
                f"Invalid timestamp type in message with offset {record.offset}. "
                "Producer should not set timestamp type to LogAppendTime."
            )
        return None


def _check_sizes(data: bytes, count: int, limit: int) -> None:
    """Refuse records that were read, if a body has more bytes than `limit`; in the words of Kafka 4.4."""
    position = 0
    for _ in range(count):
        size, position = decode_varint(data, position)
        if size > limit:
            raise InvalidRecordError(
                f"Invalid record size: {size} exceeds the configured maximum record size of {limit}."
            )
        position += size


def _summary(errors: list[RecordError]) -> str:
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:_SHOWN_ERRORS])
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
