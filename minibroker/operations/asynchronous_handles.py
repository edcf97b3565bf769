"""Handles that `AsyncBroker` gives: groups, its clock, its brokers, its faults.

`blocking` makes the same for other threads. What they do is in the modules beside this one, loaded when needed.
"""

import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from minibroker import operations as work
from minibroker.cluster.errors import MinibrokerWarning, callers_line, is_the_callers, warn_caller
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.operations.views import slicing
    from minibroker.server.faults import fault as faults_fault
    from minibroker.server.faults import registry

if TYPE_CHECKING:
    # Names for the type checkers: a start loads none of it.
    from minibroker.operations.asynchronous import AsyncOperations
    from minibroker.operations.groups import GroupDescription
    from minibroker.operations.share_groups import SharePartitionDescription
    from minibroker.server.faults.fault import Fault
    from minibroker.server.faults.registry import FaultRegistry
    from minibroker.server.services import Services
    from minibroker_storage.data_directory.names import TopicPartition

__tracebackhide__ = is_the_callers


class _Handle:
    """An object of an `AsyncBroker` that has methods of its own."""

    def __init__(self, broker: "AsyncOperations") -> None:
        self._broker = broker

    @property
    def _services(self) -> "Services":
        return self._broker.services


class AsyncConsumerGroup(_Handle):
    """A group of an `AsyncBroker`: of consumers, or a share group."""

    def __init__(self, broker: "AsyncOperations", group_id: str) -> None:
        super().__init__(broker)
        self.group_id = group_id

    async def describe(self) -> "GroupDescription":
        """State, generation and members; an unknown group is Dead."""
        await work.groups.group_loaded(self._services, self.group_id)
        return work.groups.describe_group(self._services, self.group_id)

    async def wait_until_stable(
        self,
        members: int | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - part of what is asked
    ) -> "GroupDescription":
        """Wait until every member has its assignment, and each partition of their topics a member.

        `members` is the number of members to wait for. `WaitTimeoutError` has the present state of the group.
        """
        patience = self._broker.patience if timeout is None else timeout
        return await work.groups.wait_until_stable(self._services, self.group_id, members=members, timeout=patience)

    async def wait_until_caught_up(
        self,
        topic: str | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - part of what is asked
    ) -> "dict[TopicPartition, int]":
        """Wait until the group has read and committed all records; returns its committed offsets.

        Without `topic` that is every partition which it has committed for or is assigned. Records of open and aborted
        transactions do not count. A share group has to be done with all records; its start offsets are returned.
        `WaitTimeoutError` names the partitions that are behind.
        """
        patience = self._broker.patience if timeout is None else timeout
        return await work.catching_up.wait_until_caught_up(self._services, self.group_id, topic, patience)

    async def committed(self) -> "dict[TopicPartition, int]":
        """Committed offsets, by (topic, partition); the start offsets of a share group."""
        await work.groups.group_loaded(self._services, self.group_id)
        return work.groups.committed_offsets(self._services, self._checked_id())

    async def lag(self) -> "dict[TopicPartition, int]":
        """Return the offsets that the group is behind, by (topic, partition).

        MinibrokerWarning for a group that does not exist, which is behind nowhere.
        """
        await work.groups.group_loaded(self._services, self.group_id)
        if work.groups.find_group(self._services, self.group_id) is None:
            warn_caller(work.groups.missing_group(self._services, self.group_id))
        return await slicing.in_slices(self._services, work.groups.group_lag(self._services, self.group_id))

    async def share_partitions(self) -> "dict[TopicPartition, SharePartitionDescription]":
        """The partitions of a share group with the records in flight: offsets, states, delivery counts, members.

        `ConflictError` for a group of another type.
        """
        await work.groups.group_loaded(self._services, self.group_id)
        return await work.share_groups.share_partitions(self._services, self._checked_id())

    def _checked_id(self) -> str:
        """The group's id. MinibrokerWarning if the group does not exist and the id is probably misspelt."""
        work.groups.warn_of_misspelling(self._services, self.group_id)
        return self.group_id

    async def rebalance(self) -> None:
        """Have all members join again, as if one had come or gone."""
        work.groups.rebalance(self._services, self.group_id)


class AsyncBrokerClock(_Handle):
    """The time of an `AsyncBroker`: the machine's, unless it was moved."""

    async def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._services.core.clock.now_ms()

    async def advance(self, seconds: float | timedelta) -> None:
        """Move on, by seconds (not milliseconds) or a `timedelta`: what falls due on the way happens, in its order.

        Sessions end, transactions and delayed requests time out; chores such as retention are done once, at the end.
        """
        work.time.advance_clock(self._services, seconds)


class AsyncRetention(_Handle):
    """The retention of an `AsyncBroker`, which also runs by itself (`log.retention.check.interval.ms`)."""

    async def run(self) -> int:
        """Delete the segments that retention does not keep any longer, now; returns their number."""
        return work.time.run_retention(self._services)


class AsyncBrokers(_Handle):
    """The brokers of an `AsyncBroker`, by node id."""

    def __len__(self) -> int:
        """The number of brokers, up or down."""
        return len(self._services.core.cluster.nodes)

    def __iter__(self) -> Iterator[int]:
        """Their node ids."""
        return iter(tuple(self._services.core.cluster.nodes))

    def __getitem__(self, node_id: int) -> "AsyncBrokerNode":
        """The broker with this node id. KeyError that names those that exist."""
        if node_id not in self._services.core.cluster.nodes:
            raise KeyError(f"there is no broker {node_id}; brokers: {', '.join(map(str, self))}")
        return AsyncBrokerNode(self._broker, node_id)


class AsyncBrokerNode(_Handle):
    """One broker of an `AsyncBroker`."""

    def __init__(self, broker: "AsyncOperations", node_id: int) -> None:
        super().__init__(broker)
        self._node_id = node_id

    @property
    def node_id(self) -> int:
        """As clients know it."""
        return self._node_id

    @property
    def is_up(self) -> bool:
        """Does it listen?"""
        return self._services.core.cluster.node(self._node_id).is_up

    @property
    def rack(self) -> str | None:
        """Its `broker.rack`."""
        return self._services.core.cluster.node(self._node_id).rack

    async def stop(self) -> None:
        """Stop it: its connections end, and others lead its partitions. A stopped one stays so."""
        self._services.core.writes.commit()
        self._services.core.cluster.stop_node(self._node_id)
        await self._services.core.cluster.settled()

    async def start(self) -> None:
        """Start it again, at the same address. A running one stays so."""
        self._services.core.cluster.start_node(self._node_id)
        await self._services.core.cluster.settled()


class AsyncFaults(_Handle):
    """The faults of an `AsyncBroker`, in the order in which they were added; of several that match the first acts."""

    async def add(self, /, fault: "Fault | None" = None, **fields: Any) -> "Fault":
        """Install a fault, given as such or by its fields. It stays until `remove`, or until it has hit `times`."""
        if fault is None:
            fault = faults_fault.Fault.from_json(fields)
        for reason in work.faults.never_matches(self._services, fault):
            warn_caller(f"{fault} cannot match: {reason}")
        return self._registry().add(fault)

    async def remove(self, fault: "Fault") -> bool:
        """Remove a fault; False if it is not installed."""
        return self._registry().remove(fault)

    async def clear(self) -> None:
        """Remove all faults."""
        self._registry().clear()

    def _registry(self) -> "FaultRegistry":
        return registry.faults_of(self._services)

    async def list(self) -> "tuple[Fault, ...]":
        """The installed faults."""
        registry: FaultRegistry | None = self._services.faults
        return () if registry is None else registry.list()


class AsyncFaultContext:
    """A fault within a `with` block. MinibrokerWarning, with the line that made it, for one that no block installed."""

    _entered = False

    def __init__(self, faults: AsyncFaults, fault: "Fault") -> None:
        self._faults = faults
        self._fault = fault
        self._line = callers_line()

    async def __aenter__(self) -> "Fault":
        """Install it."""
        self._entered = True
        return await self._faults.add(self._fault)

    async def __aexit__(self, *exception: object) -> None:
        """Take it away. MinibrokerWarning, with the line that made it, if the block ends without an error or a hit."""
        await self._faults.remove(self._fault)
        if not self._fault.fired and exception[:1] in {(), (None,)}:
            warning = f"{self._fault} has hit no request in its `with` block"
            warnings.warn_explicit(warning, MinibrokerWarning, *self._line)

    def __enter__(self) -> NoReturn:
        """TypeError: it takes `async with`."""
        self._entered = True
        raise TypeError("a fault of an AsyncBroker takes `async with broker.fault(...):`")

    def __exit__(self, *exception: object) -> None:
        """Never called; Python looks for it before it calls `__enter__`."""

    def __del__(self) -> None:
        """Warn as asyncio does of a coroutine that was never awaited: the test would pass without its fault."""
        if not self._entered:
            warnings.warn_explicit(
                f"{self._fault} was made and never installed: write `with broker.fault(...):` (with an AsyncBroker "
                "`async with`), or `broker.faults.add(...)` to install it until a reset",
                MinibrokerWarning,
                *self._line,
            )
