"""Read-only checks of a produced record set whose records must be read, to decide whether a topic accepts it.

`analyze` checks the whole set: sizes, checksums, message formats, codecs (`UnifiedLog.analyzeAndValidateRecords`).
`check_target` checks that the topic's message format supports the producer. `open_batch` and `RecordValidator` check
the records: inner checksums, keys and timestamps (`LogValidator.validateRecord`).
"""

from collections.abc import Callable, Iterator, Sequence
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
"""Maximum record count of a batch whose records must be read: a few compressed bytes can contain millions."""
RECORDS_PER_STEP: Final = 2_048
"""Records, or messages of a set, read or checked per step, in a few milliseconds."""
_SHOWN_ERRORS: Final = 3


RecordCheck = Callable[[Sequence[Record], int], Steps[list[RecordError]]]
"""Checks some records of a batch, of which the first has the given index there, and returns their errors."""


class OpenedBatch(NamedTuple):
    """A batch whose records have been read."""

    header: BatchHeader
    data: bytes
    """The encoded records, decompressed."""
    records: list[Record]


def checked_batches(records: memoryview) -> Iterator[Batch]:
    """Yield the batches of a produced set after checking their sizes, checksums and headers.

    For a v2 batch, the errors of `check_produced_batch` are raised as well.

    Raises:
        CorruptRecordError: a size is invalid, a checksum is wrong, or a magic does not exist.
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
    """Check a whole produced set of `size` bytes, given its `checked_batches`, and return its codec.

    A set is one v2 batch, or one wrapper, or any number of plain v0 or v1 messages.

    Raises:
        InvalidRecordError: there is no complete batch, there are several where the format allows one, or the magics
            differ.
        UnsupportedCodecError: the codec does not exist.
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
    """Check that a log of message format `magic` can store the batch with this header.

    Raises:
        UnsupportedMagicError: the batch is idempotent or transactional, and the log's format is older than v2.
    """
    if magic < MAGIC_V2 and (header.has_producer_id or header.is_transactional):
        raise UnsupportedMagicError(f"producer id: {header.producer_id}, which message format v{magic} cannot hold")


def open_batch(batch: Batch) -> Steps[OpenedBatch]:
    """Read a batch's records, and check the inner checksums of a wrapper or the offsets of a v2 batch.

    The errors of iterating over the batch are raised as well.

    Raises:
        CorruptRecordError: an inner checksum is wrong.
        InvalidRecordError: the batch has more than `MAX_OPENED_RECORDS` records.
    """
    header = batch.header
    if header.record_count > MAX_OPENED_RECORDS:
        raise InvalidRecordError(f"record count: {header.record_count}, above the limit of {MAX_OPENED_RECORDS}")
    if header.magic < MAGIC_V2 and header.codec is CompressionCodec.NONE:
        return OpenedBatch(header, b"", list(batch))
    data = b"".join((yield from collect(batch.chunks())))
    if isinstance(batch, LegacyRecordBatch):
        reading = batch.read(data, max_messages=MAX_OPENED_RECORDS, verifies_crcs=True)
    else:
        reading = batch.read(data)
    records = yield from collect(reading, RECORDS_PER_STEP)
    offset = header.base_offset
    if header.magic == MAGIC_V2 and [record.offset for record in records] != list(range(offset, offset + len(records))):
        raise InvalidRecordError("offset delta: out of order")
    return OpenedBatch(header, data, records)


class RecordValidator:
    """Checks single records against a topic's rules, at a given broker time in milliseconds."""

    def __init__(
        self, policy: AppendPolicy, now_ms: int, topic_partition: str | None = None, check: RecordCheck | None = None
    ) -> None:
        """Create a validator; `topic_partition` is used in error messages only."""
        self._check: Final = check
        self._policy: Final = policy
        self._now_ms: Final = now_ms
        self._place: Final = f" in topic partition {topic_partition}" if topic_partition else ""
        self._has_limits: Final = policy.timestamp_type is TimestampType.CREATE_TIME and (
            policy.before_max_ms < NO_LIMIT_MS or policy.after_max_ms < NO_LIMIT_MS
        )

    def must_open(self, header: BatchHeader) -> bool:
        """Return whether the records of a v2 batch must be read to validate them or to find the highest timestamp."""
        return (
            self._policy.timestamp_type is TimestampType.CREATE_TIME
            or self._check is not None
            or self._policy.require_keys
            or self._limits_sizes(header)
            or header.timestamp_type is TimestampType.LOG_APPEND_TIME
        )

    def validate(self, batches: Sequence[OpenedBatch]) -> Steps[None]:
        """Check all records, some in each step, and raise an error for the first batch with an invalid record.

        The error lists all invalid records of that batch, unless a record is too large.

        Raises:
            InvalidTimestampError: a timestamp is out of range, or has the type that only a broker sets.
            InvalidRecordError: another rule is broken.
        """
        for batch in batches:
            if self._limits_sizes(batch.header):
                _check_sizes(batch.data, batch.header.record_count, self._policy.max_record_bytes)
            errors: list[RecordError] = []
            bad_timestamps = False
            for index in range(0, len(batch.records), RECORDS_PER_STEP):
                records = batch.records[index : index + RECORDS_PER_STEP]
                if not self._are_surely_valid(records, batch.header):
                    for number, record in enumerate(records, index):
                        message = self._timestamp_error(record, batch.header)
                        if self._policy.require_keys and record.key is None:
                            message = f"Compacted topic cannot accept message without key{self._place}"
                        elif message:
                            bad_timestamps = True
                        if message:
                            errors.append(RecordError(number, message))
                if self._check is not None:
                    errors += yield from self._check(records, index)
                yield
            if bad_timestamps:
                raise InvalidTimestampError("One or more records have been rejected due to invalid timestamp", errors)
            if errors:
                raise InvalidRecordError(_summarize_errors(errors), errors)

    def _limits_sizes(self, header: BatchHeader) -> bool:
        """Return whether record sizes are limited. Kafka limits them only for records that it decompresses."""
        is_packed = header.magic == MAGIC_V2 and header.codec is not CompressionCodec.NONE
        return is_packed and self._policy.max_record_bytes < NO_LIMIT_BYTES

    def _are_surely_valid(self, records: Sequence[Record], header: BatchHeader) -> bool:
        """Return whether all records are certainly valid. If not, they must be checked one by one."""
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

    def _timestamp_error(self, record: Record, header: BatchHeader) -> str | None:
        policy = self._policy
        timestamp = record.timestamp
        if policy.timestamp_type is TimestampType.CREATE_TIME and timestamp != NO_TIMESTAMP:
            # Like Kafka, accept a batch that its producer has marked as LogAppendTime, and stamp it as CreateTime
            # later.
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
    """Reject a batch in which a record body is larger than `limit` bytes, with the error message of Kafka 4.4."""
    position = 0
    for _ in range(count):
        size, position = decode_varint(data, position)
        if size > limit:
            raise InvalidRecordError(
                f"Invalid record size: {size} exceeds the configured maximum record size of {limit}."
            )
        position += size


def _summarize_errors(errors: list[RecordError]) -> str:
    first_errors = ", ".join(
        f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:_SHOWN_ERRORS]
    )
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{first_errors}]"
    )
