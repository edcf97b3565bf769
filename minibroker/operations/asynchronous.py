"""`AsyncBroker`'s methods beside its life: what a program may do to a broker that runs on its event loop.

`blocking` has the same for other threads. What they do is in the modules beside this one, which load when needed. It is
one file, however long, because it is one face: a method here is a sentence and a call.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from minibroker.operations.errors import is_the_callers
from minibroker.state import BrokerState

if TYPE_CHECKING:
    # Names for the type checkers: a start loads none of it.
    from minibroker.faults.fault import Fault
    from minibroker.inspection.journal import Entry, Journal
    from minibroker.metadata.topics import TopicPartition
    from minibroker.operations.acls import Resource
    from minibroker.operations.expecting import Matching
    from minibroker.operations.groups import GroupDescription
    from minibroker.operations.producing import Codec, Format, Message, Payload, RecordMetadata
    from minibroker.operations.records import ConsumerRecord, Isolation
    from minibroker.operations.snapshots import Snapshot
    from minibroker.operations.topics import TopicDescription
    from minibroker.security.authorization.acls import AclBinding
    from minibroker.telemetry.clients import TelemetryPush

__tracebackhide__ = is_the_callers

PATIENCE = 10.0
"""Seconds."""


class AsyncOperations:
    """What can be asked of a running broker. RuntimeError unless it runs, `OperationError` for what cannot be done."""

    @property
    def state(self) -> BrokerState:
        """What its handlers share. RuntimeError unless it runs."""
        raise NotImplementedError

    def make_topics(self) -> None:
        """Create the topics that the broker was given and that are not there, and fill those that have seeds."""
        raise NotImplementedError

    # Topics

    async def topics(self) -> "dict[str, TopicDescription]":
        """All topics, by name."""
        from minibroker.operations.topics import describe_topics  # noqa: PLC0415 - see above

        return describe_topics(self.state)

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str | float | bool] | None = None,
    ) -> "TopicDescription":
        """Create a topic; without a number it has the broker's default.

        A broker that is alone takes any replication factor and makes it 1, several take no more than they are.
        """
        from minibroker.operations.topics import create_topic  # noqa: PLC0415 - see above

        return create_topic(
            self.state, name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )

    async def fresh_topic(
        self,
        prefix: str = "topic",
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str | float | bool] | None = None,
    ) -> str:
        """Create a topic that nobody has heard of; returns its name, `prefix` and some random digits."""
        name = f"{prefix}-{os.urandom(4).hex()}"
        await self.create_topic(name, partitions, replication_factor=replication_factor, configs=configs)
        return name

    async def delete_topic(self, name: str) -> None:
        """Delete a topic, and what groups have committed for it."""
        from minibroker.operations.topics import delete_topic  # noqa: PLC0415 - see above

        delete_topic(self.state, name)

    # Configurations

    async def topic_config(self, name: str) -> dict[str, str | None]:
        """What a topic is configured with, by key, also where it is the broker's default."""
        from minibroker.operations.configs import topic_config  # noqa: PLC0415 - see above

        return topic_config(self.state, name)

    async def configure_topic(self, name: str, configs: Mapping[str, str | float | bool | None]) -> None:
        """Alter keys of a topic, which count at once; None gives a key back to the broker."""
        from minibroker.operations.configs import configure_topic  # noqa: PLC0415 - see above

        configure_topic(self.state, name, configs)

    async def configure(self, configs: Mapping[str, str | float | bool | None]) -> None:
        """Alter keys of the broker that Kafka lets change while it runs; None takes one back."""
        from minibroker.operations.configs import configure  # noqa: PLC0415 - see above

        configure(self.state, configs)

    async def telemetry(self) -> "list[TelemetryPush]":
        """The last metrics that clients have sent of themselves (KIP-714)."""
        return self.state.telemetry.pushes()

    async def set_quota(self, entity: Mapping[str, str | None], limits: Mapping[str, float | None]) -> None:
        """Limit what clients may do: `set_quota({"client-id": "slow"}, {"producer_byte_rate": 1024})`.

        An entity is a `user`, a `client-id`, both, or an `ip`; a name of None is the default. A limit of None goes.
        """
        from minibroker.operations.quotas import set_quota  # noqa: PLC0415 - see above

        set_quota(self.state, entity, limits)

    # Access control

    async def allow(self, principal: str, *operations: str, **resource: "Unpack[Resource]") -> "list[AclBinding]":
        """Permit operations ("read", "all", ...) on a topic, group, transactional id or the cluster; returns the rules.

        `broker.allow("User:alice", "read", topic="orders")`. The broker needs an authorizer.
        """
        from minibroker.operations.acls import make_rules  # noqa: PLC0415 - see above

        return make_rules(self.state, "ALLOW", principal, operations, resource)

    async def deny(self, principal: str, *operations: str, **resource: "Unpack[Resource]") -> "list[AclBinding]":
        """Deny operations, as `allow` permits them; what is denied is not permitted by any other rule."""
        from minibroker.operations.acls import make_rules  # noqa: PLC0415 - see above

        return make_rules(self.state, "DENY", principal, operations, resource)

    async def acls(self) -> "list[AclBinding]":
        """All rules, in the order in which they were made."""
        from minibroker.operations.acls import find_rules  # noqa: PLC0415 - see above

        return find_rules(self.state)

    async def remove_acls(self, acls: "Sequence[AclBinding]") -> None:
        """Forget rules."""
        from minibroker.operations.acls import remove_rules  # noqa: PLC0415 - see above

        remove_rules(self.state, acls)

    # Records

    async def produce(
        self,
        topic: str,
        *values: "Payload | Message",
        key: "Payload" = None,
        headers: "Mapping[str, Payload] | Sequence[tuple[str, Payload]]" = (),
        timestamp: int | None = None,
        partition: int | None = None,
        message_format: "Format" = "v2",
        codec: "Codec" = "none",
    ) -> "list[RecordMetadata]":
        """Append records without a client; returns where each of them is.

        Bytes are stored as they are, text as UTF-8, None is a tombstone, all else is stored as JSON. What is said by
        name is for all `values`; a `Message` among them speaks for itself. `message_format` may be "v0" or "v1", as
        brokers stored records before 0.10 and 0.11.
        """
        from minibroker.operations.producing import Message, produce  # noqa: PLC0415 - see above

        messages = [
            value if isinstance(value, Message) else Message(value, key, headers, timestamp, partition)
            for value in values
        ]
        return produce(self.state, topic, messages, message_format=message_format, codec=codec)

    async def records(
        self, topic: str, *, partition: int | None = None, start: int = 0, isolation: "Isolation" = "read_committed"
    ) -> "list[ConsumerRecord]":
        """What consumers can read in a topic, from offset `start` on, partition by partition."""
        from minibroker.operations.records import read_records  # noqa: PLC0415 - see above

        return await read_records(self.state, topic, partition=partition, start=start, isolation=isolation)

    async def wait_for(
        self,
        topic: str,
        count: int = 1,
        *,
        matching: "Matching | None" = None,
        timeout: float = PATIENCE,  # noqa: ASYNC109 - part of what is asked
    ) -> "list[ConsumerRecord]":
        """Wait until a topic has so many committed records, and return all there are.

        `matching` counts and returns only those that match: a function of a record, or what `record()` gives.
        `WaitTimeoutError` shows what is there instead.
        """
        from minibroker.operations.expecting import wait_for_records  # noqa: PLC0415 - see above

        return await wait_for_records(self.state, topic, count, matching=matching, timeout=timeout)

    async def expect(
        self,
        topic: str,
        value: Any = ...,
        *,
        key: Any = ...,
        headers: Mapping[str, Any] | None = None,
        partition: int | None = None,
        timeout: float = PATIENCE,  # noqa: ASYNC109 - part of what is asked
    ) -> "ConsumerRecord":
        """Wait for a record like this and return it; see `record()` for what may be said.

        `WaitTimeoutError` compares with what is there, the nearest record first.
        """
        from minibroker.operations.expecting import wait_for_records  # noqa: PLC0415 - see above
        from minibroker.operations.matching import record  # noqa: PLC0415 - see above

        matcher = record(value, key=key, headers=headers, partition=partition)
        return (await wait_for_records(self.state, topic, matching=matcher, timeout=timeout))[0]

    # Groups

    async def groups(self) -> list[str]:
        """The ids of all consumer groups."""
        from minibroker.operations.groups import group_ids  # noqa: PLC0415 - see above

        return await group_ids(self.state)

    def group(self, group_id: str) -> "AsyncConsumerGroup":
        """A consumer group, whether it is there yet or not."""
        return AsyncConsumerGroup(self, group_id)

    # Time

    @property
    def clock(self) -> "AsyncBrokerClock":
        """The broker's time."""
        return AsyncBrokerClock(self)

    @property
    def retention(self) -> "AsyncRetention":
        """What deletes old records."""
        return AsyncRetention(self)

    async def compact(self, topic: str | None = None) -> None:
        """Compact all compacted topics, up to what was produced until now; returns when it is done.

        A `topic` that is named has to be one of them.
        """
        from minibroker.operations.time import compact  # noqa: PLC0415 - see above

        await compact(self.state, topic)

    # Brokers

    @property
    def brokers(self) -> "AsyncBrokers":
        """The brokers, by node id."""
        return AsyncBrokers(self)

    async def leader(self, topic: str, partition: int = 0) -> int | None:
        """The node id of a partition's leader; None while it has none."""
        from minibroker.operations.cluster import leader_of  # noqa: PLC0415 - see above

        return leader_of(self.state, topic, partition)

    async def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make the broker with the node id `to` a partition's leader; it becomes a replica if it is none."""
        self.state.writes.commit()
        self.state.cluster.move_leader(topic, partition, to)

    # Requests

    @property
    def requests(self) -> "Journal":
        """What clients have asked and were told, the newest requests of them, oldest first.

        For a broker that keeps a journal (`Broker(journal=True)`); another one has none, which is a RuntimeError.
        """
        journal = self.state.journal
        if journal is None:
            raise RuntimeError("the broker keeps no journal of requests; Broker(journal=True) does")
        return journal

    async def wait_for_requests(
        self,
        count: int = 1,
        *,
        api: str | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        error: str | int | None = None,
        timeout: float = PATIENCE,  # noqa: ASYNC109 - part of what is asked
    ) -> "list[Entry]":
        """Wait for so many requests that fit all that is given, and return all there are; see `Journal.entries`.

        `WaitTimeoutError` says what there was instead.
        """
        from minibroker.operations.requests import wait_for_requests  # noqa: PLC0415 - see above

        wanted = {"api": api, "client_id": client_id, "topic": topic, "group": group, "error": error}
        return await wait_for_requests(self.requests, count, wanted, timeout)

    # Faults

    @property
    def faults(self) -> "AsyncFaults":
        """The faults that are installed."""
        return AsyncFaults(self)

    def fault(self, **fields: Any) -> "AsyncFaultContext":
        """Have something go wrong within a `with` block, which gives the fault: its `fired` says how often.

        For the fields see docs/faults.md. FaultError names one that cannot be.
        """
        from minibroker.faults.fault import Fault  # noqa: PLC0415 - see above

        return AsyncFaultContext(self, Fault.from_json(fields))

    # Beginning anew

    async def reset(self, *, keep_topics: bool = False) -> None:
        """Forget all records, groups, transactions and faults; all brokers are up, and time is the machine's.

        Topics go, too; those given to the broker at its start are made anew, with new ids. With `keep_topics` they
        stay, and their offsets go on where they were: a reader with a checkpoint, such as a Spark query, misses
        nothing. Connections stay. Without it a consumer that stays commits its offsets of before, and may miss what is
        new; a transactional producer has to be made anew after either.
        """
        from minibroker.operations.reset import reset  # noqa: PLC0415 - see above

        reset(self.state, self.make_topics, keep_topics=keep_topics)
        await self.state.cluster.settled()

    async def snapshot(self, directory: str | None = None) -> "Snapshot":
        """Copy all topics, records, groups and transactions into a new directory; None for a temporary one."""
        from minibroker.operations.snapshots import take_snapshot  # noqa: PLC0415 - see above

        return take_snapshot(self.state, directory)

    async def restore(self, snapshot: "Snapshot | str") -> None:
        """Bring back what a snapshot, or the directory of one, holds, in the place of all there is."""
        from minibroker.operations.snapshots import restore_snapshot  # noqa: PLC0415 - see above

        restore_snapshot(self.state, snapshot)
        await self.state.cluster.settled()


class AsyncConsumerGroup:
    """A consumer group of an `AsyncBroker`."""

    def __init__(self, broker: AsyncOperations, group_id: str) -> None:
        self._broker = broker
        self.group_id = group_id

    async def describe(self) -> "GroupDescription":
        """State, generation and members; a group that nobody knows is Dead."""
        from minibroker.operations.groups import describe_group, group_loaded  # noqa: PLC0415 - see above

        await group_loaded(self._broker.state, self.group_id)
        return describe_group(self._broker.state, self.group_id)

    async def wait_until_stable(
        self,
        members: int | None = None,
        *,
        timeout: float = PATIENCE,  # noqa: ASYNC109 - part of what is asked
    ) -> "GroupDescription":
        """Wait until every member has its assignment, and somebody has each partition that they subscribe to.

        With `members` so many of them. `WaitTimeoutError` tells where the group stands instead.
        """
        from minibroker.operations.groups import wait_until_stable  # noqa: PLC0415 - see above

        return await wait_until_stable(self._broker.state, self.group_id, members=members, timeout=timeout)

    async def committed(self) -> "dict[TopicPartition, int]":
        """Committed offsets, by (topic, partition)."""
        from minibroker.operations.groups import committed_offsets, group_loaded  # noqa: PLC0415 - see above

        await group_loaded(self._broker.state, self.group_id)
        return committed_offsets(self._broker.state, self.group_id)

    async def lag(self) -> "dict[TopicPartition, int]":
        """How many offsets the group is behind, by (topic, partition)."""
        from minibroker.operations.groups import group_lag, group_loaded  # noqa: PLC0415 - see above

        await group_loaded(self._broker.state, self.group_id)
        return group_lag(self._broker.state, self.group_id)

    async def rebalance(self) -> None:
        """Have all members join again, as if one had come or gone."""
        from minibroker.operations.groups import rebalance  # noqa: PLC0415 - see above

        rebalance(self._broker.state, self.group_id)


class AsyncBrokerClock:
    """The time of an `AsyncBroker`: the machine's, unless it was moved."""

    def __init__(self, broker: AsyncOperations) -> None:
        self._broker = broker

    async def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._broker.state.clock.now_ms()

    async def advance(self, by: float | timedelta) -> None:
        """Move on, by seconds or a `timedelta`: what falls due on the way happens, in its order.

        Sessions end, transactions and parked requests time out; chores such as retention are done once, at the end.
        """
        from minibroker.operations.time import advance_clock  # noqa: PLC0415 - see above

        advance_clock(self._broker.state, by)


class AsyncRetention:
    """The retention of an `AsyncBroker`, which also runs by itself (`log.retention.check.interval.ms`)."""

    def __init__(self, broker: AsyncOperations) -> None:
        self._broker = broker

    async def run(self) -> int:
        """Delete what is not to be kept any longer, now; returns how many segments went."""
        from minibroker.operations.time import run_retention  # noqa: PLC0415 - see above

        return run_retention(self._broker.state)


class AsyncBrokers:
    """The brokers of an `AsyncBroker`, by node id."""

    def __init__(self, broker: AsyncOperations) -> None:
        self._broker = broker

    def __len__(self) -> int:
        """How many there are, up or down."""
        return len(self._broker.state.cluster.nodes)

    def __iter__(self) -> Iterator[int]:
        """Their node ids."""
        return iter(tuple(self._broker.state.cluster.nodes))

    def __getitem__(self, node_id: int) -> "AsyncBrokerNode":
        """The broker with this node id. KeyError."""
        if node_id not in self._broker.state.cluster.nodes:
            raise KeyError(node_id)
        return AsyncBrokerNode(self._broker, node_id)


class AsyncBrokerNode:
    """One broker of an `AsyncBroker`."""

    def __init__(self, broker: AsyncOperations, node_id: int) -> None:
        self._broker = broker
        self._node_id = node_id

    @property
    def node_id(self) -> int:
        """As clients know it."""
        return self._node_id

    @property
    def is_up(self) -> bool:
        """Does it listen?"""
        return self._broker.state.cluster.node(self._node_id).is_up

    async def stop(self) -> None:
        """Take it down: its connections end, others lead what it has led. One that is down stays so."""
        self._broker.state.writes.commit()
        self._broker.state.cluster.stop_node(self._node_id)
        await self._broker.state.cluster.settled()

    async def start(self) -> None:
        """Bring it up again, at the same address. One that is up stays so."""
        self._broker.state.cluster.start_node(self._node_id)
        await self._broker.state.cluster.settled()


class AsyncFaults:
    """The faults of an `AsyncBroker`, in the order in which they were added; of several that match the first acts."""

    def __init__(self, broker: AsyncOperations) -> None:
        self._broker = broker

    async def add(self, fault: "Fault | None" = None, **fields: Any) -> "Fault":
        """Install a fault, given as such or by its fields. It stays until `remove`, or until it has hit `times`."""
        from minibroker.faults.fault import Fault  # noqa: PLC0415 - see above
        from minibroker.inspection.taps import faults_of  # noqa: PLC0415 - see above

        return faults_of(self._broker.state).add(Fault.from_json(fields) if fault is None else fault)

    async def remove(self, fault: "Fault") -> bool:
        """Take a fault away; False when it is not installed."""
        from minibroker.inspection.taps import faults_of  # noqa: PLC0415 - see above

        return faults_of(self._broker.state).remove(fault)

    async def clear(self) -> None:
        """Take all faults away."""
        from minibroker.inspection.taps import faults_of  # noqa: PLC0415 - see above

        faults_of(self._broker.state).clear()

    async def list(self) -> "tuple[Fault, ...]":
        """Those that are installed."""
        registry = self._broker.state.faults
        return () if registry is None else registry.list()


class AsyncFaultContext:
    """A fault within a `with` block."""

    def __init__(self, broker: AsyncOperations, fault: "Fault") -> None:
        self._broker = broker
        self._fault = fault

    async def __aenter__(self) -> "Fault":
        """Install it."""
        return await self._broker.faults.add(self._fault)

    async def __aexit__(self, *exception: object) -> None:
        """Take it away."""
        await self._broker.faults.remove(self._fault)
