"""Hooks: events of the lower floors that upper floors subscribe to."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Generic, ParamSpec

if TYPE_CHECKING:
    from minibroker.cluster.partition import Partition
    from minibroker.config.resources import ConfigResourceType

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
        """Tell all subscribers."""
        for each in self._subscribers:
            each(*args, **kwargs)


class Hooks:
    """The events of one broker.

    Attributes:
        config_changed: what resources of this type are configured with has changed.
        leader_moved: the partition has another leader, or none any more.
        marker_written: a marker is in a log; the arguments are (topic, partition), the producer's id, and whether
            the transaction was committed.
        topics_deleted: the topics of these names are gone.
    """

    __slots__ = ("config_changed", "leader_moved", "marker_written", "topics_deleted")

    def __init__(self) -> None:
        self.config_changed: Hook[[ConfigResourceType]] = Hook()
        self.leader_moved: Hook[[Partition]] = Hook()
        self.marker_written: Hook[[tuple[str, int], int, bool]] = Hook()
        self.topics_deleted: Hook[[Collection[str]]] = Hook()
