"""`AsyncBroker`'s methods beside its life: what a program may do to a broker that runs on its event loop.

`blocking` makes the methods for other threads from these. The work is in the modules beside this one, which load when
needed: a method here is a sentence and a call. Objects with methods of their own are in `asynchronous_handles`.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from minibroker.errors import is_the_callers
from minibroker.faults.observed import journal_of
from minibroker.operations.asynchronous_handles import (
    AsyncBrokerClock,
    AsyncBrokers,
    AsyncConsumerGroup,
    AsyncFaultContext,
    AsyncFaults,
    AsyncRetention,
)
from minibroker.services import Services

if TYPE_CHECKING:
    # Names for the type checkers: a start loads none of it.
    from minibroker.inspection.journal import Entry, Journal
    from minibroker.operations.acls import Resource
    from minibroker.operations.expecting import Matching
    from minibroker.operations.producing import Codec, Format, Message, Payload, RecordMetadata
    from minibroker.operations.records import ConsumerRecord, Isolation
    from minibroker.operations.snapshots import Snapshot
    from minibroker.operations.topics import TopicDescription
    from minibroker.security.authorization.acls import AclBinding
    from minibroker.telemetry.clients import TelemetryPush

__tracebackhide__ = is_the_callers


class AsyncOperations:
    """Operations on a running broker. RuntimeError unless it runs, `OperationError` for what is not possible."""

    @property
    def services(self) -> Services:
        """The services that the handlers share. RuntimeError unless the broker runs."""
        raise NotImplementedError

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for a client's configuration; of several brokers all of them, with commas in between."""
        raise NotImplementedError

    def make_topics(self) -> None:
        """Create the topics that the broker was given and that are not there, and fill those that have seeds."""
        raise NotImplementedError

    @property
    def patience(self) -> float:
        """Seconds that methods wait which are given no `timeout`."""
        raise NotImplementedError

    def _patience(self, timeout: float | None) -> float:
        return self.patience if timeout is None else timeout

    # Topics

    async def topics(self) -> "dict[str, TopicDescription]":
        """All topics, by name."""
        from minibroker.operations.topics import describe_topics  # noqa: PLC0415 - see above

        return describe_topics(self.services)

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
            self.services, name, partitions=partitions, replication_factor=replication_factor, configs=configs
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

        delete_topic(self.services, name)

    # Configurations

    async def topic_config(self, name: str) -> dict[str, str | None]:
        """The configuration of a topic, by key, with the broker's defaults."""
        from minibroker.operations.configs import topic_config  # noqa: PLC0415 - see above

        return topic_config(self.services, name)

    async def configure_topic(self, name: str, configs: Mapping[str, str | float | bool | None]) -> None:
        """Alter keys of a topic, which count at once; None gives a key back to the broker."""
        from minibroker.operations.configs import configure_topic  # noqa: PLC0415 - see above

        configure_topic(self.services, name, configs)

    async def configure(self, configs: Mapping[str, str | float | bool | None]) -> None:
        """Alter keys of the broker that Kafka lets change while it runs; None takes one back."""
        from minibroker.operations.configs import configure  # noqa: PLC0415 - see above

        configure(self.services, configs)

    async def telemetry(self) -> "list[TelemetryPush]":
        """The last metrics that clients have sent of themselves (KIP-714)."""
        return self.services.telemetry.pushes()

    async def set_quota(self, entity: Mapping[str, str | None], limits: Mapping[str, float | None]) -> None:
        """Limit what clients may do: `set_quota({"client-id": "slow"}, {"producer_byte_rate": 1024})`.

        An entity is a `user`, a `client-id`, both, or an `ip`; a name of None is the default. A limit of None goes.
        """
        from minibroker.operations.quotas import set_quota  # noqa: PLC0415 - see above

        await set_quota(self.services, entity, limits)

    # Access control

    async def allow(self, principal: str, *operations: str, **resource: "Unpack[Resource]") -> "list[AclBinding]":
        """Permit operations ("read", "all", ...) on a topic, group, transactional id or the cluster; returns the rules.

        `broker.allow("User:alice", "read", topic="orders")`. The broker needs an authorizer.
        """
        from minibroker.operations.acls import make_rules  # noqa: PLC0415 - see above

        return make_rules(self.services, "ALLOW", principal, operations, resource)

    async def deny(self, principal: str, *operations: str, **resource: "Unpack[Resource]") -> "list[AclBinding]":
        """Deny operations, as `allow` permits them; what is denied is not permitted by any other rule."""
        from minibroker.operations.acls import make_rules  # noqa: PLC0415 - see above

        return make_rules(self.services, "DENY", principal, operations, resource)

    async def acls(self) -> "list[AclBinding]":
        """All rules, in the order in which they were made."""
        from minibroker.operations.acls import find_rules  # noqa: PLC0415 - see above

        return find_rules(self.services)

    async def remove_acls(self, acls: "Sequence[AclBinding]") -> None:
        """Forget rules."""
        from minibroker.operations.acls import remove_rules  # noqa: PLC0415 - see above

        remove_rules(self.services, acls)

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
        return produce(self.services, topic, messages, message_format=message_format, codec=codec)

    async def records(
        self, topic: str, *, partition: int | None = None, start: int = 0, isolation: "Isolation" = "read_committed"
    ) -> "list[ConsumerRecord]":
        """The records of a topic as consumers read them, from offset `start` on, partition by partition."""
        from minibroker.operations.records import read_records  # noqa: PLC0415 - see above

        return await read_records(self.services, topic, partition=partition, start=start, isolation=isolation)

    async def wait_for(
        self,
        topic: str,
        count: int = 1,
        *,
        matching: "Matching | None" = None,
        timeout: float | None = None,  # noqa: ASYNC109 - part of what is asked
    ) -> "list[ConsumerRecord]":
        """Wait until a topic has so many committed records, and return all there are.

        `timeout` is in seconds; None, here and elsewhere, for what the broker was given, 10 unless it was told.
        `matching` counts and returns only those that match: a function of a record, or what `record()` gives.
        `WaitTimeoutError` shows what is there instead.
        """
        from minibroker.operations.expecting import wait_for_records  # noqa: PLC0415 - see above

        return await wait_for_records(self.services, topic, count, matching=matching, timeout=self._patience(timeout))

    async def expect(
        self,
        topic: str,
        value: Any = ...,
        *,
        key: Any = ...,
        headers: Mapping[str, Any] | None = None,
        partition: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - part of what is asked
    ) -> "ConsumerRecord":
        """Wait for a record like this and return it; see `record()` for what may be said.

        `WaitTimeoutError` compares with what is there, the nearest record first.
        """
        from minibroker.operations.expecting import wait_for_records  # noqa: PLC0415 - see above
        from minibroker.operations.matching import record  # noqa: PLC0415 - see above

        matcher = record(value, key=key, headers=headers, partition=partition)
        return (await wait_for_records(self.services, topic, matching=matcher, timeout=self._patience(timeout)))[0]

    async def expect_none(
        self,
        topic: str,
        value: Any = ...,
        *,
        key: Any = ...,
        headers: Mapping[str, Any] | None = None,
        partition: int | None = None,
        within: float = 0.0,
    ) -> None:
        """Hold that no committed record like this is in a topic, which need not exist; see `record()`.

        It looks once, and does not wait. With `within` it goes on looking for so many seconds. What a producer has not
        flushed cannot be seen. `UnexpectedRecordError` shows the records; UserWarning for a topic that seems misspelt.
        """
        from minibroker.operations.expecting import expect_no_records  # noqa: PLC0415 - see above
        from minibroker.operations.matching import record  # noqa: PLC0415 - see above

        matcher = record(value, key=key, headers=headers, partition=partition)
        await expect_no_records(self.services, topic, matcher, within)

    # Groups

    async def groups(self) -> list[str]:
        """The ids of all consumer groups."""
        from minibroker.operations.groups import group_ids  # noqa: PLC0415 - see above

        return await group_ids(self.services)

    def group(self, group_id: str) -> AsyncConsumerGroup:
        """A consumer group, whether it is there yet or not."""
        return AsyncConsumerGroup(self, group_id)

    # Time

    @property
    def clock(self) -> AsyncBrokerClock:
        """The broker's time."""
        return AsyncBrokerClock(self)

    @property
    def retention(self) -> AsyncRetention:
        """The retention of old records, to be run when a test wants it."""
        return AsyncRetention(self)

    async def compact(self, topic: str | None = None) -> None:
        """Compact all compacted topics, up to what was produced until now; returns when it is done.

        A `topic` that is named has to be one of them.
        """
        from minibroker.operations.time import compact  # noqa: PLC0415 - see above

        await compact(self.services, topic)

    # Brokers

    @property
    def brokers(self) -> AsyncBrokers:
        """The brokers, by node id."""
        return AsyncBrokers(self)

    async def leader(self, topic: str, partition: int = 0) -> int | None:
        """The node id of a partition's leader; None while it has none."""
        from minibroker.operations.topics import leader_of  # noqa: PLC0415 - see above

        return leader_of(self.services, topic, partition)

    async def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make the broker with the node id `to` a partition's leader; it becomes a replica if it is none."""
        self.services.core.writes.commit()
        self.services.core.cluster.move_leader(topic, partition, to)

    # Requests

    @property
    def requests(self) -> "Journal":
        """The newest requests of clients and their responses, oldest first.

        For a broker that keeps a journal (`Broker(journal=True)`); another one has none, which is a RuntimeError.
        """
        journal = journal_of(self.services)
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
        timeout: float | None = None,  # noqa: ASYNC109 - part of what is asked
    ) -> "list[Entry]":
        """Wait for so many requests that fit all that is given, and return all there are; see `Journal.entries`.

        `WaitTimeoutError` says what there was instead.
        """
        from minibroker.operations.requests import wait_for_requests  # noqa: PLC0415 - see above

        filters = {"api": api, "client_id": client_id, "topic": topic, "group": group, "error": error}
        return await wait_for_requests(self.requests, count, filters, self._patience(timeout))

    # Faults

    @property
    def faults(self) -> AsyncFaults:
        """The faults that are installed."""
        return AsyncFaults(self)

    def fault(self, **fields: Any) -> AsyncFaultContext:
        """Have something go wrong within a `with` block, which gives the fault: its `fired` says how often.

        For the fields see docs/faults.md. FaultError names one that cannot be.
        """
        from minibroker.faults.fault import Fault  # noqa: PLC0415 - see above

        return AsyncFaultContext(self.faults, Fault.from_json(fields))

    # Beginning anew

    async def reset(self, *, keep_topics: bool = False) -> None:
        """Forget all records, groups, transactions and faults; all brokers are up, and time is the machine's.

        Topics go, too; those given to the broker at its start are made anew, with new ids. With `keep_topics` they
        stay, and their offsets go on where they were: a reader with a checkpoint, such as a Spark query, misses
        nothing. Connections stay. Without it a consumer that stays commits its offsets of before, and may miss what is
        new; a transactional producer has to be made anew after either.
        """
        from minibroker.operations.reset import reset  # noqa: PLC0415 - see above

        reset(self.services, self.make_topics, keep_topics=keep_topics)
        await self.services.core.cluster.settled()

    async def snapshot(self, directory: "str | os.PathLike[str] | None" = None) -> "Snapshot":
        """Copy all topics, records, groups and transactions into a new directory; None for a temporary one."""
        from minibroker.operations.snapshots import take_snapshot  # noqa: PLC0415 - see above

        return take_snapshot(self.services, directory)

    async def restore(self, snapshot: "Snapshot | str | os.PathLike[str]") -> None:
        """Bring back what a snapshot, or the directory of one, holds, in the place of all there is."""
        from minibroker.operations.snapshots import restore_snapshot  # noqa: PLC0415 - see above

        restore_snapshot(self.services, snapshot)
        await self.services.core.cluster.settled()
