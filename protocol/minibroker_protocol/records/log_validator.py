"""Validation and conversion of produced records before they are appended (Kafka's `LogValidator`).

Kafka does everything in one loop over the records. Here the work is split into four operations, and this module
decides which of them a record set needs:

- *validate* (`produced_set`) checks whether the topic accepts the records, without changing them;
- *convert* (`conversion`) rewrites the records in another message format or with another codec;
- *assign offsets* (`_stamp_message_set`) sets the records' offsets in the log;
- *re-stamp* (`restamp`) sets the timestamp type, the timestamp and the checksum.

Whenever possible, the records are changed in place, in the buffer in which they were received. They are rewritten in
three cases:

- The topic has another format or another codec. If only the codec differs, v2 records are just compressed again.
- The records are in a v0 wrapper, whose inner messages have absolute offsets.
- The records are in a v1 wrapper whose inner messages are not numbered 0, 1, 2 ... Some old clients write these.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from minibroker_protocol.records.append_policy import AppendPolicy
from minibroker_protocol.records.batch import Batch, RecordBatch
from minibroker_protocol.records.compression import compress_in_chunks
from minibroker_protocol.records.conversion import pack_batch, to_message_set, up_convert
from minibroker_protocol.records.header import (
    MAGIC_V0,
    MAGIC_V2,
    NO_OFFSET,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    CompressionCodec,
    TimestampType,
    read_entry_header,
)
from minibroker_protocol.records.produced_set import (
    RECORDS_PER_STEP,
    OpenedBatch,
    RecordCheck,
    RecordValidator,
    analyze,
    check_target,
    checked_batches,
    open_batch,
)
from minibroker_protocol.records.record import Record
from minibroker_protocol.records.record_runs import check_records
from minibroker_protocol.records.restamp import restamp, stamp_header
from minibroker_protocol.steps import Steps, collect, drain

_INT64: Final = Struct(">q")

__all__ = ["AppendPolicy", "PreparedRecords", "prepare", "prepare_in_steps"]


class PreparedRecords(NamedTuple):
    """Records that are ready to be appended."""

    data: memoryview | bytearray
    """A v2 batch without its base offset, which the log sets; or a v0 or v1 message set with assigned offsets."""
    header: BatchHeader
    """The header of the batch, or of the set's first message."""
    first_offset: int
    last_offset: int
    max_timestamp: int
    """In milliseconds; `NO_TIMESTAMP` in format v0."""
    offset_of_max_timestamp: int
    """The last offset of the first batch, wrapper or message with that timestamp, or -1 if there is none."""
    record_count: int


class _AppendParameters(NamedTuple):
    """The parameters of one append."""

    policy: AppendPolicy
    codec: CompressionCodec
    next_offset: Callable[[], int]
    """Returns the offset of the first record. It can increase while the records are checked."""
    log_append_time: int | None
    """The broker's time in milliseconds under LOG_APPEND_TIME, or else None."""
    validator: RecordValidator


def prepare(
    records: memoryview, policy: AppendPolicy, *, base_offset: int, now_ms: int, topic_partition: str | None = None
) -> PreparedRecords:
    """Like `prepare_in_steps`, but run all steps without a pause, and return the result."""
    return drain(
        prepare_in_steps(
            records, policy, next_offset=lambda: base_offset, now_ms=now_ms, topic_partition=topic_partition
        )
    )


def prepare_in_steps(
    records: memoryview,
    policy: AppendPolicy,
    *,
    next_offset: Callable[[], int],
    now_ms: int,
    topic_partition: str | None = None,
    check: RecordCheck | None = None,
) -> Steps[PreparedRecords]:
    """Prepare the records of a Produce request for one partition.

    Each step checks a number of records, or 1 MiB of data. The errors are those of `analyze`, `check_target`,
    `open_batch`, `RecordValidator.validate` and the conversions.

    Args:
        records: one v2 batch or a v0 or v1 message set. The buffer must be writable. The caller must not use it
            during or after the call, because records are changed in place where possible.
        policy: the topic's rules.
        next_offset: returns the offset of the first record; called in the last step.
        now_ms: the broker's time in milliseconds.
        topic_partition: the partition to name in error messages.
        check: a further check of the records.
    """
    batches = yield from collect(checked_batches(records), RECORDS_PER_STEP)
    source_codec = analyze(batches, len(records))
    first = batches[0]
    append = _AppendParameters(
        policy=policy,
        codec=source_codec if policy.codec is None else policy.codec,
        next_offset=next_offset,
        log_append_time=now_ms if policy.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
        validator=RecordValidator(policy, now_ms, topic_partition, check),
    )
    check_target(first.header, policy.magic)
    if isinstance(first, RecordBatch) and policy.magic == MAGIC_V2:
        header, data = yield from _restamp_batch(first, append)
        if data is None:
            return _prepare_batch(first.buffer, header, append)
    else:
        opened_batches: list[OpenedBatch] = []
        for batch in batches:
            opened_batches.append((yield from open_batch(batch)))
            yield
        yield from append.validator.validate(opened_batches)
        opened_records = list(chain.from_iterable(batch.records for batch in opened_batches))
        if policy.magic < MAGIC_V2:
            if first.header.magic == policy.magic and append.codec is source_codec and _is_numbered(opened_batches):
                message_set: memoryview | bytearray = _stamp_message_set(records, batches, opened_batches, append)
            else:
                message_set = yield from to_message_set(
                    opened_records,
                    magic=policy.magic,
                    base_offset=next_offset,
                    codec=append.codec,
                    level=policy.level,
                    log_append_time=append.log_append_time,
                )
            return _prepare_message_set(message_set, opened_records, append)
        header, data = _convert_records(opened_records, first.header, append)
    packed = yield from collect(compress_in_chunks(append.codec, data, level=policy.level))
    return _prepare_batch(*pack_batch(header, b"".join(packed), append.codec), append)


def _highest_timestamp(records: Sequence[Record]) -> int:
    return max([NO_TIMESTAMP, *[record.timestamp for record in records]])


def _is_numbered(opened_batches: Sequence[OpenedBatch]) -> bool:
    """Return whether offsets can be assigned without changing inner messages. Plain messages have none."""
    header = opened_batches[0].header
    if header.codec is CompressionCodec.NONE:
        return True
    offsets = [record.offset for record in opened_batches[0].records]
    return header.magic > MAGIC_V0 and offsets == list(range(len(offsets)))


def _restamp_batch(batch: RecordBatch, append: _AppendParameters) -> Steps[tuple[BatchHeader, bytes | None]]:
    """Check a v2 batch for a v2 log and stamp it.

    Returns:
        The new header, and the records to compress; None if the batch is already complete.
    """
    header = batch.header
    max_timestamp = NO_TIMESTAMP if append.log_append_time is None else append.log_append_time
    data = b""
    if append.validator.must_open(header):
        opened_batch = yield from open_batch(batch)
        yield from append.validator.validate([opened_batch])
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME and header.codec is not append.codec:
            return _convert_records(opened_batch.records, header, append)
        data = opened_batch.data
        if append.log_append_time is None:
            max_timestamp = _highest_timestamp(opened_batch.records)
    else:
        must_walk = not 0 <= append.policy.validated_records < header.record_count
        if must_walk or header.codec is not append.codec:
            data = b"".join((yield from collect(batch.chunks())))
        if must_walk:
            check_records(data, 0, header.record_count)
    if header.codec is append.codec:
        return restamp(batch.buffer, header, append.policy.timestamp_type, max_timestamp), None
    return stamp_header(header, append.policy.timestamp_type, max_timestamp), data


def _convert_records(
    records: Sequence[Record], source: BatchHeader, append: _AppendParameters
) -> tuple[BatchHeader, bytes]:
    """Convert older messages, or records with changed timestamps, to a v2 batch of the same producer.

    Returns:
        The header of the batch, and the bytes after it.
    """
    header, data = up_convert(records)
    header = header._replace(
        attributes=source.attributes & TRANSACTIONAL_FLAG,
        producer_id=source.producer_id,
        producer_epoch=source.producer_epoch,
        base_sequence=source.base_sequence,
    )
    if append.log_append_time is not None:
        header = stamp_header(header, TimestampType.LOG_APPEND_TIME, append.log_append_time)
    return header, data


def _prepare_batch(data: memoryview | bytearray, header: BatchHeader, append: _AppendParameters) -> PreparedRecords:
    first_offset = append.next_offset()
    last_offset = first_offset + header.last_offset_delta
    return PreparedRecords(
        data=data,
        header=header,
        first_offset=first_offset,
        last_offset=last_offset,
        max_timestamp=header.max_timestamp,
        offset_of_max_timestamp=NO_OFFSET if header.max_timestamp == NO_TIMESTAMP else last_offset,
        record_count=header.record_count,
    )


def _stamp_message_set(
    records: memoryview, batches: Sequence[Batch], opened_batches: Sequence[OpenedBatch], append: _AppendParameters
) -> memoryview:
    """Assign offsets and timestamps to the messages of a set, and return it without a truncated last message.

    The checksum does not cover the offset field. A v1 wrapper gets the offset of its last message; its inner offsets
    start at 0 (KIP-31).
    """
    next_offset = append.next_offset()
    for entry, batch in zip([batch.buffer for batch in batches], opened_batches, strict=True):
        next_offset += len(batch.records)
        _INT64.pack_into(entry, 0, next_offset - 1)
        time = _highest_timestamp(batch.records) if append.log_append_time is None else append.log_append_time
        restamp(entry, batch.header, append.policy.timestamp_type, time)
    return records[: sum(len(batch.buffer) for batch in batches)]


def _prepare_message_set(
    data: memoryview | bytearray, records: Sequence[Record], append: _AppendParameters
) -> PreparedRecords:
    first_offset = append.next_offset()
    last_offset = first_offset + len(records) - 1
    max_timestamp = NO_TIMESTAMP
    offset = NO_OFFSET
    if append.policy.magic > MAGIC_V0:
        if append.log_append_time is not None:
            max_timestamp, index = append.log_append_time, 0
        else:
            timestamps = [record.timestamp for record in records]
            max_timestamp = max(timestamps)
            index = timestamps.index(max_timestamp)
        if max_timestamp != NO_TIMESTAMP:
            offset = first_offset + index if append.codec is CompressionCodec.NONE else last_offset
    return PreparedRecords(
        data=data,
        header=read_entry_header(data),
        first_offset=first_offset,
        last_offset=last_offset,
        max_timestamp=max_timestamp,
        offset_of_max_timestamp=offset,
        record_count=len(records),
    )
