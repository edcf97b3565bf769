"""`Broker`'s methods: the coroutines of `asynchronous`, run on the broker's thread while the caller waits.

A method here is one line, `topics = blocking(AsyncOperations.topics)`. It has the signature and the docstring of its
coroutine, for type checkers and editors as for `help`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from minibroker.cluster.errors import is_the_callers
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.asynchronous_handles import (
    AsyncBrokerClock,
    AsyncBrokerNode,
    AsyncBrokers,
    AsyncConsumerGroup,
    AsyncFaultContext,
    AsyncFaults,
    AsyncRetention,
)
from minibroker.server.services import Services

if TYPE_CHECKING:
    from minibroker.server.inspection.journal import Journal

__tracebackhide__ = is_the_callers

P = ParamSpec("P")
T = TypeVar("T")
Async = TypeVar("Async")


class Facade(ABC, Generic[Async]):
    """An object with blocking methods, and the asynchronous one that does the work."""

    @property
    @abstractmethod
    def asynchronous(self) -> Async:
        """The same object for the broker's own loop."""

    @abstractmethod
    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's thread, and wait for its result. RuntimeError unless the broker runs."""


def blocking(
    method: Callable[Concatenate[Async, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Facade[Async], P], T]:
    """The blocking form of a coroutine method, with its name, signature and docstring."""

    @wraps(method)
    def call(self: Facade[Async], /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            coroutine = method(self.asynchronous, *args, **kwargs)
        except TypeError as error:  # the arguments do not fit: Python names the asynchronous class
            raise _misfit(f"{type(self).__name__}.{method.__name__}", method, error) from None
        return self.wait(coroutine)

    return call


def _misfit(name: str, method: Callable[..., Any], error: TypeError) -> TypeError:
    """The error under the name that the caller has used, with what the method takes."""
    _, *parameters = signature(method).parameters.values()
    takes = ", ".join(str(each.replace(annotation=each.empty)) for each in parameters)
    return TypeError(f"{str(error).replace(method.__qualname__, name)}; it takes ({takes})")


class Handle(Facade[Async]):
    """An object that a `Broker` gives and that has blocking methods of its own."""

    def __init__(self, asynchronous: Async, broker: Facade[Any]) -> None:
        self._asynchronous = asynchronous
        self._broker = broker

    @property
    def asynchronous(self) -> Async:
        """The same object for the broker's own loop."""
        return self._asynchronous

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's thread, and wait for its result. RuntimeError unless the broker runs."""
        return self._broker.wait(work)


class ConsumerGroup(Handle[AsyncConsumerGroup]):
    """A group of a `Broker`: of consumers, or a share group."""

    describe = blocking(AsyncConsumerGroup.describe)
    wait_until_stable = blocking(AsyncConsumerGroup.wait_until_stable)
    wait_until_caught_up = blocking(AsyncConsumerGroup.wait_until_caught_up)
    committed = blocking(AsyncConsumerGroup.committed)
    lag = blocking(AsyncConsumerGroup.lag)
    share_partitions = blocking(AsyncConsumerGroup.share_partitions)
    rebalance = blocking(AsyncConsumerGroup.rebalance)


class BrokerClock(Handle[AsyncBrokerClock]):
    """The time of a `Broker`: the machine's, unless it was moved."""

    now_ms = blocking(AsyncBrokerClock.now_ms)
    advance = blocking(AsyncBrokerClock.advance)


class Retention(Handle[AsyncRetention]):
    """The retention of a `Broker`, which also runs by itself (`log.retention.check.interval.ms`)."""

    run = blocking(AsyncRetention.run)


class Brokers(Handle[AsyncBrokers]):
    """The brokers of a `Broker`, by node id."""

    def __len__(self) -> int:
        """The number of brokers, up or down."""
        return len(self.asynchronous)

    def __iter__(self) -> Iterator[int]:
        """Their node ids."""
        return iter(self.asynchronous)

    def __getitem__(self, node_id: int) -> "BrokerNode":
        """The broker with this node id. KeyError that names those that exist."""
        return BrokerNode(self.asynchronous[node_id], self._broker)


class BrokerNode(Handle[AsyncBrokerNode]):
    """One broker of a `Broker`."""

    @property
    def node_id(self) -> int:
        """As clients know it."""
        return self.asynchronous.node_id

    @property
    def is_up(self) -> bool:
        """Does it listen?"""
        return self.asynchronous.is_up

    @property
    def rack(self) -> str | None:
        """Its `broker.rack`."""
        return self.asynchronous.rack

    stop = blocking(AsyncBrokerNode.stop)
    start = blocking(AsyncBrokerNode.start)


class Faults(Handle[AsyncFaults]):
    """The faults of a `Broker`, in the order in which they were added; of several that match the first acts."""

    add = blocking(AsyncFaults.add)
    remove = blocking(AsyncFaults.remove)
    clear = blocking(AsyncFaults.clear)
    list = blocking(AsyncFaults.list)


class FaultContext(Handle[AsyncFaultContext]):
    """A fault within a `with` block. One that is never used in a block gives a MinibrokerWarning at its line."""

    __enter__ = blocking(AsyncFaultContext.__aenter__)
    __exit__ = blocking(AsyncFaultContext.__aexit__)


class BlockingOperations(Facade[AsyncOperations]):
    """The operations on a running broker. RuntimeError unless it runs, `OperationError` if an operation fails."""

    @property
    def services(self) -> Services:
        """The state that handlers share. It belongs to the broker's thread."""
        return self.asynchronous.services

    topics = blocking(AsyncOperations.topics)
    create_topic = blocking(AsyncOperations.create_topic)
    fresh_topic = blocking(AsyncOperations.fresh_topic)
    delete_topic = blocking(AsyncOperations.delete_topic)
    topic_config = blocking(AsyncOperations.topic_config)
    configure_topic = blocking(AsyncOperations.configure_topic)
    configure = blocking(AsyncOperations.configure)
    telemetry = blocking(AsyncOperations.telemetry)
    set_quota = blocking(AsyncOperations.set_quota)
    allow = blocking(AsyncOperations.allow)
    deny = blocking(AsyncOperations.deny)
    acls = blocking(AsyncOperations.acls)
    remove_acls = blocking(AsyncOperations.remove_acls)
    produce = blocking(AsyncOperations.produce)
    records = blocking(AsyncOperations.records)
    wait_for = blocking(AsyncOperations.wait_for)
    expect = blocking(AsyncOperations.expect)
    expect_none = blocking(AsyncOperations.expect_none)
    groups = blocking(AsyncOperations.groups)

    def group(self, group_id: str) -> ConsumerGroup:
        """A consumer group, whether it exists yet or not."""
        return ConsumerGroup(self.asynchronous.group(group_id), self)

    @property
    def clock(self) -> BrokerClock:
        """The broker's time."""
        return BrokerClock(self.asynchronous.clock, self)

    @property
    def retention(self) -> Retention:
        """The deletion of old records."""
        return Retention(self.asynchronous.retention, self)

    compact = blocking(AsyncOperations.compact)

    @property
    def brokers(self) -> Brokers:
        """The brokers, by node id."""
        return Brokers(self.asynchronous.brokers, self)

    leader = blocking(AsyncOperations.leader)
    move_leader = blocking(AsyncOperations.move_leader)

    @property
    def requests(self) -> "Journal":
        """The journal of requests, oldest first. RuntimeError for a broker that keeps none (`Broker(journal=True)`)."""
        return self.asynchronous.requests

    wait_for_requests = blocking(AsyncOperations.wait_for_requests)

    @property
    def faults(self) -> Faults:
        """The faults that are installed."""
        return Faults(self.asynchronous.faults, self)

    def fault(self, **fields: Any) -> FaultContext:
        """A fault for a `with` block, which returns the `Fault`: its `fired` counts the requests that it has hit.

        docs/faults.md lists the fields. FaultError names an invalid one.
        """
        return FaultContext(self.asynchronous.fault(**fields), self)

    reset = blocking(AsyncOperations.reset)
    snapshot = blocking(AsyncOperations.snapshot)
    restore = blocking(AsyncOperations.restore)
