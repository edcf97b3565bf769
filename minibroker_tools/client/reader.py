"""Reads records from the leaders of partitions."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import ProtocolError
from minibroker_protocol.messages import fetch as api
from minibroker_protocol.records.batch import Batch, iter_batches
from minibroker_protocol.records.record import Record
from minibroker_tools.client.cluster import BACKOFF_S, Cluster
from minibroker_tools.client.connection import Connection
from minibroker_tools.client.offsets import (
    EARLIEST,
    LATEST,
    TopicPartition,
    find_leaders,
    group_values,
    list_offsets_at,
)
from minibroker_tools.failures import ApiError, ToolError, error_code, raise_if_failed

_MAX_PARTITION_BYTES: Final = 1 << 20
_MAX_FETCH_BYTES: Final = 50 << 20
POLL_S: Final = 0.5
"""The maximum wait of a poll, in seconds."""
_ABORT_MARKER_KEY: Final = b"\0\0\0\0"
_LEADER_ERRORS: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Received(NamedTuple):
    """A record with its topic and partition."""

    topic: str
    partition: int
    record: Record


class Reader:
    """A reader of records. `positions` holds the next offset to fetch from each partition."""

    def __init__(self, cluster: Cluster, *, reset: str = "latest", read_committed: bool = False) -> None:
        """Create a reader without partitions.

        Args:
            cluster: The cluster to read from.
            reset: The value of `auto.offset.reset`: earliest, latest or none.
            read_committed: Whether to skip records of open and aborted transactions.
        """
        self._cluster = cluster
        self._reset = reset
        self._isolation = int(read_committed)
        self._leaders: dict[TopicPartition, int] = {}
        self.positions: dict[TopicPartition, int] = {}

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the partitions to read. Reading starts at the given offsets, where -1 is the end and -2 the start."""
        self.positions = {partition: offset for partition, offset in offsets.items() if offset >= 0}
        for special_offset in sorted({offset for offset in offsets.values() if offset < 0}):
            partitions = [partition for partition, offset in offsets.items() if offset == special_offset]
            self.positions |= list_offsets_at(self._cluster, partitions, special_offset, isolation=self._isolation)
        self._leaders = find_leaders(self._cluster, self.positions) if self.positions else {}

    def poll(self, seconds: float = POLL_S) -> list[Received]:
        """Return the records that arrive within `seconds`, but wait at most half a second."""
        seconds = max(min(seconds, POLL_S), 0.0)
        if not self.positions:
            time.sleep(seconds)
            return []
        self._cluster.restart_timeout()
        pending: list[tuple[Connection, api.FetchRequest, int]] = []
        partitions_by_leader = group_values((self._leaders.get(key, -1), key) for key in self.positions)
        have_no_leader = partitions_by_leader.pop(-1, None) is not None  # They cannot be fetched.
        for leader, partitions in partitions_by_leader.items():
            connection = self._cluster.node(leader)
            request = self._fetch_request(partitions, int(seconds * 1000))
            version = connection.version_for(request)
            connection.send(request, version, wait=seconds)
            pending.append((connection, request, version))
        if not pending:
            time.sleep(BACKOFF_S)
        received: list[Received] = []
        for connection, request, version in pending:
            response: api.FetchResponse = raise_if_failed(connection.receive(request, version))
            for topic in response.responses:
                for data in topic.partitions:
                    received += self._read_partition((topic.topic, data.partition_index), data)
        if have_no_leader:
            self._leaders = find_leaders(self._cluster, self.positions)
        return received

    def _fetch_request(self, partitions: list[TopicPartition], wait_ms: int) -> api.FetchRequest:
        topics: dict[str, list[api.FetchPartition]] = {}
        for topic, index in partitions:
            fetch_partition = api.FetchPartition(
                partition=index, fetch_offset=self.positions[topic, index], partition_max_bytes=_MAX_PARTITION_BYTES
            )
            topics.setdefault(topic, []).append(fetch_partition)
        return api.FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=_MAX_FETCH_BYTES,
            isolation_level=self._isolation,
            topics=[
                api.FetchTopic(topic=name, partitions=fetch_partitions) for name, fetch_partitions in topics.items()
            ],
        )

    def _read_partition(self, partition: TopicPartition, data: api.PartitionData) -> list[Received]:
        """Return the records of one partition and advance its position."""
        code = error_code(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._reset_position(partition)
            return []
        if code in _LEADER_ERRORS:
            self._leaders = find_leaders(self._cluster, self.positions)
            return []
        if code:
            raise ApiError(data.error_code)
        position = self.positions[partition]
        received: list[Received] = []
        records = data.records
        if not isinstance(records, (bytes, bytearray, memoryview)):
            return []
        try:
            batches = list(iter_batches(records))
            for batch in _visible_batches(batches, data, committed_only=bool(self._isolation)):
                received += [Received(*partition, record) for record in batch if record.offset >= position]
        except ProtocolError as error:
            name = f"{partition[0]}-{partition[1]}"
            raise ToolError(f"The records of {name} from offset {position} on cannot be read: {error}") from None
        if batches:
            self.positions[partition] = max(position, batches[-1].header.last_offset + 1)
        return received

    def _reset_position(self, partition: TopicPartition) -> None:
        """Reset an out-of-range position according to `auto.offset.reset`."""
        if self._reset not in {"earliest", "latest"}:
            offset = self.positions[partition]
            raise ToolError(f"Fetch position {offset} is out of range for partition {partition[0]}-{partition[1]}")
        reset_offset = EARLIEST if self._reset == "earliest" else LATEST
        self.positions |= list_offsets_at(self._cluster, [partition], reset_offset, isolation=self._isolation)


def _visible_batches(batches: Iterable[Batch], data: api.PartitionData, *, committed_only: bool) -> Iterator[Batch]:
    """Yield all batches except control batches and, if `committed_only`, those of aborted transactions."""
    aborted = sorted(data.aborted_transactions or [], key=lambda transaction: transaction.first_offset)
    aborted_producers: set[int] = set()
    for batch in batches:
        header = batch.header
        while committed_only and aborted and aborted[0].first_offset <= header.last_offset:
            aborted_producers.add(aborted.pop(0).producer_id)
        if header.is_control:
            first = next(iter(batch), None)
            if first is not None and first.key == _ABORT_MARKER_KEY:
                aborted_producers.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in aborted_producers:
            continue
        yield batch
