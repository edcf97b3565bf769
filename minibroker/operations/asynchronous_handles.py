"""Objects returned by `AsyncBroker` for its groups, schemas, clock, brokers and faults.

`blocking` derives the objects for other threads from these. The sibling modules do the work and are loaded when needed.
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from minibroker.cluster.errors import MinibrokerWarning, callers_line, is_the_callers, warn_caller
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.operations import catching_up, faults, groups, schemas, share_groups, time, waiting
    from minibroker.server.faults import fault as faults_fault
    from minibroker.server.faults import registry
    from minibroker_registry import records as registry_records
    from minibroker_registry import registry as schema_registry

if TYPE_CHECKING:
    # Imported for type checking only, to keep start-up fast.
    from minibroker.operations.asynchronous import AsyncOperations
    from minibroker.operations.groups import GroupDescription
    from minibroker.operations.schemas import SchemaVersion
    from minibroker.operations.share_groups import SharePartitionDescription
    from minibroker.server.faults.fault import Fault
    from minibroker.server.faults.registry import FaultRegistry
    from minibroker.server.services import Services
    from minibroker_storage.data_directory.names import TopicPartition

__tracebackhide__ = is_the_callers


class Handle:
    """Base class of the objects of an `AsyncBroker` that have their own methods."""

    def __init__(self, broker: "AsyncOperations") -> None:
        self._broker = broker

    @property
    def _services(self) -> "Services":
        return self._broker.services


class AsyncConsumerGroup(Handle):
    """A consumer group or share group of an `AsyncBroker`."""

    def __init__(self, broker: "AsyncOperations", group_id: str) -> None:
        super().__init__(broker)
        if not isinstance(group_id, str):  # pyright: ignore[reportUnnecessaryIsInstance] - not all callers have types
            raise TypeError(f"group: {group_id!r} is not a text such as 'billing'")
        self.group_id = group_id

    async def describe(self) -> "GroupDescription":
        """Return the group's state, generation and members. An unknown group is Dead."""
        await groups.wait_for_group(self._services, self.group_id)
        return groups.describe_group(self._services, self.group_id)

    async def wait_until_stable(
        self,
        members: int | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - part of the API
    ) -> "GroupDescription":
        """Wait until every member has its assignment and every partition of the subscribed topics has a member.

        Args:
            members: the number of members to wait for.
            timeout: in seconds. None means the broker's `timeout`.

        Raises:
            WaitTimeoutError: the message shows the current state of the group.
        """
        patience = self._broker.patience if timeout is None else timeout
        return await groups.wait_until_stable(self._services, self.group_id, members=members, timeout=patience)

    async def wait_until_caught_up(
        self,
        topic: str | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - part of the API
    ) -> "dict[TopicPartition, int]":
        """Wait until the group has read and committed all records, and return its committed offsets.

        Records of open and aborted transactions do not count. A share group must have finished all records, and its
        start offsets are returned.

        Args:
            topic: the topic to wait for. By default, wait for all partitions that have a committed offset or are
                assigned.
            timeout: in seconds. None means the broker's `timeout`.

        Raises:
            WaitTimeoutError: the message names the partitions with a lag.
        """
        patience = self._broker.patience if timeout is None else timeout
        return await catching_up.wait_until_caught_up(self._services, self.group_id, topic, patience)

    async def committed(self) -> "dict[TopicPartition, int]":
        """Return the committed offsets, or the start offsets of a share group, by (topic, partition)."""
        await groups.wait_for_group(self._services, self.group_id)
        return groups.committed_offsets(self._services, self._checked_id())

    async def lag(self) -> "dict[TopicPartition, int]":
        """Return the group's lag in each partition, in offsets, by (topic, partition).

        For a group that does not exist, the result is empty and a MinibrokerWarning is issued.
        """
        await groups.wait_for_group(self._services, self.group_id)
        if groups.find_group(self._services, self.group_id) is None:
            warn_caller(groups.missing_group_message(self._services, self.group_id))
        return await waiting.run_in_slices(self._services, groups.group_lag(self._services, self.group_id))

    async def share_partitions(self) -> "dict[TopicPartition, SharePartitionDescription]":
        """Return a share group's partitions with their records in flight: offsets, states, delivery counts and members.

        Raises:
            ConflictError: the group is of another type.
        """
        await groups.wait_for_group(self._services, self.group_id)
        return await share_groups.share_partitions(self._services, self._checked_id())

    def _checked_id(self) -> str:
        """Return the group's id. Issue a MinibrokerWarning if the group does not exist and the id seems misspelled."""
        groups.warn_of_misspelling(self._services, self.group_id)
        return self.group_id

    async def rebalance(self) -> None:
        """Make all members rejoin, as if a member had joined or left."""
        groups.rebalance(self._services, self.group_id)


class AsyncSchemas(Handle):
    """The schema registry of an `AsyncBroker`, with or without an HTTP server (`Broker(registry=True)`)."""

    async def register(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        kind: str = "AVRO",
        *,
        references: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        """Register a schema under a subject, and return its id. The id is global, and stays if the schema exists.

        Args:
            subject: the subject, such as "orders-value".
            schema: the text, or JSON as Python values.
            kind: "AVRO", "JSON" or "PROTOBUF".
            references: the schemas that it refers to, each as `{"name": ..., "subject": ..., "version": ...}`. Without
                a version it is the latest.

        Raises:
            ConflictError: the schema is incompatible with an earlier one; the message says why.
            OperationError: the schema is invalid.
        """
        text = schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)
        pinned = registry_records.read_references({"version": schema_registry.LATEST, **each} for each in references)
        new = schema_registry.NewSchema(registry_records.Content(kind.upper(), text, pinned))
        return await schemas.run_on_registry(
            self._services, lambda registry: registry.register(subject, new, normalize=False).id
        )

    async def subjects(self) -> list[str]:
        """Return all subjects, sorted."""
        return await schemas.run_on_registry(
            self._services, lambda registry: registry.state.subjects("", with_deleted=False)
        )

    async def latest(self, subject: str) -> "SchemaVersion":
        """Return the latest version of a subject.

        Raises:
            NotFoundError: there is no such subject.
        """
        return await schemas.run_on_registry(self._services, lambda registry: schemas.latest(registry, subject))

    async def delete(self, subject: str) -> None:
        """Delete all versions of a subject. Records that have their ids can still be decoded.

        Raises:
            NotFoundError: there is no such subject.
        """
        await schemas.run_on_registry(
            self._services, lambda registry: registry.delete_subject(subject, permanent=False)
        )

    async def compatibility(self, subject: str, level: str) -> None:
        """Set the compatibility level of a subject, such as "FULL_TRANSITIVE" or "NONE". An empty subject means all.

        Raises:
            OperationError: there is no such level.
        """
        await schemas.run_on_registry(self._services, lambda registry: schemas.set_level(registry, subject, level))


class AsyncBrokerClock(Handle):
    """The clock of an `AsyncBroker`, which shows the machine's time unless it was advanced."""

    async def now_ms(self) -> int:
        """Return the broker's time in milliseconds since the epoch."""
        return self._services.core.clock.now_ms()

    async def advance(self, seconds: float | timedelta) -> None:
        """Advance the clock by seconds (not milliseconds) or a `timedelta`, and run all timers that fall due, in order.

        Sessions, transactions and delayed requests time out. Periodic tasks such as retention run once, at the end.
        """
        time.advance_clock(self._services, seconds)


class AsyncRetention(Handle):
    """The retention of an `AsyncBroker`, which also runs periodically (`log.retention.check.interval.ms`)."""

    async def run(self) -> int:
        """Delete all segments that are past their retention now, and return the number of deleted segments."""
        return time.run_retention(self._services)


class AsyncBrokers(Handle):
    """The brokers of an `AsyncBroker` by node id."""

    def __len__(self) -> int:
        """Return the number of brokers, whether up or down."""
        return len(self._services.core.cluster.nodes)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the node ids."""
        return iter(tuple(self._services.core.cluster.nodes))

    def __getitem__(self, node_id: int) -> "AsyncBrokerNode":
        """Return the broker with this node id.

        Raises:
            KeyError: there is no such broker; the message names the existing ones.
        """
        if node_id not in self._services.core.cluster.nodes:
            raise KeyError(f"there is no broker {node_id}; ids of brokers: {', '.join(map(str, self))}")
        return AsyncBrokerNode(self._broker, node_id)


class AsyncBrokerNode(Handle):
    """One broker of an `AsyncBroker`."""

    def __init__(self, broker: "AsyncOperations", node_id: int) -> None:
        super().__init__(broker)
        self._node_id = node_id

    @property
    def node_id(self) -> int:
        """The node id, as known to clients."""
        return self._node_id

    @property
    def is_up(self) -> bool:
        """Whether the broker is running and listening."""
        return self._services.core.cluster.node(self._node_id).is_up

    @property
    def rack(self) -> str | None:
        """The broker's `broker.rack`."""
        return self._services.core.cluster.node(self._node_id).rack

    async def stop(self) -> None:
        """Stop the broker. No effect if it is stopped.

        Its connections close, and other brokers lead its partitions.
        """
        self._services.core.writes.commit()
        self._services.core.cluster.stop_node(self._node_id)
        await self._services.core.cluster.wait_until_settled()

    async def start(self) -> None:
        """Start the broker again at the same address. No effect if it is running."""
        self._services.core.cluster.start_node(self._node_id)
        await self._services.core.cluster.wait_until_settled()


class AsyncFaults(Handle):
    """The faults of an `AsyncBroker`, in the order in which they were added.

    If several faults match a request, the first one applies.
    """

    async def add(self, /, fault: "Fault | None" = None, **fields: Any) -> "Fault":
        """Install a fault, given as an object or by its fields.

        It stays installed until `remove` is called, or until it has fired `times` times.

        Raises:
            FaultError: A field is invalid.
            TypeError: The fault is another object.
        """
        if fault is None:
            fault = faults_fault.Fault.from_json(fields)
        elif not isinstance(fault, faults_fault.Fault):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped calls
            raise TypeError(f"faults.add: {fault!r} is not a Fault; write add(api='Produce', delay_ms=100)")
        for reason in faults.reasons_never_to_match(self._services, fault):
            warn_caller(f"{fault} cannot match: {reason}")
        return self._registry().add(fault)

    async def remove(self, fault: "Fault") -> bool:
        """Remove a fault. Return False if it was not installed."""
        return self._registry().remove(fault)

    async def clear(self) -> None:
        """Remove all faults."""
        self._registry().clear()

    def _registry(self) -> "FaultRegistry":
        return registry.faults_of(self._services)

    async def list(self) -> "tuple[Fault, ...]":
        """Return the installed faults."""
        registry: FaultRegistry | None = self._services.faults
        return () if registry is None else registry.list()


class AsyncFaultContext:
    """A fault for a `with` block. If no block ever installs it, a MinibrokerWarning names the line that created it."""

    _entered = False

    def __init__(self, faults: AsyncFaults, fault: "Fault") -> None:
        self._faults = faults
        self._fault = fault
        self._line = callers_line()

    async def __aenter__(self) -> "Fault":
        """Install the fault."""
        self._entered = True
        return await self._faults.add(self._fault)

    async def __aexit__(self, *exception: object) -> None:
        """Remove the fault.

        If the block ends without an error and the fault never fired, issue a MinibrokerWarning that names the line
        that created the fault.
        """
        await self._faults.remove(self._fault)
        if not self._fault.fired and exception[:1] in {(), (None,)}:
            warning = f"{self._fault} has hit no request in its `with` block"
            warnings.warn_explicit(warning, MinibrokerWarning, *self._line)

    def __enter__(self) -> NoReturn:
        """Raise TypeError, because faults of an `AsyncBroker` need `async with`."""
        self._entered = True
        raise TypeError("a fault of an AsyncBroker takes `async with broker.fault(...):`")

    def __exit__(self, *exception: object) -> None:
        """Do nothing. Python looks this method up before it calls `__enter__`, but never calls it."""

    def __del__(self) -> None:
        """Warn about a fault that was never installed, as asyncio does about a coroutine that was never awaited.

        Otherwise the test would pass without its fault.
        """
        if not self._entered:
            warnings.warn_explicit(
                f"{self._fault} was made and never installed: write `with broker.fault(...):` (with an AsyncBroker "
                "`async with`), or `broker.faults.add(...)` to install it until a reset",
                MinibrokerWarning,
                *self._line,
            )
