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
    """Say that nothing was appended to a partition, and why.

    Not `refuse`, which a handler has for a whole request.
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
        """Whether a log's flush has not come back yet."""
        return bool(self._missing)

    def on_flushed(
        self, partition: Partition, node: Node, outcomes: list[PartitionProduceResponse], error: OSError | None
    ) -> None:
        """The log of `partition`, which `node` has led, is on disk, or could not be brought there."""
        self._missing.discard(partition.log)
        for outcome in outcomes:
            if error is not None:
                refuse_partition(outcome, ErrorCode.KAFKA_STORAGE_ERROR, error)
            elif partition.leader is not node:
                refuse_partition(outcome, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER.meaning)
        if not self._missing and hasattr(self, "deliver"):
            self.deliver(self._response)

    def waits_for(self) -> str:
        """See `DelayedResponse`."""
        return f"its records to be on disk, in {len(self._missing)} partitions"

    def cancel(self) -> None:
        """The client has gone; its records stay."""
        if hasattr(self, "deliver"):
            del self.deliver
