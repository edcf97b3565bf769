"""The coordinators' internal topics: created on first use, and replayed on startup and after a leader change.

All records of a group or a transactional id are in one partition, chosen by Java's `String.hashCode` of the name
(Kafka's `GroupMetadataManager.partitionFor`, `TransactionStateManager.partitionFor`).
"""

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import mul
from typing import Final

from minibroker.cluster.core import Core
from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic_admin import TopicError, create_topics, plan_topic
from minibroker.cluster.topics import Topic
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.batch import Batch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RECORD_BATCH_OVERHEAD,
    CompressionCodec,
    read_entry_header,
    read_header,
)
from minibroker_protocol.records.record import NewRecord

_REPLAY_STEP_BYTES: Final = 1 << 15
"""Bytes read per step of a replay. A step takes about 2 ms for small batches."""
_INT32_MASK: Final = 0x7FFF_FFFF
_UINT32_RANGE: Final = 1 << 32
_MAX_TOMBSTONES: Final = 1000
"""The maximum number of tombstones in a batch. With the limit in bytes, it keeps a write as short as a request."""
_MAX_TOMBSTONE_BYTES: Final = 1 << 19
_TOMBSTONE_OVERHEAD: Final = 32
"""An upper bound for the size of a tombstone without its key, in bytes."""
_UTF_16: Final = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_HASH_BLOCK_SIZE: Final = 256
_HASH_CACHE_SIZE: Final = 10_000
_MAX_CACHED_KEY_LENGTH: Final = 100
"""The length in characters above which hash codes are not cached: 10,000 keys of 32,767 characters would take a GB."""
_POWERS_OF_31: Final = [pow(31, exponent, 1 << 32) for exponent in range(_HASH_BLOCK_SIZE + 1)]
_CLIENT_CODES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
_logger = logging.getLogger(__name__)


class CoordinatorLogError(Exception):
    """A coordinator record could not be written.

    Attributes:
        code: The error: MESSAGE_TOO_LARGE, an error of the disk, or an error of the topic or partition.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def client_code(self) -> ErrorCode:
        """The error that Kafka sends to clients (`appendTransactionToLog`, `CoordinatorOperationExceptionHelper`)."""
        return _CLIENT_CODES.get(self.code, self.code)


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode` as an unsigned 32-bit number.

    An id can have 32,767 characters, so characters are hashed in blocks, with one multiplication of vectors per block.
    """
    value = 0
    units = memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H")
    for start in range(0, len(units), _HASH_BLOCK_SIZE):
        block = units[start : start + _HASH_BLOCK_SIZE]
        value = (value * _POWERS_OF_31[len(block)] + sum(map(mul, reversed(block), _POWERS_OF_31))) & 0xFFFF_FFFF
    return value


_cached_hash: Final = lru_cache(_HASH_CACHE_SIZE)(java_hash)


def partition_for(key: str, partitions: int) -> int:
    """Return the partition of a coordinator key, as Kafka's `Utils.abs(key.hashCode()) % partitions` does."""
    # Clients choose keys of up to 32 KiB, so only short keys are cached.
    hashed = _cached_hash(key) if len(key) <= _MAX_CACHED_KEY_LENGTH else java_hash(key)
    # Integer.MIN_VALUE has no absolute value, so Kafka maps it to 0, as this mask does.
    return (min(hashed, _UINT32_RANGE - hashed) & _INT32_MASK) % partitions


class CoordinatorLog:
    """The internal topic of one coordinator.

    Args:
        name: The topic's name.
        partitions: The partition count for creating the topic.
        factor: The replication factor for creating the topic, limited to the number of nodes.
        configs: The topic configuration for creating the topic.
        codec: The compression codec of appended batches.
    """

    def __init__(
        self,
        core: Core,
        name: str,
        *,
        partitions: int,
        configs: Mapping[str, str],
        factor: int = 1,
        codec: CompressionCodec = CompressionCodec.NONE,
    ) -> None:
        self._core = core
        self.name = name
        self._partitions = partitions
        self._factor = factor
        self._configs = configs
        self._codec = codec
        self._is_refused = False
        self._counted_topic: tuple[Topic, int] | None = None

    @property
    def topic(self) -> Topic | None:
        """The topic, or None before it is created."""
        return self._core.topics.get(self.name)

    @property
    def partition_count(self) -> int:
        """The number of partitions of the topic, available even before the topic is created.

        Partitions added to the topic do not count until the next start, as in Kafka: open transactions must end in the
        partition where they began.
        """
        if (topic := self.topic) is None:
            return self._partitions
        if self._counted_topic is None or self._counted_topic[0] is not topic:
            self._counted_topic = topic, len(topic.partitions)
        return self._counted_topic[1]

    def partition_of(self, key: str) -> int:
        """Return the partition of a group id, a transactional id or a share-partition's coordinator key."""
        return partition_for(key, self.partition_count)

    def partition(self, index: int) -> Partition | None:
        """Return a partition of the topic, or None if the topic or the partition does not exist."""
        topic = self.topic
        return None if topic is None else topic.partition(index)

    def coordinator(self, key: str) -> Node | None:
        """Return the node that coordinates `key`, or None."""
        partition = self.partition(self.partition_of(key))
        return None if partition is None else partition.leader

    def coordinator_error(self, key: str, node: Node | None) -> ErrorCode:
        """Return NOT_COORDINATOR if `node` does not coordinate `key`, or NONE.

        If `node` is None, any coordinator is accepted. A single broker coordinates everything, even before the topic
        exists.
        """
        if self._core.cluster.is_single:
            return ErrorCode.NONE
        coordinator = self.coordinator(key)
        if coordinator is None or (node is not None and node is not coordinator):
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE

    def is_offline(self, index: int) -> bool:
        """Return whether a partition exists and has no leader."""
        partition = self.partition(index)
        return partition is not None and partition.leader is None

    def epoch_of(self, key: str) -> int:
        """Return the coordinator epoch for `key`."""
        partition = self.partition(self.partition_of(key))
        return 0 if partition is None else partition.leader_epoch

    def ensure(self) -> Topic:
        """Return the topic, creating it if it does not exist.

        Raises:
            TopicError: The disk failed, or the configuration is invalid.
        """
        if (topic := self.topic) is None:
            try:
                # A test cluster may have fewer nodes than Kafka's default.
                plan = plan_topic(
                    self._core, self.name, self._partitions, self._factor, self._configs, awaits_nodes=True
                )
                (topic,) = create_topics(self._core, [plan])
            except TopicError as error:
                if not self._is_refused:  # The error is logged once, not for every client that retries.
                    self._is_refused = True
                    _logger.error("%s cannot be made: %s", self.name, error)  # noqa: TRY400 - the message is enough
                raise
            self._is_refused = False
        return topic

    def check_size(self, size: int) -> None:
        """Check whether records of `size` bytes fit into a batch. Compressed batches are not checked.

        Raises:
            CoordinatorLogError: The records are too large.
        """
        topic = self.topic
        if topic is not None and self._codec is CompressionCodec.NONE:
            self._check_batch_size(topic, size)

    def _check_batch_size(self, topic: Topic, size: int) -> None:
        if size > topic.max_message_bytes:
            message = f"{size} bytes exceed max.message.bytes of {self.name}, {topic.max_message_bytes}"
            raise CoordinatorLogError(ErrorCode.MESSAGE_TOO_LARGE, message)

    def append(self, index: int, records: Sequence[NewRecord]) -> int:
        """Append records as one batch, and return the offset of the first record.

        The batch has been written to the file when the method returns.

        Raises:
            CoordinatorLogError: The batch could not be written.
        """
        return self.append_batch(index, self.build(records))

    def build(
        self,
        records: Sequence[NewRecord],
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
    ) -> bytearray:
        """Return a batch for `append_batch`.

        If a producer id is given, the batch belongs to that producer's transaction. The sequence number is not checked
        on append. It matters only to readers of the batch.
        """
        return build_batch(
            records,
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=producer_id >= 0,
        )

    def append_batch(self, index: int, batch: bytearray) -> int:
        """Append a batch made by `build`, and return the offset of its first record.

        The batch has been written to the file when the method returns.

        Raises:
            CoordinatorLogError: The batch could not be written.
        """
        try:
            topic = self.ensure()
        except TopicError as error:
            raise CoordinatorLogError(error.code, str(error)) from None
        if (partition := topic.partition(index)) is None:
            raise CoordinatorLogError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} has no partition {index}")
        if partition.leader is None:
            raise CoordinatorLogError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name}-{index} has no leader")
        if partition.is_under_min_isr:
            raise CoordinatorLogError(
                ErrorCode.NOT_ENOUGH_REPLICAS, f"too few replicas of {self.name}-{index} are in sync"
            )
        # The coordinators' own batches do not pass through `LogValidator`, so the size is checked here.
        self._check_batch_size(topic, len(batch))
        view = memoryview(batch)
        header = read_header(view)
        try:
            log = partition.log
            if header.producer_id != NO_PRODUCER_ID:
                # A fenced producer must not commit offsets in a transaction (TxnOffsetCommit).
                log.producers.check(header, from_client=False)
            offset = log.append(view, header, partition.leader_epoch, self._core.clock.now_ms())
            # Commit immediately, because a response may depend on this record before the wake-up ends.
            log.commit()
        except MAPPED as error:
            raise CoordinatorLogError(error_code_of(error), str(error)) from error
        return offset

    def tombstone_batches(self, keys: Iterable[bytes]) -> list[list[bytes]]:
        """Split `keys` into lists whose tombstones fit into one batch each."""
        topic = self.topic
        limit = _MAX_TOMBSTONE_BYTES if topic is None else min(_MAX_TOMBSTONE_BYTES, topic.max_message_bytes)
        batches: list[list[bytes]] = []
        size = limit
        for key in keys:
            size += len(key) + _TOMBSTONE_OVERHEAD
            if size > limit or len(batches[-1]) == _MAX_TOMBSTONES:
                batches.append([])
                size = RECORD_BATCH_OVERHEAD + len(key) + _TOMBSTONE_OVERHEAD
            batches[-1].append(key)
        return batches

    def size(self, index: int) -> int:
        """Return the size of a partition's log in bytes, or 0 if the partition does not exist.

        Raises:
            StorageError, OSError: The log could not be opened.
        """
        partition = self.partition(index)
        return 0 if partition is None else partition.log.size

    def replay(self, index: int, start: int = 0) -> Iterator[list[Batch]]:
        """Yield the batches of a partition from `start` to the current end of its log, about 32 KB at a time.

        Yields nothing if the partition does not exist. The batches are views of bytes that do not change.

        Raises:
            StorageError, OSError, DecodeError: The log is unreadable.
        """
        if (partition := self.partition(index)) is None:
            return
        log = partition.log
        # The log cannot grow during the replay, because requests are refused until the partition is loaded.
        offset, end = max(log.log_start_offset, start), log.log_end_offset
        while offset < end:
            batches = list(iter_batches(log.read(offset, _REPLAY_STEP_BYTES).read()))
            if not batches:
                return
            yield batches
            offset = read_entry_header(batches[-1].buffer).last_offset + 1
