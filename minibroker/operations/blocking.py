"""The operations of `Broker`. They run coroutines of `asynchronous` on the broker's thread while the caller waits.

Most methods are defined in one line, such as `topics = blocking(AsyncOperations.topics)`. Type checkers, editors and
`help` show the signature and docstring of the coroutine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from minibroker.cluster.errors import is_the_callers
from minibroker.operations import asynchronous_handles as handles
from minibroker.operations import asynchronous_trials as trials
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.wording import missing_attribute
from minibroker.server.services import Services

if TYPE_CHECKING:
    from minibroker.server.inspection.journal import Journal
    from minibroker_chaos.steps import Step

__tracebackhide__ = is_the_callers

P = ParamSpec("P")
T = TypeVar("T")
Async = TypeVar("Async")


class Facade(ABC, Generic[Async]):
    """An object with blocking methods that wraps an asynchronous object."""

    @property
    @abstractmethod
    def asynchronous(self) -> Async:
        """The wrapped object, for use on the broker's event loop."""

    @abstractmethod
    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's thread and return its result.

        Raises:
            RuntimeError: the broker is not running.
        """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(self, name)


def blocking(
    method: Callable[Concatenate[Async, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Facade[Async], P], T]:
    """Return the blocking form of a coroutine method, with the same name, signature and docstring."""

    @wraps(method)
    def call(self: Facade[Async], /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            coroutine = method(self.asynchronous, *args, **kwargs)
        # Python's message for wrong arguments names the asynchronous class, so it is replaced.
        except TypeError as error:
            raise _argument_error(f"{type(self).__name__}.{method.__name__}", method, error) from None
        return self.wait(coroutine)

    return call


def _argument_error(name: str, method: Callable[..., Any], error: TypeError) -> TypeError:
    """Return the error under the name that the caller used, with the accepted arguments."""
    _, *parameters = signature(method).parameters.values()
    takes = ", ".join(str(parameter.replace(annotation=parameter.empty)) for parameter in parameters)
    is_count = method.__name__ == "expect" and "'count'" in str(error)
    hint = ". For several records there is wait_for(topic, count, matching=record(...))" if is_count else ""
    return TypeError(f"{str(error).replace(method.__qualname__, name)}; it takes ({takes}){hint}")


class Handle(Facade[Async]):
    """Base class of the objects of a `Broker` that have their own methods."""

    def __init__(self, asynchronous: Async, broker: Facade[Any]) -> None:
        self._asynchronous = asynchronous
        self._broker = broker

    @property
    def asynchronous(self) -> Async:
        """The wrapped object, for use on the broker's event loop."""
        return self._asynchronous

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's thread and return its result.

        Raises:
            RuntimeError: the broker is not running.
        """
        return self._broker.wait(work)


class ConsumerGroup(Handle[handles.AsyncConsumerGroup]):
    """A consumer group or share group of a `Broker`."""

    describe = blocking(handles.AsyncConsumerGroup.describe)
    wait_until_stable = blocking(handles.AsyncConsumerGroup.wait_until_stable)
    wait_until_caught_up = blocking(handles.AsyncConsumerGroup.wait_until_caught_up)
    committed = blocking(handles.AsyncConsumerGroup.committed)
    lag = blocking(handles.AsyncConsumerGroup.lag)
    share_partitions = blocking(handles.AsyncConsumerGroup.share_partitions)
    rebalance = blocking(handles.AsyncConsumerGroup.rebalance)


class Schemas(Handle[handles.AsyncSchemas]):
    """The schema registry of a `Broker`, with or without an HTTP server (`Broker(registry=True)`)."""

    register = blocking(handles.AsyncSchemas.register)
    subjects = blocking(handles.AsyncSchemas.subjects)
    latest = blocking(handles.AsyncSchemas.latest)
    delete = blocking(handles.AsyncSchemas.delete)
    compatibility = blocking(handles.AsyncSchemas.compatibility)


class BrokerClock(Handle[handles.AsyncBrokerClock]):
    """The clock of a `Broker`. It shows the machine's time unless it has been advanced."""

    now_ms = blocking(handles.AsyncBrokerClock.now_ms)
    advance = blocking(handles.AsyncBrokerClock.advance)


class Retention(Handle[handles.AsyncRetention]):
    """The retention of a `Broker`, which also runs periodically (`log.retention.check.interval.ms`)."""

    run = blocking(handles.AsyncRetention.run)


class Brokers(Handle[handles.AsyncBrokers]):
    """The brokers of a `Broker` by node id."""

    def __len__(self) -> int:
        """Return the number of brokers, whether up or down."""
        return len(self.asynchronous)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the node ids."""
        return iter(self.asynchronous)

    def __getitem__(self, node_id: int) -> "BrokerNode":
        """Return the broker with this node id.

        Raises:
            KeyError: there is no such broker; the message names the existing ones.
        """
        return BrokerNode(self.asynchronous[node_id], self._broker)


class BrokerNode(Handle[handles.AsyncBrokerNode]):
    """One broker of a `Broker`."""

    @property
    def node_id(self) -> int:
        """The node id, as known to clients."""
        return self.asynchronous.node_id

    @property
    def is_up(self) -> bool:
        """Whether the broker is running and listening."""
        return self.asynchronous.is_up

    @property
    def rack(self) -> str | None:
        """The broker's `broker.rack`."""
        return self.asynchronous.rack

    stop = blocking(handles.AsyncBrokerNode.stop)
    start = blocking(handles.AsyncBrokerNode.start)


class Faults(Handle[handles.AsyncFaults]):
    """The faults of a `Broker`, in the order in which they were added.

    If several faults match a request, the first one applies.
    """

    add = blocking(handles.AsyncFaults.add)
    remove = blocking(handles.AsyncFaults.remove)
    clear = blocking(handles.AsyncFaults.clear)
    list = blocking(handles.AsyncFaults.list)


class FaultContext(Handle[handles.AsyncFaultContext]):
    """A fault for a `with` block. If no block ever installs it, a MinibrokerWarning names the line that created it."""

    __enter__ = blocking(handles.AsyncFaultContext.__aenter__)
    __exit__ = blocking(handles.AsyncFaultContext.__aexit__)


class Chaos(Handle[trials.AsyncChaos]):
    """Chaos on a `Broker`, for a `with` block or for as long as the broker runs (docs/chaos.md)."""

    @property
    def steps(self) -> "list[Step]":
        """The misbehaviours so far. Under stored steps they are those that happened."""
        return self.asynchronous.steps

    @property
    def is_felt(self) -> bool:
        """Whether a client has reacted to a misbehaviour. Otherwise the run has shown nothing."""
        return self.asynchronous.is_felt

    @property
    def met(self) -> tuple[int, int, int]:
        """The numbers of stored steps that happened exactly, at a later attempt, and not at all."""
        return self.asynchronous.met

    def report(self) -> list[str]:
        """Return the run in lines of text: the seed, the misbehaviours, and what clients did next."""
        return self.asynchronous.report()

    def to_json(self) -> dict[str, Any]:
        """Return a document of the steps that `broker.chaos(steps=...)` repeats."""
        return self.asynchronous.to_json()

    start = blocking(trials.AsyncChaos.start)
    settle = blocking(trials.AsyncChaos.settle)
    stop = blocking(trials.AsyncChaos.stop)
    __exit__ = blocking(trials.AsyncChaos.__aexit__)

    def __enter__(self) -> Self:
        """Begin to misbehave."""
        self.start()
        return self


class Check(Handle[trials.AsyncCheck]):
    """Checks of an application, by what a `Broker` saw of it (docs/checks.md)."""

    no_loss = blocking(trials.AsyncCheck.no_loss)
    no_duplicates = blocking(trials.AsyncCheck.no_duplicates)
    order_by_key = blocking(trials.AsyncCheck.order_by_key)
    exactly_once = blocking(trials.AsyncCheck.exactly_once)
    no_commit_ahead = blocking(trials.AsyncCheck.no_commit_ahead)
    no_zombie_writes = blocking(trials.AsyncCheck.no_zombie_writes)
    all = blocking(trials.AsyncCheck.all)
    commits_do_not_go_back = blocking(trials.AsyncCheck.commits_do_not_go_back)
    caught_up = blocking(trials.AsyncCheck.caught_up)
    run = blocking(trials.AsyncCheck.run)


class BlockingOperations(Facade[AsyncOperations]):
    """Operations on a running broker.

    Every method raises RuntimeError if the broker is not running, and `OperationError` if the operation is impossible.
    """

    @property
    def services(self) -> Services:
        """The services shared by the handlers. Use them only on the broker's thread."""
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
        """Return a handle for a consumer group, which need not exist yet."""
        return ConsumerGroup(self.asynchronous.group(group_id), self)

    @property
    def schemas(self) -> Schemas:
        """The schema registry. It works with or without an HTTP server."""
        return Schemas(self.asynchronous.schemas, self)

    @property
    def clock(self) -> BrokerClock:
        """The broker's clock."""
        return BrokerClock(self.asynchronous.clock, self)

    @property
    def retention(self) -> Retention:
        """A handle for retention. Use it to delete old records at any time."""
        return Retention(self.asynchronous.retention, self)

    compact = blocking(AsyncOperations.compact)

    @property
    def brokers(self) -> Brokers:
        """The brokers by node id."""
        return Brokers(self.asynchronous.brokers, self)

    leader = blocking(AsyncOperations.leader)
    move_leader = blocking(AsyncOperations.move_leader)

    @property
    def requests(self) -> "Journal":
        """The newest client requests with their responses, oldest first.

        Raises RuntimeError for a broker without a journal (`Broker(journal=True)` has one).
        """
        return self.asynchronous.requests

    wait_for_requests = blocking(AsyncOperations.wait_for_requests)

    @property
    def faults(self) -> Faults:
        """The installed faults."""
        return Faults(self.asynchronous.faults, self)

    def fault(self, *given: Any, **fields: Any) -> FaultContext:
        """Return a context manager that installs a fault for a `with` block.

        Entering it returns the `Fault`, whose `fired` counts the requests it has affected. docs/faults.md lists the
        fields.

        Raises:
            FaultError: a field is invalid.
            TypeError: an argument has no name.
        """
        return FaultContext(self.asynchronous.fault(*given, **fields), self)

    def chaos(
        self,
        seed: int | None = None,
        *,
        profile: str = "default",
        only: Sequence[str] = (),
        without: Sequence[str] = (),
        steps: "Sequence[Step] | Mapping[str, Any] | None" = None,
    ) -> Chaos:
        """Return a context manager under which the broker misbehaves, with the arguments of `AsyncBroker.chaos`."""
        return Chaos(self.asynchronous.chaos(seed, profile=profile, only=only, without=without, steps=steps), self)

    @property
    def check(self) -> Check:
        """Checks of an application, by what the broker saw of it."""
        return Check(self.asynchronous.check, self)

    reset = blocking(AsyncOperations.reset)
    snapshot = blocking(AsyncOperations.snapshot)
    restore = blocking(AsyncOperations.restore)
