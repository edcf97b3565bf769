"""A produce request that waits until its records are on disk (Kafka's `DelayedProduce`)."""

from collections.abc import Callable, Iterable

from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.outcomes import DelayedResponse
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
    """A response that waits until its records are on disk."""

    deliver: Callable[[ProduceResponse], None]

    def __init__(self, response: ProduceResponse, logs: Iterable[Log]) -> None:
        self._response = response
        self._missing = set(logs)

    @property
    def is_waiting(self) -> bool:
        """Whether the flush of at least one log is still in progress."""
        return bool(self._missing)

    def on_flushed(
        self, partition: Partition, node: Node, outcomes: list[PartitionProduceResponse], error: OSError | None
    ) -> None:
        """Handle a completed or failed flush of a partition's log. `node` was the leader at the append."""
        self._missing.discard(partition.log)
        for outcome in outcomes:
            if error is not None:
                refuse_partition(outcome, ErrorCode.KAFKA_STORAGE_ERROR, error)
            elif partition.leader is not node:
                refuse_partition(outcome, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER.meaning)
        if not self._missing and hasattr(self, "deliver"):
            self.deliver(self._response)

    def waits_for(self) -> str:
        """Return what the request waits for, see `DelayedResponse`."""
        return f"its records to be on disk, in {len(self._missing)} partitions"

    def cancel(self) -> None:
        """Drop the response because the client disconnected. The records stay."""
        if hasattr(self, "deliver"):
            del self.deliver
