"""Dead-letter queues: topics for records that no member of a share group could process (KIP-1191).

The group's configuration names the topic of its queue.

The behavior is that of Kafka's `ShareGroupDLQStateManager`. If the write fails, the error is logged and the records are
archived anyway.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from minibroker.cluster.core import Core
from minibroker.cluster.logs.error_mapping import MAPPED
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic_admin import TopicError, create_topics, plan_topic
from minibroker.cluster.topics import Topic
from minibroker.coordinators.share_partitions.in_flight import DeadRecords
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker_protocol.errors import DecompressedSizeError, EncodeError
from minibroker_protocol.primitives import uuid_text
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import RECORD_BATCH_OVERHEAD
from minibroker_protocol.records.log_validator import prepare
from minibroker_protocol.records.record import NewRecord, Record, encode_record

NAME: Final = "errors.deadletterqueue.topic.name"
COPIES: Final = "errors.deadletterqueue.copy.record.enable"
ACCEPTS: Final = "errors.deadletterqueue.group.enable"
AUTO_CREATES: Final = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
RESERVED: Final = "__"
"""The prefix of internal topics. A queue's name must not begin with it."""
_CONFIGS: Final = {ACCEPTS: "true", "message.timestamp.type": "CreateTime"}
"""The configuration of a queue created by the broker."""
_HEADER: Final = "__dlq.errors."
_ATTEMPTS: Final = 5
_FIRST_BACKOFF_MS: Final = 1000
_READ_BYTES: Final = 1 << 20
_logger = logging.getLogger(__name__)


class _RefusedError(Exception):
    """Raised if a queue cannot be written to. The message gives the reason."""


class _RetriableError(Exception):
    """Raised if a queue cannot be written to now, but possibly soon."""


_REFUSALS: Final[tuple[type[Exception], ...]] = (_RefusedError, _RetriableError, TopicError, EncodeError, *MAPPED)


@dataclass(slots=True)
class DeadLetterMetrics:
    """The metrics of a group's dead-letter queue since the broker started (Kafka's `ShareGroupMetrics`).

    Attributes:
        records: The number of written records.
        batches: The number of attempts to write a batch.
        failures: The number of failed attempts.
    """

    records: int = 0
    batches: int = 0
    failures: int = 0


class DeadLetterWrite:
    """The write of some records of a share-partition to its group's dead-letter queue.

    Acknowledgements do not wait for it.

    Args:
        dead: The records in offset order.
        metrics: Counts the records.
        is_needed: Returns whether the share-partition is still in use. If it is not, the next leader starts over.
        done: Called after the records are written or have failed.
    """

    def __init__(
        self,
        core: Core,
        key: SharePartitionKey,
        dead: Sequence[DeadRecords],
        metrics: DeadLetterMetrics,
        is_needed: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        self._core = core
        self._key = key
        self._metrics = metrics
        self._rows = [(offset, records) for records in dead for offset in range(records.first, records.last + 1)]
        self._written = 0
        self._attempts = 0
        self._is_needed = is_needed
        self._done = done

    def begin(self) -> None:
        """Write a batch, and schedule the next one for a later turn of the event loop."""
        if not self._is_needed():
            return
        try:
            topic = self._find_or_create_queue()
            records = self._build_records(topic)
            self._append(topic, records)
        except Exception as error:  # noqa: BLE001 - no error may keep the records in flight
            self._handle_failure(error)
            return
        self._written += len(records)
        self._attempts = 0
        if self._written < len(self._rows):
            self._core.call_soon(self.begin)
        else:
            self._done()

    def _handle_failure(self, error: Exception) -> None:
        group_id = self._key.group_id
        if isinstance(error, _RetriableError):
            self._attempts += 1
            if self._attempts < _ATTEMPTS:
                self._core.clock.call_later(_FIRST_BACKOFF_MS << (self._attempts - 1), self.begin)
                return
        if isinstance(error, _REFUSALS):
            lost = len(self._rows) - self._written
            _logger.warning("%d records do not get into the dead-letter queue of group %s: %s", lost, group_id, error)
        else:
            _logger.error("The dead-letter queue of group %s cannot be written to", group_id, exc_info=error)
        self._done()

    def _find_or_create_queue(self) -> Topic:
        """Return the queue's topic, created if necessary (`ProduceRequestHandler.validateDlqTopic`).

        Raises:
            _RefusedError: The topic is missing, not allowed, or not a dead-letter queue.
        """
        config = self._core.config
        name = self._core.configs.group(self._key.group_id).text(NAME)
        if not name:
            raise _RefusedError("the group has none")
        if name.startswith(RESERVED):
            raise _RefusedError(f"{NAME}: {name} begins with {RESERVED}")
        topic = self._core.topics.get(name)
        if topic is not None and not topic.config.boolean(ACCEPTS):
            raise _RefusedError(f"{ACCEPTS} is not true for topic {name}")
        if topic is None and not config.boolean(AUTO_CREATES):
            raise _RefusedError(f"there is no topic {name}, and {AUTO_CREATES} is false")
        prefix = config.text(PREFIX)
        if not name.startswith(prefix):
            raise _RefusedError(f"{name} does not begin with {prefix}, the {PREFIX}")
        return topic or create_topics(self._core, [plan_topic(self._core, name, configs=_CONFIGS)])[0]

    def _append(self, topic: Topic, records: Sequence[NewRecord]) -> None:
        """Write a batch like a producer with acks=all."""
        partition = topic.partitions[self._key.partition % len(topic.partitions)]
        name = f"{topic.name}-{partition.index}"
        if partition.leader is None:
            raise _RetriableError(f"{name} has no leader")
        self._metrics.batches += 1
        try:
            self._append_batch(partition, name, records)
        except Exception:
            self._metrics.failures += 1
            raise
        self._metrics.records += len(records)

    def _append_batch(self, partition: Partition, name: str, records: Sequence[NewRecord]) -> None:
        topic = partition.topic
        if partition.is_under_min_isr:
            raise _RefusedError(f"too few replicas of {name} are in sync")
        log, now_ms = partition.log, self._core.clock.now_ms()
        batch = memoryview(build_batch(records))
        prepared = prepare(batch, topic.append_policy, base_offset=log.next_offset, now_ms=now_ms, topic_partition=name)
        if len(prepared.data) > topic.max_message_bytes:
            raise _RefusedError(f"a batch of {len(prepared.data)} bytes exceeds max.message.bytes of {topic.name}")
        log.append(memoryview(prepared.data), prepared.header, partition.leader_epoch, now_ms)
        log.commit()

    def _build_records(self, topic: Topic) -> list[NewRecord]:
        """Return the next records to write, at most one batch.

        Each offset gets a record, even if it is no longer in the log.
        """
        rows = self._rows[self._written :]
        limit, now_ms = topic.max_message_bytes, self._core.clock.now_ms()
        copies = _Copies(limit)
        source = self._core.topics.with_id(self._key.topic_id)
        partition = None if source is None else source.partition(self._key.partition)
        if partition is not None and self._core.configs.group(self._key.group_id).boolean(COPIES):
            try:
                copies.read(partition, rows[0][0], rows[-1][0])
            except MAPPED as error:
                _logger.warning("%s-%d cannot be read: %s", partition.topic.name, partition.index, error)
        origin_headers = (
            (f"{_HEADER}topic", (uuid_text(self._key.topic_id) if source is None else source.name).encode()),
            (f"{_HEADER}partition", str(self._key.partition).encode()),
        )
        group_header = f"{_HEADER}group", self._key.group_id.encode()
        records: list[NewRecord] = []
        size = RECORD_BATCH_OVERHEAD
        for offset, dead in rows:
            if copies.end is not None and offset >= copies.end and records:
                break
            headers = (
                *origin_headers,
                (f"{_HEADER}offset", str(offset).encode()),
                group_header,
                (f"{_HEADER}delivery.count", str(dead.deliveries).encode()),
                (f"{_HEADER}message", dead.reason.encode()),
            )
            original = copies.records.get(offset)
            key, value = (None, None) if original is None else (original.key, original.value)
            record = NewRecord(key, value, now_ms, headers)
            size += len(encode_record(len(records), 0, record))
            if size > limit and records:
                break
            records.append(record)
        return records


class _Copies:
    """Copies of records from the log. Together they fit into one batch of the queue.

    Attributes:
        records: The records by offset, except records that are too large for the queue.
        end: The first offset that did not fit, or None if all were read.
    """

    def __init__(self, limit: int) -> None:
        self.records: dict[int, Record] = {}
        self.end: int | None = None
        self._limit = limit

    def read(self, partition: Partition, first: int, last: int) -> None:
        """Read the records between two offsets, both included.

        Raises:
            StorageError, OSError: The log could not be read.
        """
        log = partition.log
        offset, size = max(first, log.log_start_offset), 0
        while offset <= last:
            data = log.read(offset, _READ_BYTES, end_offset=log.high_watermark).read()
            if not data:
                return
            for batch in iter_batches(data, max_decompressed_size=self._limit):
                offset = batch.header.last_offset + 1
                try:
                    records = list(batch)
                except DecompressedSizeError:
                    continue
                for record in records:
                    if record.offset > last:
                        return
                    record_size = len(record.key or b"") + len(record.value or b"")
                    if record.offset < first or record_size > self._limit:
                        continue
                    if size + record_size > self._limit:
                        self.end = record.offset
                        return
                    self.records[record.offset] = record
                    size += record_size
