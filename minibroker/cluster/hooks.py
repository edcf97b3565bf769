"""Hooks: events of the lower floors that upper floors subscribe to."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, ParamSpec

if TYPE_CHECKING:
    from minibroker.cluster.partition import Partition
    from minibroker.config import BrokerConfig
    from minibroker.config.keys import ConfigResourceType
    from minibroker_storage.log import LogShape

P = ParamSpec("P")


class Hook(Generic[P]):
    """One event: calling it calls all subscribers, in the order in which they have subscribed."""

    __slots__ = ("_subscribers",)

    def __init__(self) -> None:
        self._subscribers: list[Callable[P, object]] = []

    def subscribe(self, function: Callable[P, object]) -> None:
        """Have `function` called with each event from now on."""
        self._subscribers.append(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all subscribers."""
        for each in self._subscribers:
            each(*args, **kwargs)


class FaultHit(NamedTuple):
    """A fault has hit a request.

    Attributes:
        fields: gives those of the fault.
    """

    api: str
    client_id: str | None
    fields: Callable[[], Mapping[str, object]]


class Hooks:
    """The events of one broker.

    Attributes:
        check_broker: what brokers are configured with is about to change to this; subscribers raise ConfigError.
        config_changed: what resources of this type are configured with has changed.
        fault_hit: see `FaultHit`.
        leader_moved: the partition has another leader, or none any more.
        log_cleaned: the log of a partition was compacted; the arguments are the partition, and the log as it was.
        log_shortened: retention has removed segments; the arguments are the partition, the log as it was, and the
            number of segments.
        marker_written: a marker is in a log; the arguments are (topic, partition), the producer's id, and whether
            the transaction was committed.
        records_deleted: DeleteRecords has moved a log start offset; the arguments are the partition, and the log as it
            was.
        topics_deleted: the topics of these names are gone.
    """

    __slots__ = (
        "check_broker",
        "config_changed",
        "fault_hit",
        "leader_moved",
        "log_cleaned",
        "log_shortened",
        "marker_written",
        "records_deleted",
        "topics_deleted",
    )

    def __init__(self) -> None:
        self.check_broker: Hook[[BrokerConfig]] = Hook()
        self.config_changed: Hook[[ConfigResourceType]] = Hook()
        self.fault_hit: Hook[[FaultHit]] = Hook()
        self.leader_moved: Hook[[Partition]] = Hook()
        self.log_cleaned: Hook[[Partition, LogShape]] = Hook()
        self.log_shortened: Hook[[Partition, LogShape, int]] = Hook()
        self.marker_written: Hook[[tuple[str, int], int, bool]] = Hook()
        self.records_deleted: Hook[[Partition, LogShape]] = Hook()
        self.topics_deleted: Hook[[Collection[str]]] = Hook()
