"""Sends records to one topic, in batches."""

import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import produce as api
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.partitioner import partition_for_key
from minibroker_protocol.records.record import Headers, NewRecord
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.failures import ApiError, error_code

if TYPE_CHECKING:
    from minibroker_tools.client.transactions import Transactions

_LARGEST_BATCH: Final = 500_000
_RECORD_OVERHEAD: Final = 24
ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}
"""The protocol's number for each value of `acks`."""
CODECS: Final = {codec.name.lower(): codec for codec in CompressionCodec}
"""The codec for each value of `compression.type`."""
_BACKOFF_S: Final = 0.1
Placed = Callable[[int, int, int], None]
"""Called for each batch with its partition, its base offset (-1 with acks=0) and its timestamp in milliseconds."""


class Outgoing(NamedTuple):
    """A record to send. If `partition` is None, the key's hash selects the partition."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None

    @property
    def size(self) -> int:
        """The approximate encoded size in bytes."""
        return len(self.key or b"") + len(self.value or b"") + _RECORD_OVERHEAD


Refused = Callable[[Sequence[Outgoing], ApiError], None]
"""Called with records refused by the broker."""


class Producer:
    """A producer for one topic.

    Keys select partitions as in Kafka's clients. Records without a key go to one random partition per `send` call.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        refused: Refused,
        *,
        acks: str = "all",
        codec: CompressionCodec = CompressionCodec.NONE,
        retries: int = 3,
        placed: Placed | None = None,
        transactions: "Transactions | None" = None,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._refused = refused
        self._acks = ACKS[acks]
        self._codec = codec
        self._retries = retries
        self._placed = placed
        self._transactions = transactions
        self._leaders: dict[int, int] = {}

    def send(self, records: Sequence[Outgoing]) -> None:
        """Send records and wait for the broker's acknowledgements.

        Raises:
            UnreachableError: A broker cannot be reached.
            ApiError: The topic does not exist.
        """
        if not self._leaders:
            self._leaders = self._find_leaders()
        partitions = sorted(self._leaders)
        unkeyed = random.choice(partitions)  # noqa: S311 - it spreads load, and guards nothing
        by_partition: dict[int, list[list[Outgoing]]] = {}
        sizes: dict[int, int] = {}
        for record in records:
            partition = record.partition
            if partition is None:
                partition = unkeyed if record.key is None else partition_for_key(record.key, len(partitions))
            batches = by_partition.setdefault(partition, [[]])
            size = sizes.get(partition, 0) + record.size
            if batches[-1] and size > _LARGEST_BATCH:
                batches.append([])
                size = record.size
            sizes[partition] = size
            batches[-1].append(record)
        for partition, batches in by_partition.items():
            for batch in batches:
                self._send_batch(partition, batch)

    def _send_batch(self, partition: int, records: Sequence[Outgoing]) -> None:
        now = time.time_ns() // 1_000_000
        new = (NewRecord(each.key, each.value, now, each.headers) for each in records)
        if self._transactions is None:
            data = build_batch(new, codec=self._codec)
        else:
            numbers = self._transactions.add(self._topic, partition, len(records))
            data = build_batch(new, codec=self._codec, **numbers)
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
        for attempt in range(self._retries + 1):
            self._cluster.go_on()
            code, message, offset = self._ask(partition, request)
            if not code:
                if self._placed is not None:
                    self._placed(partition, offset, now)
                return
            error = ApiError(code, message)
            if not error.code.retriable or attempt == self._retries:
                self._refused(records, error)
                return
            time.sleep(_BACKOFF_S)
            self._leaders = self._find_leaders()

    def _ask(self, partition: int, request: api.ProduceRequest) -> tuple[int, str | None, int]:
        leader = self._leaders.get(partition)
        if leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, -1
        connection = self._cluster.node(leader)
        if self._acks == 0:
            connection.send(request, connection.version_for(request))
            return 0, None, -1
        version = connection.version_for(request)
        if self._transactions is not None:
            version = min(version, self._transactions.last_produce)
        response: api.ProduceResponse = connection.ask(request, version=version)
        answer = response.responses[0].partition_responses[0]
        return answer.error_code, answer.error_message, answer.base_offset

    def _find_leaders(self) -> dict[int, int]:
        """Return the leader of each of the topic's partitions, waiting if the broker is creating the topic."""
        return self._cluster.retried(lambda: leaders(self._cluster, self._topic))


def leaders(cluster: Cluster, topic: str) -> dict[int, int]:
    """Return the leader of each partition of a topic. The broker can create a missing topic.

    Raises:
        ApiError: The topic name is refused, or a partition has no leader.
    """
    (found,) = cluster.metadata([topic], create=True).topics
    code = error_code(found.error_code)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        code = ErrorCode.LEADER_NOT_AVAILABLE  # The broker is creating the topic, or can do so soon.
    if code:
        raise ApiError(code, None if code is ErrorCode.LEADER_NOT_AVAILABLE else f"Invalid topics: [{topic}]")
    if not found.partitions or any(each.leader_id < 0 for each in found.partitions):
        raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
    return {each.partition_index: each.leader_id for each in found.partitions}
