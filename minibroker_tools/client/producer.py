"""Sends records to one topic, in batches."""

import random
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import produce as api
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, CompressionCodec
from minibroker_protocol.records.partitioner import partition_for_key
from minibroker_protocol.records.record import Headers, NewRecord
from minibroker_tools.client.cluster import BACKOFF_S, Cluster
from minibroker_tools.failures import ApiError, error_code

if TYPE_CHECKING:
    from minibroker_tools.client.transactions import Transactions

_MAX_BATCH_BYTES: Final = 500_000
_RECORD_OVERHEAD_BYTES: Final = 24
ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}
"""The protocol's number for each value of `acks`."""
CODECS: Final = {codec.name.lower(): codec for codec in CompressionCodec}
"""The codec for each value of `compression.type`."""


class Outgoing(NamedTuple):
    """A record to send. If `partition` is None, the producer selects the partition."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None

    @property
    def size(self) -> int:
        """The approximate encoded size in bytes."""
        return len(self.key or b"") + len(self.value or b"") + _RECORD_OVERHEAD_BYTES


class SentBatch(NamedTuple):
    """A batch that was sent.

    `offset` is its base offset, or -1 with acks=0. `time_ms` is the timestamp of its records, in milliseconds.
    `error` says why the broker refused it, or is None.
    """

    records: Sequence[Outgoing]
    partition: int
    offset: int
    time_ms: int
    error: ApiError | None


class Producer:
    """A producer for one topic.

    As in Kafka's clients, the hash of a record's key selects its partition. Records without a key that are sent in
    one call go to the same random partition.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        acks: str = "all",
        codec: CompressionCodec = CompressionCodec.NONE,
        retries: int = 3,
        transactions: "Transactions | None" = None,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._acks = ACKS[acks]
        self._codec = codec
        self._retries = retries
        self._transactions = transactions
        self._leaders: dict[int, int] = {}

    def send(self, records: Sequence[Outgoing]) -> Iterator[SentBatch]:
        """Send records, and yield each batch once the broker has acknowledged or refused it.

        A batch is sent when the caller asks for it, so the caller must read all of them.

        Raises:
            UnreachableError: A broker cannot be reached.
            ApiError: The topic does not exist.
        """
        if not self._leaders:
            self._leaders = self._cluster.retry(self._find_leaders)
        partitions = sorted(self._leaders)
        keyless_partition = random.choice(partitions)  # noqa: S311 - it spreads load, and guards nothing
        by_partition: dict[int, list[list[Outgoing]]] = {}
        sizes: dict[int, int] = {}
        for record in records:
            partition = record.partition
            if partition is None:
                partition = keyless_partition if record.key is None else partition_for_key(record.key, len(partitions))
            batches = by_partition.setdefault(partition, [[]])
            size = sizes.get(partition, 0) + record.size
            if batches[-1] and size > _MAX_BATCH_BYTES:
                batches.append([])
                size = record.size
            sizes[partition] = size
            batches[-1].append(record)
        for partition, batches in by_partition.items():
            for batch in batches:
                yield self._send_batch(partition, batch)

    def _send_batch(self, partition: int, records: Sequence[Outgoing]) -> SentBatch:
        now = time.time_ns() // 1_000_000
        new_records = (NewRecord(record.key, record.value, now, record.headers) for record in records)
        producer_id, epoch, sequence = NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE
        if self._transactions is not None:
            producer_id, epoch, sequence = self._transactions.add(self._topic, partition, len(records))
        data = build_batch(
            new_records,
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=self._transactions is not None,
        )
        request = api.ProduceRequest(
            transactional_id=None if self._transactions is None else self._transactions.transactional_id,
            acks=self._acks,
            timeout_ms=30_000,
            topic_data=[
                api.TopicProduceData(
                    name=self._topic, partition_data=[api.PartitionProduceData(index=partition, records=data)]
                )
            ],
        )
        remaining = self._retries
        while True:
            self._cluster.restart_timeout()
            code, message, offset = self._ask(partition, request)
            error = ApiError(code, message) if code else None
            if error is None or not error.code.retriable or remaining <= 0:
                return SentBatch(records, partition, offset, now, error)
            remaining -= 1
            time.sleep(BACKOFF_S)
            self._leaders = self._cluster.retry(self._find_leaders)

    def _ask(self, partition: int, request: api.ProduceRequest) -> tuple[int, str | None, int]:
        leader = self._leaders.get(partition)
        if leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, -1
        connection = self._cluster.node(leader)
        version = connection.version_for(request)
        if self._acks == 0:
            connection.send(request, version)
            return 0, None, -1
        if self._transactions is not None:
            version = min(version, self._transactions.last_produce_version)
        response: api.ProduceResponse = connection.ask(request, version=version)
        answer = response.responses[0].partition_responses[0]
        return answer.error_code, answer.error_message, answer.base_offset

    def _find_leaders(self) -> dict[int, int]:
        """Return the leader of each partition of the topic. The broker can create a missing topic.

        Raises:
            ApiError: The topic name is refused, or a partition has no leader.
        """
        (topic,) = self._cluster.metadata([self._topic], create=True).topics
        code = error_code(topic.error_code)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            code = ErrorCode.LEADER_NOT_AVAILABLE  # The topic is being created, or may be soon.
        if code:
            message = None if code is ErrorCode.LEADER_NOT_AVAILABLE else f"Invalid topics: [{self._topic}]"
            raise ApiError(code, message)
        if not topic.partitions or any(partition.leader_id < 0 for partition in topic.partitions):
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        return {partition.partition_index: partition.leader_id for partition in topic.partitions}
