"""A produce request that waits for the disk or for replicas (Kafka's `DelayedProduce`)."""

from collections.abc import Callable, Iterable

from minibroker.clock import Timer
from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.server.requests.call import Call
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from minibroker_protocol.records.header import NO_OFFSET
from minibroker_storage.log import Log


def refuse_partition(response: PartitionProduceResponse, code: ErrorCode, reason: object) -> None:
    """Set an error in a partition's response that explains why nothing was appended.

    This function is not named `refuse`, because handlers have a function of that name for whole requests.
    """
    response.error_code = code
    response.base_offset = NO_OFFSET
    response.error_message = str(reason)


class DelayedProduce(DelayedResponse):
    """A response that waits until its records are on disk and, for acks=all, below the high watermark."""

    deliver: Callable[[ProduceResponse], None]

    def __init__(self, response: ProduceResponse, call: Call, flushing: Iterable[Log]) -> None:
        self._response = response
        self._call = call
        self._unflushed = set(flushing)
        self._unreplicated: list[tuple[Partition, PartitionProduceResponse]] = []
        self._timer: Timer | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether anything is still awaited."""
        return bool(self._unflushed or self._unreplicated)

    def on_flushed(
        self, partition: Partition, node: Node, outcomes: list[PartitionProduceResponse], error: OSError | None
    ) -> None:
        """Handle a completed or failed flush of a partition's log. `node` was the leader at the append."""
        self._unflushed.discard(partition.log)
        for outcome in outcomes:
            if error is not None:
                refuse_partition(outcome, ErrorCode.KAFKA_STORAGE_ERROR, error)
            elif partition.leader is not node:
                refuse_partition(outcome, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER.meaning)
        self._deliver_if_complete()

    def wait_for_replicas(
        self, unreplicated: list[tuple[Partition, PartitionProduceResponse]], timeout_ms: int
    ) -> None:
        """Wait for the high watermark to pass these appends, at most for a time, after which their records stay."""
        self._unreplicated = unreplicated
        for partition, _ in unreplicated:
            partition.log.add_append_listener(self._on_append)
        self._timer = self._call.core.clock.call_later(max(timeout_ms, 0), self._expire)

    def _on_append(self, log: Log) -> None:  # noqa: ARG002 - the listener's signature
        """Complete what is replicated, or has another leader (`Partition.checkEnoughReplicasReachOffset`)."""
        remaining: list[tuple[Partition, PartitionProduceResponse]] = []
        for partition, outcome in self._unreplicated:
            if partition.leader is not self._call.node or partition.topic.is_gone:
                outcome.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif outcome.base_offset >= partition.log.high_watermark:
                remaining.append((partition, outcome))
        self._end_wait(remaining)

    def _expire(self) -> None:
        for _, outcome in self._unreplicated:
            outcome.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._end_wait([])

    def _end_wait(self, remaining: list[tuple[Partition, PartitionProduceResponse]]) -> None:
        waited, self._unreplicated = self._unreplicated, remaining
        for partition in {partition for partition, _ in waited}.difference(partition for partition, _ in remaining):
            partition.log.remove_append_listener(self._on_append)
        if waited and not remaining:
            if self._timer is not None:
                self._timer.cancel()
            # Another request may be in the middle of its work, and the delivery serves the next one of the connection.
            self._call.core.call_soon(self._deliver_if_complete)

    def _deliver_if_complete(self) -> None:
        if not self.is_waiting and hasattr(self, "deliver"):
            self.deliver(self._response)
            del self.deliver

    def waits_for(self) -> str:
        """Return what the request waits for, see `DelayedResponse`."""
        if self._unreplicated:
            return f"the replicas of {len(self._unreplicated)} partitions"
        return f"its records to be on disk, in {len(self._unflushed)} partitions"

    def cancel(self) -> None:
        """Drop the response because the client disconnected. The records stay."""
        if hasattr(self, "deliver"):
            del self.deliver
        self._end_wait([])
