"""`Broker`'s methods beside its life, for other threads than its own: those of `asynchronous`.

Written by `python -m minibroker.operations.twin`.
"""

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from minibroker.operations import asynchronous
from minibroker.operations.blocking_handles import BrokerClock, Brokers, ConsumerGroup, FaultContext, Faults, Retention
from minibroker.operations.errors import is_the_callers
from minibroker.services import Services

if TYPE_CHECKING:
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

T = TypeVar("T")


class BlockingOperations:
    """What can be asked of a running broker. RuntimeError unless it runs, `OperationError` for what cannot be done."""

    @property
    def twin(self) -> asynchronous.AsyncOperations:
        """The broker on its own loop."""
        raise NotImplementedError

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done on the broker's thread, and wait for it. RuntimeError unless it runs."""
        raise NotImplementedError

    @property
    def services(self) -> Services:
        """What its handlers share, for those who look behind the door: it belongs to the broker's thread."""
        return self.twin.services

    def topics(self) -> "dict[str, TopicDescription]":
        """All topics, by name."""
        return self.wait(self.twin.topics())

    def create_topic(
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
        return self.wait(
            self.twin.create_topic(name, partitions, replication_factor=replication_factor, configs=configs)
        )

    def fresh_topic(
        self,
        prefix: str = "topic",
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str | float | bool] | None = None,
    ) -> str:
        """Create a topic that nobody has heard of; returns its name, `prefix` and some random digits."""
        return self.wait(
            self.twin.fresh_topic(prefix, partitions, replication_factor=replication_factor, configs=configs)
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and what groups have committed for it."""
        self.wait(self.twin.delete_topic(name))

    def topic_config(self, name: str) -> dict[str, str | None]:
        """What a topic is configured with, by key, also where it is the broker's default."""
        return self.wait(self.twin.topic_config(name))

    def configure_topic(self, name: str, configs: Mapping[str, str | float | bool | None]) -> None:
        """Alter keys of a topic, which count at once; None gives a key back to the broker."""
        self.wait(self.twin.configure_topic(name, configs))

    def configure(self, configs: Mapping[str, str | float | bool | None]) -> None:
        """Alter keys of the broker that Kafka lets change while it runs; None takes one back."""
        self.wait(self.twin.configure(configs))

    def telemetry(self) -> "list[TelemetryPush]":
        """The last metrics that clients have sent of themselves (KIP-714)."""
        return self.wait(self.twin.telemetry())

    def set_quota(self, entity: Mapping[str, str | None], limits: Mapping[str, float | None]) -> None:
        """Limit what clients may do: `set_quota({"client-id": "slow"}, {"producer_byte_rate": 1024})`.

        An entity is a `user`, a `client-id`, both, or an `ip`; a name of None is the default. A limit of None goes.
        """
        self.wait(self.twin.set_quota(entity, limits))

    def allow(self, principal: str, *operations: str, **resource: "Unpack[Resource]") -> "list[AclBinding]":
        """Permit operations ("read", "all", ...) on a topic, group, transactional id or the cluster; returns the rules.

        `broker.allow("User:alice", "read", topic="orders")`. The broker needs an authorizer.
        """
        return self.wait(self.twin.allow(principal, *operations, **resource))

    def deny(self, principal: str, *operations: str, **resource: "Unpack[Resource]") -> "list[AclBinding]":
        """Deny operations, as `allow` permits them; what is denied is not permitted by any other rule."""
        return self.wait(self.twin.deny(principal, *operations, **resource))

    def acls(self) -> "list[AclBinding]":
        """All rules, in the order in which they were made."""
        return self.wait(self.twin.acls())

    def remove_acls(self, acls: "Sequence[AclBinding]") -> None:
        """Forget rules."""
        self.wait(self.twin.remove_acls(acls))

    def produce(
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
        return self.wait(
            self.twin.produce(
                topic,
                *values,
                key=key,
                headers=headers,
                timestamp=timestamp,
                partition=partition,
                message_format=message_format,
                codec=codec,
            )
        )

    def records(
        self, topic: str, *, partition: int | None = None, start: int = 0, isolation: "Isolation" = "read_committed"
    ) -> "list[ConsumerRecord]":
        """What consumers can read in a topic, from offset `start` on, partition by partition."""
        return self.wait(self.twin.records(topic, partition=partition, start=start, isolation=isolation))

    def wait_for(
        self, topic: str, count: int = 1, *, matching: "Matching | None" = None, timeout: float | None = None
    ) -> "list[ConsumerRecord]":
        """Wait until a topic has so many committed records, and return all there are.

        `timeout` is in seconds; None, here and elsewhere, for what the broker was given, 10 unless it was told.
        `matching` counts and returns only those that match: a function of a record, or what `record()` gives.
        `WaitTimeoutError` shows what is there instead.
        """
        return self.wait(self.twin.wait_for(topic, count, matching=matching, timeout=timeout))

    def expect(
        self,
        topic: str,
        value: Any = ...,
        *,
        key: Any = ...,
        headers: Mapping[str, Any] | None = None,
        partition: int | None = None,
        timeout: float | None = None,
    ) -> "ConsumerRecord":
        """Wait for a record like this and return it; see `record()` for what may be said.

        `WaitTimeoutError` compares with what is there, the nearest record first.
        """
        return self.wait(self.twin.expect(topic, value, key=key, headers=headers, partition=partition, timeout=timeout))

    def expect_none(
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
        flushed cannot be seen. `UnexpectedRecordError` shows the records.
        """
        self.wait(self.twin.expect_none(topic, value, key=key, headers=headers, partition=partition, within=within))

    def groups(self) -> list[str]:
        """The ids of all consumer groups."""
        return self.wait(self.twin.groups())

    def group(self, group_id: str) -> ConsumerGroup:
        """A consumer group, whether it is there yet or not."""
        return ConsumerGroup(self.twin.group(group_id), self.wait)

    @property
    def clock(self) -> BrokerClock:
        """The broker's time."""
        return BrokerClock(self.twin.clock, self.wait)

    @property
    def retention(self) -> Retention:
        """What deletes old records."""
        return Retention(self.twin.retention, self.wait)

    def compact(self, topic: str | None = None) -> None:
        """Compact all compacted topics, up to what was produced until now; returns when it is done.

        A `topic` that is named has to be one of them.
        """
        self.wait(self.twin.compact(topic))

    @property
    def brokers(self) -> Brokers:
        """The brokers, by node id."""
        return Brokers(self.twin.brokers, self.wait)

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """The node id of a partition's leader; None while it has none."""
        return self.wait(self.twin.leader(topic, partition))

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make the broker with the node id `to` a partition's leader; it becomes a replica if it is none."""
        self.wait(self.twin.move_leader(topic, partition, to))

    @property
    def requests(self) -> "Journal":
        """What clients have asked and were told, the newest requests of them, oldest first.

        For a broker that keeps a journal (`Broker(journal=True)`); another one has none, which is a RuntimeError.
        """
        return self.twin.requests

    def wait_for_requests(
        self,
        count: int = 1,
        *,
        api: str | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        error: str | int | None = None,
        timeout: float | None = None,
    ) -> "list[Entry]":
        """Wait for so many requests that fit all that is given, and return all there are; see `Journal.entries`.

        `WaitTimeoutError` says what there was instead.
        """
        return self.wait(
            self.twin.wait_for_requests(
                count, api=api, client_id=client_id, topic=topic, group=group, error=error, timeout=timeout
            )
        )

    @property
    def faults(self) -> Faults:
        """The faults that are installed."""
        return Faults(self.twin.faults, self.wait)

    def fault(self, **fields: Any) -> FaultContext:
        """Have something go wrong within a `with` block, which gives the fault: its `fired` says how often.

        For the fields see docs/faults.md. FaultError names one that cannot be.
        """
        return FaultContext(self.twin.fault(**fields), self.wait)

    def reset(self, *, keep_topics: bool = False) -> None:
        """Forget all records, groups, transactions and faults; all brokers are up, and time is the machine's.

        Topics go, too; those given to the broker at its start are made anew, with new ids. With `keep_topics` they
        stay, and their offsets go on where they were: a reader with a checkpoint, such as a Spark query, misses
        nothing. Connections stay. Without it a consumer that stays commits its offsets of before, and may miss what is
        new; a transactional producer has to be made anew after either.
        """
        self.wait(self.twin.reset(keep_topics=keep_topics))

    def snapshot(self, directory: str | None = None) -> "Snapshot":
        """Copy all topics, records, groups and transactions into a new directory; None for a temporary one."""
        return self.wait(self.twin.snapshot(directory))

    def restore(self, snapshot: "Snapshot | str") -> None:
        """Bring back what a snapshot, or the directory of one, holds, in the place of all there is."""
        self.wait(self.twin.restore(snapshot))
