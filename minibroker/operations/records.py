"""Reads and decodes the records of a topic.

Decoding a large topic takes long, so it is split into slices. The event loop serves clients between slices.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from minibroker.cluster.errors import NotFoundError, OperationError, is_the_callers
from minibroker.cluster.partition import Partition
from minibroker.cluster.topics import Topic
from minibroker.config.documents import parse_json
from minibroker.operations.wording import Int64, format_count, missing_message
from minibroker.server.services import Services
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import BatchHeader, TimestampType
from minibroker_protocol.steps import collect
from minibroker_storage.log import Log
from minibroker_storage.transaction_index import AbortedTxn

__tracebackhide__ = is_the_callers

Isolation = Literal["read_committed", "read_uncommitted"]

_READ_BYTES: Final = 1 << 20
_RECORDS_PER_SLICE: Final = 500
"""Records decoded at a time, which takes about a millisecond."""
_BYTES_PER_SLICE: Final = 1 << 20
"""Bytes of keys and values copied at a time."""
_COMMITTED: Final = "read_committed"
_TIMESTAMP_TYPES: Final = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
"""The names printed by Kafka's `TimestampType`."""


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A record as a consumer gets it, with its storage format.

    Attributes:
        timestamp: ms since the epoch; -1 in format v0.
        timestamp_type: `CreateTime`, `LogAppendTime`, or `NoTimestampType`.
        message_format: 0, 1 or 2.
        producer_id: -1 for a producer that is not idempotent.
    """

    topic: str
    partition: int
    offset: Int64
    timestamp: Int64
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    message_format: int
    codec: str
    producer_id: Int64

    def text(self) -> str | None:
        """Return the value as UTF-8 text, or None for a tombstone.

        Raises:
            UnicodeDecodeError: the value is not UTF-8.
        """
        return None if self.value is None else self.value.decode()

    def key_text(self) -> str | None:
        """Return the key as UTF-8 text, or None without a key.

        Raises:
            UnicodeDecodeError: the key is not UTF-8.
        """
        return None if self.key is None else self.key.decode()

    def json(self) -> Any:
        """Return the value parsed as JSON, or None for a tombstone. A value that was decoded is returned as it is.

        Raises:
            ValueError: the value is not JSON.
        """
        return parse_json(self.value, "value") if isinstance(self.value, bytes) else self.value

    def header(self, name: str) -> bytes | None:
        """Return the last header with this name, like Kafka's `Headers.lastHeader`, or None."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


@dataclass(frozen=True, slots=True)
class DecodedRecord(ConsumerRecord):
    """A record whose key and value are values of JSON if they have a schema, and bytes otherwise."""

    key: Any
    value: Any


class Undecodable(NamedTuple):
    """The bytes of a key or value that cannot be decoded, and a sentence that says why."""

    data: bytes
    reason: str


def missing_topic_message(services: Services, name: str) -> str:
    """Return the message for a topic that does not exist, including a list of the existing topics."""
    return missing_message("topic", name, (topic.name for topic in services.core.topics))


def topic_of(services: Services, name: str) -> Topic:
    """Return a topic.

    Raises:
        NotFoundError: the topic does not exist; the message names the existing ones.
    """
    topic = services.core.topics.get(name)
    if topic is None:
        raise NotFoundError(missing_topic_message(services, name))
    return topic


def describe_missing_partition(topic: Topic, partition: object) -> str:
    """Return the message for a partition that a topic does not have."""
    count = format_count(len(topic.partitions), "partition")
    return f"topic {topic.name!r} has no partition {partition!r}; it has {count}, numbered from 0"


def partitions_of(topic: Topic, partition: int | None) -> Sequence[Partition]:
    """Return one partition of a topic, or all of them if `partition` is None.

    Raises:
        NotFoundError: the partition does not exist.
    """
    if partition is None:
        return topic.partitions
    chosen = topic.partition(partition)
    if chosen is None:
        raise NotFoundError(describe_missing_partition(topic, partition))
    return [chosen]


async def read_records(
    services: Services,
    name: str,
    *,
    partition: int | None = None,
    start: int = 0,
    isolation: Isolation = "read_committed",
) -> list[ConsumerRecord]:
    """Return the records of a topic that consumers can read now, from offset `start` on, partition by partition.

    Raises:
        OperationError: the topic or partition does not exist, or was deleted in the meantime.
        DecodeError, OSError: a file cannot be read.
    """
    return [
        record
        for chosen, end in _read_ranges(services, name, partition, isolation)
        async for slice_ in record_slices(services, chosen, start, end, committed=isolation == _COMMITTED)
        for record in slice_
    ]


async def read_page(
    services: Services, name: str, partition: int | None, start: int, isolation: Isolation, limit: int, max_bytes: int
) -> tuple[list[ConsumerRecord], dict[int, int]]:
    """Return the first records that `read_records` finds, limited by their number and size.

    The errors are those of `read_records`.

    Returns:
        At most `limit` records with about `max_bytes` of keys and values, but at least one record if there is any.
        Also the offset at which to continue, for each partition that was not read to its end.
    """
    committed = isolation == _COMMITTED
    records: list[ConsumerRecord] = []
    next_offsets: dict[int, int] = {}
    size = 0
    for chosen, end in _read_ranges(services, name, partition, isolation):
        offset = max(start, chosen.log.log_start_offset)
        if len(records) < limit and size < max_bytes:
            async for slice_ in record_slices(services, chosen, start, end, committed=committed):
                for record in slice_:
                    records.append(record)
                    offset = record.offset + 1
                    size += len(record.key or b"") + len(record.value or b"")
                    if len(records) == limit or size >= max_bytes:
                        break
                if len(records) == limit or size >= max_bytes:
                    break
            else:
                offset = end
        if offset < end:
            next_offsets[chosen.index] = offset
    return records, next_offsets


def _read_ranges(
    services: Services, name: str, partition: int | None, isolation: Isolation
) -> list[tuple[Partition, int]]:
    """Return the partitions to read and their current end offsets.

    Raises:
        OperationError: the isolation is invalid.
        NotFoundError: the topic or partition does not exist.
    """
    if isolation not in {"read_committed", "read_uncommitted"}:
        raise OperationError(f"isolation: {isolation!r} is neither 'read_committed' nor 'read_uncommitted'")
    topic = services.core.topics.get(name)
    if topic is None:
        raise NotFoundError(
            f"{missing_topic_message(services, name)} (wait_for({name!r}) waits until the topic has records; "
            f"expect_none({name!r}) passes also without the topic)"
        )
    services.core.writes.commit()
    logs = [(chosen, chosen.log) for chosen in partitions_of(topic, partition)]
    return [(chosen, log.last_stable_offset if isolation == _COMMITTED else log.high_watermark) for chosen, log in logs]


async def record_slices(
    services: Services, partition: Partition, start: int, end: int, *, committed: bool
) -> AsyncIterator[list[ConsumerRecord]]:
    """Yield the records from offset `start` up to `end` in slices; see `read_records`."""
    topic = partition.topic
    slices = _slice_records(partition, start, end, committed=committed)
    # The event loop runs other tasks between slices.
    for slice_ in slices:
        yield slice_
        await asyncio.sleep(0)
        if services.core.topics.get(topic.name) is not topic:
            raise NotFoundError(f"topic {topic.name!r} was deleted while it was read")


def end_offsets(services: Services, name: str) -> dict[int, int]:
    """Return the last stable offset of each partition, which is the end of the log for read_committed consumers.

    Raises:
        NotFoundError: the topic does not exist.
    """
    services.core.writes.commit()
    return {partition.index: partition.log.last_stable_offset for partition in topic_of(services, name).partitions}


def _slice_records(partition: Partition, start: int, end: int, *, committed: bool) -> Iterator[list[ConsumerRecord]]:
    """Yield at most `_RECORDS_PER_SLICE` records at a time.

    A slice is empty after a step of work without records, which lets the caller pause after each step.
    """
    records: list[ConsumerRecord] = []
    size = 0
    for record in _decode_records(partition, start, end, committed=committed):
        if record is not None:
            records.append(record)
            size += len(record.key or b"") + len(record.value or b"")
        if record is None or len(records) == _RECORDS_PER_SLICE or size >= _BYTES_PER_SLICE:
            yield records
            records, size = [], 0


def _decode_records(partition: Partition, start: int, end: int, *, committed: bool) -> Iterator[ConsumerRecord | None]:
    """Yield the records. Also yield None after each read and after each step that produces no record."""
    log = partition.log
    first = offset = max(start, log.log_start_offset)
    aborted = _AbortedTransactions(log, offset, end) if committed else None
    while (offset := max(offset, log.log_start_offset)) < end:
        data = log.read(offset, _READ_BYTES, end_offset=end).read()
        if not data:
            return
        for batch in iter_batches(data):
            header = batch.header
            offset = header.last_offset + 1
            if header.is_control or (aborted is not None and aborted.covers(header)):
                continue
            codec = header.codec.name.lower()
            for record in batch.read(b"".join((yield from collect(batch.chunks())))):
                if first <= record.offset < end:
                    yield ConsumerRecord(
                        partition.topic.name,
                        partition.index,
                        record.offset,
                        record.timestamp,
                        _TIMESTAMP_TYPES[record.timestamp_type],
                        record.key,
                        record.value,
                        record.headers,
                        header.magic,
                        codec,
                        header.producer_id,
                    )
        yield None


class _AbortedTransactions:
    """The aborted transactions in a range of a log. A producer has one transaction at a time."""

    def __init__(self, log: Log, start: int, end: int) -> None:
        self._spans: dict[int, deque[AbortedTxn]] = {}
        for transaction in log.aborted_transactions(start, end) if start < end else ():
            self._spans.setdefault(transaction.producer_id, deque()).append(transaction)

    def covers(self, header: BatchHeader) -> bool:
        """Return whether a batch belongs to an aborted transaction. Batches must be passed in log order."""
        spans = self._spans.get(header.producer_id)
        if not spans or not header.is_transactional:
            return False
        while spans and spans[0].last_offset < header.base_offset:
            spans.popleft()
        return bool(spans) and spans[0].first_offset <= header.base_offset
