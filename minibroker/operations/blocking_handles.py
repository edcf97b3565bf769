"""What `Broker` gives that has methods of its own, for other threads: see `asynchronous_handles`.

Written by `python -m minibroker.operations.twin`.
"""

from collections.abc import Coroutine, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from minibroker.operations import asynchronous_handles
from minibroker.operations.errors import is_the_callers

if TYPE_CHECKING:
    from minibroker.faults.fault import Fault
    from minibroker.metadata.topics import TopicPartition
    from minibroker.operations.groups import GroupDescription


__tracebackhide__ = is_the_callers

T = TypeVar("T")


class Wait(Protocol):
    """Has something done on the broker's thread, and waits for it."""

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """RuntimeError unless the broker runs."""
        ...


class ConsumerGroup:
    """A consumer group of a `Broker`."""

    def __init__(self, twin: asynchronous_handles.AsyncConsumerGroup, wait: Wait) -> None:
        self.twin = twin
        self.wait = wait

    def describe(self) -> "GroupDescription":
        """State, generation and members; a group that nobody knows is Dead."""
        return self.wait(self.twin.describe())

    def wait_until_stable(self, members: int | None = None, *, timeout: float | None = None) -> "GroupDescription":
        """Wait until every member has its assignment, and somebody has each partition that they subscribe to.

        With `members` so many of them. `WaitTimeoutError` tells where the group stands instead.
        """
        return self.wait(self.twin.wait_until_stable(members, timeout=timeout))

    def wait_until_caught_up(
        self, topic: str | None = None, *, timeout: float | None = None
    ) -> "dict[TopicPartition, int]":
        """Wait until the group has read and committed all records; returns its committed offsets.

        Without `topic` that is every partition which it has committed for or is assigned. Records of open and aborted
        transactions do not count. `WaitTimeoutError` names the partitions that are behind.
        """
        return self.wait(self.twin.wait_until_caught_up(topic, timeout=timeout))

    def committed(self) -> "dict[TopicPartition, int]":
        """Committed offsets, by (topic, partition)."""
        return self.wait(self.twin.committed())

    def lag(self) -> "dict[TopicPartition, int]":
        """How many offsets the group is behind, by (topic, partition)."""
        return self.wait(self.twin.lag())

    def rebalance(self) -> None:
        """Have all members join again, as if one had come or gone."""
        self.wait(self.twin.rebalance())


class BrokerClock:
    """The time of a `Broker`: the machine's, unless it was moved."""

    def __init__(self, twin: asynchronous_handles.AsyncBrokerClock, wait: Wait) -> None:
        self.twin = twin
        self.wait = wait

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self.wait(self.twin.now_ms())

    def advance(self, seconds: float | timedelta) -> None:
        """Move on, by seconds (not milliseconds) or a `timedelta`: what falls due on the way happens, in its order.

        Sessions end, transactions and parked requests time out; chores such as retention are done once, at the end.
        """
        self.wait(self.twin.advance(seconds))


class Retention:
    """The retention of a `Broker`, which also runs by itself (`log.retention.check.interval.ms`)."""

    def __init__(self, twin: asynchronous_handles.AsyncRetention, wait: Wait) -> None:
        self.twin = twin
        self.wait = wait

    def run(self) -> int:
        """Delete what is not to be kept any longer, now; returns how many segments went."""
        return self.wait(self.twin.run())


class Brokers:
    """The brokers of a `Broker`, by node id."""

    def __init__(self, twin: asynchronous_handles.AsyncBrokers, wait: Wait) -> None:
        self.twin = twin
        self.wait = wait

    def __len__(self) -> int:
        """How many there are, up or down."""
        return self.twin.__len__()

    def __iter__(self) -> Iterator[int]:
        """Their node ids."""
        return self.twin.__iter__()

    def __getitem__(self, node_id: int) -> "BrokerNode":
        """The broker with this node id. KeyError that names those that there are."""
        return BrokerNode(self.twin.__getitem__(node_id), self.wait)


class BrokerNode:
    """One broker of a `Broker`."""

    def __init__(self, twin: asynchronous_handles.AsyncBrokerNode, wait: Wait) -> None:
        self.twin = twin
        self.wait = wait

    @property
    def node_id(self) -> int:
        """As clients know it."""
        return self.twin.node_id

    @property
    def is_up(self) -> bool:
        """Does it listen?"""
        return self.twin.is_up

    def stop(self) -> None:
        """Take it down: its connections end, others lead what it has led. One that is down stays so."""
        self.wait(self.twin.stop())

    def start(self) -> None:
        """Bring it up again, at the same address. One that is up stays so."""
        self.wait(self.twin.start())


class Faults:
    """The faults of a `Broker`, in the order in which they were added; of several that match the first acts."""

    def __init__(self, twin: asynchronous_handles.AsyncFaults, wait: Wait) -> None:
        self.twin = twin
        self.wait = wait

    def add(self, fault: "Fault | None" = None, **fields: Any) -> "Fault":
        """Install a fault, given as such or by its fields. It stays until `remove`, or until it has hit `times`."""
        return self.wait(self.twin.add(fault, **fields))

    def remove(self, fault: "Fault") -> bool:
        """Take a fault away; False when it is not installed."""
        return self.wait(self.twin.remove(fault))

    def clear(self) -> None:
        """Take all faults away."""
        self.wait(self.twin.clear())

    def list(self) -> "tuple[Fault, ...]":
        """Those that are installed."""
        return self.wait(self.twin.list())


class FaultContext:
    """A fault within a `with` block. RuntimeWarning, with the line that made it, for one that no block installed."""

    def __init__(self, twin: asynchronous_handles.AsyncFaultContext, wait: Wait) -> None:
        self.twin = twin
        self.wait = wait

    def __enter__(self) -> "Fault":
        """Install it."""
        return self.wait(self.twin.__aenter__())

    def __exit__(self, *exception: object) -> None:
        """Take it away."""
        self.wait(self.twin.__aexit__(*exception))
