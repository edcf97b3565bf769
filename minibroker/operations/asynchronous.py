"""`AsyncBroker`'s methods beside its life: what a program may do to a broker that runs on its event loop.

`blocking` has the same for other threads. What they do is in the modules beside this one, which load when needed.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from minibroker.state import BrokerState

if TYPE_CHECKING:
    # Names for the type checkers: a start loads none of it.
    from minibroker.operations.expecting import Matching
    from minibroker.operations.groups import GroupDescription
    from minibroker.operations.producing import Codec, Format, Message, Payload, RecordMetadata
    from minibroker.operations.records import ConsumerRecord, Isolation
    from minibroker.operations.snapshots import Snapshot
    from minibroker.operations.topics import TopicDescription
    from minibroker.topics import TopicPartition

PATIENCE = 10.0
"""Seconds."""


class AsyncOperations:
    """What can be asked of a running broker. RuntimeError unless it runs, `OperationError` for what cannot be done."""

    @property
    def state(self) -> BrokerState:
        """What its handlers share. RuntimeError unless it runs."""
        raise NotImplementedError

    def make_topics(self) -> None:
        """Create the topics that the broker was given and that are not there."""
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
        """Create a topic; without a number it has the broker's default."""
        from minibroker.operations.topics import create_topic  # noqa: PLC0415 - see above

        return create_topic(
            self.state, name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )

    async def delete_topic(self, name: str) -> None:
        """Delete a topic, and what groups have committed for it."""
        from minibroker.operations.topics import delete_topic  # noqa: PLC0415 - see above

        delete_topic(self.state, name)

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

        return read_records(self.state, topic, partition=partition, start=start, isolation=isolation)

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

    # Beginning anew

    async def reset(self, *, keep_topics: bool = False) -> None:
        """Forget all records, groups, transactions and faults; all brokers are up, and time is the machine's.

        Topics go, too; those given to the broker at its start are made anew, with new ids. With `keep_topics` they
        stay, and their offsets go on where they were: a reader with a checkpoint, such as a Spark query, misses
        nothing. Connections stay; producers and consumers go on as after a restart.
        """
        from minibroker.operations.reset import reset  # noqa: PLC0415 - see above

        reset(self.state, self.make_topics, keep_topics=keep_topics)

    async def snapshot(self, directory: str | None = None) -> "Snapshot":
        """Copy all topics, records, groups and transactions into a new directory; None for a temporary one."""
        from minibroker.operations.snapshots import take_snapshot  # noqa: PLC0415 - see above

        return take_snapshot(self.state, directory)

    async def restore(self, snapshot: "Snapshot | str") -> None:
        """Bring back what a snapshot, or the directory of one, holds, in the place of all there is."""
        from minibroker.operations.snapshots import restore_snapshot  # noqa: PLC0415 - see above

        restore_snapshot(self.state, snapshot)


class AsyncConsumerGroup:
    """A consumer group of an `AsyncBroker`."""

    def __init__(self, broker: AsyncOperations, group_id: str) -> None:
        self._broker = broker
        self.group_id = group_id

    async def describe(self) -> "GroupDescription":
        """State, generation and members; a group that nobody knows is Dead."""
        from minibroker.operations.groups import describe_group  # noqa: PLC0415 - see above

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
        from minibroker.operations.groups import committed_offsets  # noqa: PLC0415 - see above

        return committed_offsets(self._broker.state, self.group_id)

    async def lag(self) -> "dict[TopicPartition, int]":
        """How many offsets the group is behind, by (topic, partition)."""
        from minibroker.operations.groups import group_lag  # noqa: PLC0415 - see above

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
