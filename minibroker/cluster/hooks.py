"""Hooks: events of lower layers that upper layers subscribe to."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, ParamSpec

if TYPE_CHECKING:
    from minibroker.cluster.partition import Partition
    from minibroker.config import BrokerConfig
    from minibroker.config.keys import ConfigResourceType
    from minibroker_storage.log import LogShape

P = ParamSpec("P")


class Hook(Generic[P]):
    """An event. Calling it calls all subscribers in the order of their subscription."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[P, object]] = []

    def subscribe(self, function: Callable[P, object]) -> None:
        """Call `function` for every future event."""
        self._subscribers.append(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all subscribers."""
        for subscriber in self._subscribers:
            subscriber(*args, **kwargs)


class FaultHit(NamedTuple):
    """The event that a fault has affected a request.

    Attributes:
        api: The name of the API.
        client_id: The client id of the request.
        fields: Returns the fields of the fault.
    """

    api: str
    client_id: str | None
    fields: Callable[[], Mapping[str, object]]


class Hooks:
    """The events of one broker.

    Attributes:
        check_broker: The brokers' configuration is about to change to the argument. Subscribers may raise
            ConfigError.
        config_changed: The configuration of resources of this type has changed.
        fault_hit: See `FaultHit`. A fault of chaos is a step instead.
        leader_moved: The partition has a new leader, or has lost its leader.
        log_cleaned: The log of a partition was compacted. The arguments are the partition and the previous shape of
            the log.
        log_shortened: Retention removed segments. The arguments are the partition, the previous shape of the log
            and the number of segments.
        marker_written: A transaction marker was written. The arguments are (topic, partition), the producer id, and
            whether the transaction was committed.
        misbehaved: Chaos has taken a step, which the argument describes.
        records_deleted: DeleteRecords moved a log start offset. The arguments are the partition and the previous
            shape of the log.
        topics_deleted: The topics with these names were deleted.
    """

    def __init__(self) -> None:
        self.check_broker: Hook[[BrokerConfig]] = Hook()
        self.config_changed: Hook[[ConfigResourceType]] = Hook()
        self.fault_hit: Hook[[FaultHit]] = Hook()
        self.leader_moved: Hook[[Partition]] = Hook()
        self.log_cleaned: Hook[[Partition, LogShape]] = Hook()
        self.log_shortened: Hook[[Partition, LogShape, int]] = Hook()
        self.marker_written: Hook[[tuple[str, int], int, bool]] = Hook()
        self.misbehaved: Hook[[str]] = Hook()
        self.records_deleted: Hook[[Partition, LogShape]] = Hook()
        self.topics_deleted: Hook[[Collection[str]]] = Hook()
