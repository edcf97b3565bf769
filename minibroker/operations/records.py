"""The records of a topic, decoded, as a test wants to see them.

Decoding a large topic takes long, and the event loop has clients to serve: it is done in slices, between which they
have their turn.
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
from minibroker.operations.wording import Int64, missing
from minibroker.server.services import Services
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import BatchHeader, TimestampType
from minibroker_protocol.steps import collect
from minibroker_storage.log import Log
from minibroker_storage.transaction_index import AbortedTxn

__tracebackhide__ = is_the_callers

Isolation = Literal["read_committed", "read_uncommitted"]

_READ_BYTES: Final = 1 << 20
_SLICE: Final = 500
"""Records that are decoded at once, which takes about a millisecond."""
_SLICE_BYTES: Final = 1 << 20
"""Bytes of keys and values that are copied at once."""
_COMMITTED: Final = "read_committed"
_TIMESTAMP_TYPES: Final = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
"""As Kafka's `TimestampType` prints them."""


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A record as a consumer would get it, and how it is stored.

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
        """The value as UTF-8; None for a tombstone. UnicodeDecodeError."""
        return None if self.value is None else self.value.decode()

    def key_text(self) -> str | None:
        """The key as UTF-8. UnicodeDecodeError."""
        return None if self.key is None else self.key.decode()

    def json(self) -> Any:
        """The value as JSON; None for a tombstone. ValueError."""
        return None if self.value is None else parse_json(self.value, "value")

    def header(self, name: str) -> bytes | None:
        """The last header of this name, as Kafka's `Headers.lastHeader`; None if there is none."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


def missing_topic(services: Services, name: str) -> str:
    """Say that a topic does not exist, and which do."""
    return missing("topic", name, (each.name for each in services.core.topics))


def topic_of(services: Services, name: str) -> Topic:
    """The topic. `NotFoundError` that names those there are."""
    topic = services.core.topics.get(name)
    if topic is None:
        raise NotFoundError(missing_topic(services, name))
    return topic


def partitions_of(topic: Topic, partition: int | None) -> Sequence[Partition]:
    """One partition, or with None all of them. `NotFoundError`."""
    if partition is None:
        return topic.partitions
    found = topic.partition(partition)
    if found is None:
        raise NotFoundError(f"topic {topic.name!r} has no partition {partition}, only {len(topic.partitions)}")
    return [found]


async def read_records(
    services: Services,
    name: str,
    *,
    partition: int | None = None,
    start: int = 0,
    isolation: Isolation = "read_committed",
) -> list[ConsumerRecord]:
    """The records of a topic that consumers can read now, from offset `start` on, partition by partition.

    `OperationError` for a topic or partition that there is not, also for a topic that is deleted meanwhile;
    `DecodeError` and `OSError` for files that cannot be read.
    """
    committed = isolation == _COMMITTED
    return [
        record
        for each, end in _stretches(services, name, partition, isolation)
        async for slice_ in record_slices(services, each, start, end, committed=committed)
        for record in slice_
    ]


class RecordPage(NamedTuple):
    """Some of the records of a topic.

    Attributes:
        next_offsets: by partition, the offset to go on at in those that were not read to their end.
    """

    records: list[ConsumerRecord]
    next_offsets: dict[int, int]


async def read_page(
    services: Services,
    name: str,
    *,
    partition: int | None = None,
    start: int = 0,
    isolation: Isolation = "read_committed",
    limit: int,
    max_bytes: int,
) -> RecordPage:
    """The first records that `read_records` finds: at most `limit`, with about `max_bytes` of keys and values.

    One record comes at least, if there is one. Errors are those of `read_records`.
    """
    committed = isolation == _COMMITTED
    found: list[ConsumerRecord] = []
    next_offsets: dict[int, int] = {}
    size = 0
    for each, end in _stretches(services, name, partition, isolation):
        offset = max(start, each.log.log_start_offset)
        if len(found) < limit and size < max_bytes:
            async for slice_ in record_slices(services, each, start, end, committed=committed):
                for record in slice_:
                    found.append(record)
                    offset = record.offset + 1
                    size += len(record.key or b"") + len(record.value or b"")
                    if len(found) == limit or size >= max_bytes:
                        break
                if len(found) == limit or size >= max_bytes:
                    break
            else:
                offset = end
        if offset < end:
            next_offsets[each.index] = offset
    return RecordPage(found, next_offsets)


def _stretches(
    services: Services, name: str, partition: int | None, isolation: Isolation
) -> list[tuple[Partition, int]]:
    """The partitions to be read, and where each ends now. `OperationError`."""
    if isolation not in {"read_committed", "read_uncommitted"}:
        raise OperationError(f"isolation: {isolation!r} is neither 'read_committed' nor 'read_uncommitted'")
    topic = services.core.topics.get(name)
    if topic is None:
        raise NotFoundError(
            f"{missing_topic(services, name)} (wait_for({name!r}) waits until the topic has records; "
            f"expect_none({name!r}) passes also without the topic)"
        )
    services.core.writes.commit()
    committed = isolation == _COMMITTED
    return [(each, _end(each, committed=committed)) for each in partitions_of(topic, partition)]


async def record_slices(
    services: Services, partition: Partition, start: int, end: int, *, committed: bool
) -> AsyncIterator[list[ConsumerRecord]]:
    """The records from offset `start` on, up to `end`, some at a time; see `read_records`."""
    topic = partition.topic
    slices = _slices(partition, start, end, committed=committed)
    # The first one has to be asked for, and others have their turn before each of the next.
    for slice_ in slices:
        yield slice_
        await asyncio.sleep(0)
        if services.core.topics.get(topic.name) is not topic:
            raise NotFoundError(f"topic {topic.name!r} was deleted while it was read")


def end_offsets(services: Services, name: str) -> dict[int, int]:
    """The end offsets for consumers of committed data: the last stable offset of each partition. `OperationError`."""
    services.core.writes.commit()
    return {each.index: each.log.last_stable_offset for each in topic_of(services, name).partitions}


def _end(partition: Partition, *, committed: bool) -> int:
    return partition.log.last_stable_offset if committed else partition.log.high_watermark


def _slices(partition: Partition, start: int, end: int, *, committed: bool) -> Iterator[list[ConsumerRecord]]:
    """The records, `_SLICE` or fewer at a time; what came before a step comes alone, and may be nothing."""
    found: list[ConsumerRecord] = []
    size = 0
    for record in _records_of(partition, start, end, committed=committed):
        if record is not None:
            found.append(record)
            size += len(record.key or b"") + len(record.value or b"")
        if record is None or len(found) == _SLICE or size >= _SLICE_BYTES:
            yield found
            found, size = [], 0


def _records_of(partition: Partition, start: int, end: int, *, committed: bool) -> Iterator[ConsumerRecord | None]:
    """The records, and None after each step of work without one, and at the end of each read."""
    log = partition.log
    first = offset = max(start, log.log_start_offset)
    aborted = _Aborted(log, offset, end) if committed else None
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
            for record in batch.read(b"".join((yield from collect(batch.pieces())))):
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


class _Aborted:
    """The aborted transactions of a stretch of a log. A producer has one transaction at a time."""

    def __init__(self, log: Log, start: int, end: int) -> None:
        self._spans: dict[int, deque[AbortedTxn]] = {}
        for each in log.aborted_transactions(start, end) if start < end else ():
            self._spans.setdefault(each.producer_id, deque()).append(each)

    def covers(self, header: BatchHeader) -> bool:
        """Does the batch belong to one of them? Batches are asked for in the order of the log."""
        spans = self._spans.get(header.producer_id)
        if not spans or not header.is_transactional:
            return False
        while spans and spans[0].last_offset < header.base_offset:
            spans.popleft()
        return bool(spans) and spans[0].first_offset <= header.base_offset
