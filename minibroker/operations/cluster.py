"""Who leads what, as a test asks."""

from minibroker.operations.records import partitions_of, topic_of
from minibroker.state import BrokerState


def leader_of(state: BrokerState, topic: str, partition: int) -> int | None:
    """The node id of a partition's leader; None while it has none. `OperationError`."""
    (found,) = partitions_of(topic_of(state, topic), partition)
    return None if found.leader is None else found.leader.id
