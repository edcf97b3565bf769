"""Who leads what, as a test asks."""

from minibroker.operations.records import partitions_of, topic_of
from minibroker.services import Services


def leader_of(services: Services, topic: str, partition: int) -> int | None:
    """The node id of a partition's leader; None while it has none. `OperationError`."""
    (found,) = partitions_of(topic_of(services, topic), partition)
    return None if found.leader is None else found.leader.id
