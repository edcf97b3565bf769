"""The operations of `AsyncBroker`, for programs that run a broker on their own event loop.

`blocking` derives from them the methods of `Broker`, which other threads can call. The operations only call functions
of the sibling modules, which are loaded when needed. Objects that have methods of their own, such as
`AsyncBroker.clock`, are defined in `asynchronous_handles` and `asynchronous_trials`.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from minibroker.cluster.errors import is_the_callers, warn_caller
from minibroker.operations import asynchronous_handles as handles
from minibroker.operations import asynchronous_trials as trials
from minibroker.server.inspection.recording import journal_of
from minibroker.server.services import Services
from minibroker_protocol.internal_topics import SCHEMAS_TOPIC
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.operations import expecting, matching, producing, reset, schemas, settings, snapshots, time, wording
    from minibroker.operations import groups as operations_groups
    from minibroker.operations import records as operations_records
    from minibroker.operations import topics as operations_topics
    from minibroker.server.faults import fault as faults_fault

if TYPE_CHECKING:
    # Imported for type checking only, to keep start-up fast.
    from minibroker.operations.expecting import Matching
    from minibroker.operations.producing import Codec, Format, Message, Payload, RecordMetadata
    from minibroker.operations.records import ConsumerRecord, DecodedRecord, Isolation
    from minibroker.operations.settings import Resource
    from minibroker.operations.snapshots import Snapshot
    from minibroker.operations.topics import TopicDescription
    from minibroker.security.authorization.acls import AclBinding
    from minibroker.server.inspection.journal import Entry, Journal
    from minibroker.server.telemetry import TelemetryPush
    from minibroker_chaos.steps import Step

__tracebackhide__ = is_the_callers


class AsyncOperations:
    """Operations on a running broker.

    Every method raises RuntimeError if the broker is not running, and `OperationError` if the operation is impossible.

    Attributes:
        patience: The default `timeout` of methods that wait, in seconds.
    """

    patience: float

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise wording.missing_attribute(self, name)

    @property
    def services(self) -> Services:
        """The services shared by the handlers. Raises RuntimeError if the broker is not running."""
        raise NotImplementedError

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for a client's configuration. The addresses of several brokers are separated by commas."""
        raise NotImplementedError

    def make_topics(self) -> None:
        """Create the configured topics that do not exist yet, and write their seed records."""
        raise NotImplementedError

    def _patience(self, timeout: float | None) -> float:
        return self.patience if timeout is None else timeout

    async def topics(self) -> "dict[str, TopicDescription]":
        """Return the descriptions of all topics by name."""
        return operations_topics.describe_topics(self.services)

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str | float | bool] | None = None,
    ) -> "TopicDescription":
        """Create a topic. The default number of partitions is the broker's `num.partitions`.

        A single broker accepts any replication factor and uses 1. A cluster accepts up to the number of its
        brokers.
        """
        return operations_topics.create_topic(
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
        """Create a topic with an unused name, made of `prefix` and random digits, and return the name."""
        name = f"{prefix}-{os.urandom(4).hex()}"
        await self.create_topic(name, partitions, replication_factor=replication_factor, configs=configs)
        return name

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and the offsets that groups have committed for it."""
        operations_topics.delete_topic(self.services, name)

    async def topic_config(self, name: str) -> dict[str, str | None]:
        """Return the configuration of a topic by key, including the broker's defaults."""
        return settings.topic_config(self.services, name)

    async def configure_topic(self, name: str, configs: Mapping[str, str | float | bool | None]) -> None:
        """Change configuration keys of a topic. Changes take effect immediately. None restores the broker's value."""
        settings.configure_topic(self.services, name, configs)

    async def configure(self, configs: Mapping[str, str | float | bool | None]) -> None:
        """Change broker configuration keys that Kafka can change at run time. None restores the default."""
        settings.configure(self.services, configs)

    async def telemetry(self) -> "list[TelemetryPush]":
        """Return the newest metrics pushed by clients (KIP-714)."""
        return self.services.telemetry.pushes()

    async def set_quota(self, entity: Mapping[str, str | None], limits: Mapping[str, float | None]) -> None:
        """Set client quotas: `set_quota({"client-id": "slow"}, {"producer_byte_rate": 1024})`.

        An entity is a `user`, a `client-id`, both, or an `ip`. The name None stands for the default entity. A limit
        of None removes the quota.
        """
        await settings.set_quota(self.services, entity, limits)

    async def allow(self, principal: str, *operations: str, **resource: "Unpack[Resource]") -> "list[AclBinding]":
        """Allow operations such as "read" or "all" on a topic, group, transactional id or the cluster.

        For example: `broker.allow("User:alice", "read", topic="orders")`. The broker needs an authorizer.

        Returns:
            The new ACLs.
        """
        return settings.create_acls(self.services, "ALLOW", principal, operations, resource)

    async def deny(self, principal: str, *operations: str, **resource: "Unpack[Resource]") -> "list[AclBinding]":
        """Deny operations, with the arguments of `allow`. A denial overrides all ACLs that allow the same operation."""
        return settings.create_acls(self.services, "DENY", principal, operations, resource)

    async def acls(self) -> "list[AclBinding]":
        """Return all ACLs, in the order in which they were created."""
        return settings.list_acls(self.services)

    async def remove_acls(self, acls: "Sequence[AclBinding]") -> None:
        """Remove ACLs."""
        settings.remove_acls(self.services, acls)

    async def produce(  # noqa: PLR0913 - the parts of a record and of its batch
        self,
        topic: str,
        *values: "Payload | Message",
        key: "Payload" = None,
        headers: "Mapping[str, Payload] | Sequence[tuple[str, Payload]]" = (),
        timestamp: int | None = None,
        partition: int | None = None,
        message_format: "Format" = "v2",
        codec: "Codec" = "none",
        schema: str | None = None,
        key_schema: str | None = None,
    ) -> "list[RecordMetadata]":
        """Append records without a client; return the partition and offset of each.

        Bytes are stored unchanged, text as UTF-8, None as a tombstone, and any other value as JSON. Keyword arguments
        apply to all `values` except `Message` objects, which have their own. `message_format` can also be "v0" or "v1",
        the formats of brokers before 0.10 and 0.11.

        `schema` and `key_schema` are subjects such as "orders-value". All values, or all keys, but None are then
        encoded with the subject's latest schema. They apply to `Message` objects, too.
        """
        messages = [
            value
            if isinstance(value, producing.Message)
            else producing.Message(value, key, headers, timestamp, partition)
            for value in values
        ]
        if not messages:
            warn_caller(f"produce: no value is given for {topic!r}, so nothing is written; None is a tombstone")
        if schema is not None or key_schema is not None:
            messages = await schemas.encode_messages(self.services, messages, schema, key_schema)
        return producing.produce(self.services, topic, messages, message_format=message_format, codec=codec)

    @overload
    async def records(
        self,
        topic: str,
        *,
        partition: int | None = None,
        start: int = 0,
        isolation: "Isolation" = "read_committed",
        decode: Literal[False] = False,
    ) -> "list[ConsumerRecord]": ...

    @overload
    async def records(
        self,
        topic: str,
        *,
        partition: int | None = None,
        start: int = 0,
        isolation: "Isolation" = "read_committed",
        decode: Literal[True],
    ) -> "list[DecodedRecord]": ...

    async def records(
        self,
        topic: str,
        *,
        partition: int | None = None,
        start: int = 0,
        isolation: "Isolation" = "read_committed",
        decode: bool = False,
    ) -> "list[ConsumerRecord] | list[DecodedRecord]":
        """Return a topic's records as consumers read them, from offset `start` on, partition by partition.

        With `decode`, keys and values that have the id of a schema are decoded to values of JSON. Those that cannot be
        decoded become `Undecodable`, which says why.
        """
        records = await operations_records.read_records(
            self.services, topic, partition=partition, start=start, isolation=isolation
        )
        return await schemas.decode_records(self.services, records) if decode else records

    async def wait_for(
        self,
        topic: str,
        count: int = 1,
        *,
        matching: "Matching | None" = None,
        timeout: float | None = None,  # noqa: ASYNC109 - part of the API
    ) -> "list[ConsumerRecord]":
        """Wait until a topic has `count` committed records, and return all of them.

        Args:
            topic: the name of the topic, which need not exist yet.
            count: the minimum number of records.
            matching: a predicate on records, or a matcher from `record()`. Records that do not match are neither
                counted nor returned.
            timeout: in seconds. None, here and elsewhere, means the broker's `timeout`, 10 by default.

        Raises:
            WaitTimeoutError: the message shows the records of the topic.
        """
        return await expecting.wait_for_records(
            self.services, topic, count, matching=matching, timeout=self._patience(timeout)
        )

    async def expect(
        self,
        topic: str,
        value: Any = ...,
        *,
        key: Any = ...,
        headers: Mapping[str, Any] | None = None,
        partition: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - part of the API
    ) -> "ConsumerRecord":
        """Wait for a record that meets the conditions, and return it; see `record()` for the conditions.

        Raises:
            WaitTimeoutError: no such record arrived; the message compares the topic's records with the expected
                one, the most similar record first.
        """
        matcher = matching.record(value, key=key, headers=headers, partition=partition)
        return (
            await expecting.wait_for_records(self.services, topic, matching=matcher, timeout=self._patience(timeout))
        )[0]

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
        """Assert that a topic has no committed record that meets the conditions; see `record()` for the conditions.

        The topic need not exist; a MinibrokerWarning is issued if its name seems misspelled. Flush your producers
        first. By default the method looks once and does not wait. With `within` it keeps looking for that many
        seconds.

        Raises:
            UnexpectedRecordError: there is such a record; the message shows the matching records.
        """
        matcher = matching.record(value, key=key, headers=headers, partition=partition)
        await expecting.expect_no_records(self.services, topic, matcher, within)

    async def groups(self) -> list[str]:
        """Return the ids of all consumer groups."""
        return await operations_groups.group_ids(self.services)

    def group(self, group_id: str) -> handles.AsyncConsumerGroup:
        """Return a handle for a consumer group, which need not exist yet."""
        return handles.AsyncConsumerGroup(self, group_id)

    @property
    def schemas(self) -> handles.AsyncSchemas:
        """The schema registry. It works with or without an HTTP server."""
        return handles.AsyncSchemas(self)

    @property
    def clock(self) -> handles.AsyncBrokerClock:
        """The broker's clock."""
        return handles.AsyncBrokerClock(self)

    @property
    def retention(self) -> handles.AsyncRetention:
        """A handle for retention. Use it to delete old records at any time."""
        return handles.AsyncRetention(self)

    async def compact(self, topic: str | None = None) -> None:
        """Compact all compacted topics, including the records produced until now, and wait until compaction is done.

        With `topic`, compact only this topic, which must have `cleanup.policy=compact`.
        """
        await time.compact(self.services, topic)

    @property
    def brokers(self) -> handles.AsyncBrokers:
        """The brokers by node id."""
        return handles.AsyncBrokers(self)

    async def leader(self, topic: str, partition: int = 0) -> int | None:
        """Return the node id of a partition's leader, or None without a leader."""
        return operations_topics.leader_of(self.services, topic, partition)

    async def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make the broker with node id `to` the leader of a partition, and one of its replicas."""
        self.services.core.writes.commit()
        self.services.core.cluster.move_leader(topic, partition, to)

    @property
    def requests(self) -> "Journal":
        """The newest client requests with their responses, oldest first.

        Raises RuntimeError for a broker without a journal (`Broker(journal=True)` has one).
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
        timeout: float | None = None,  # noqa: ASYNC109 - part of the API
    ) -> "list[Entry]":
        """Wait until `count` requests match all arguments, and return all matching requests; see `Journal.entries`.

        Raises:
            WaitTimeoutError: the message lists the requests in the journal.
        """
        filters = {"api": api, "client_id": client_id, "topic": topic, "group": group, "error": error}
        return await expecting.wait_for_requests(self.services, self.requests, count, filters, self._patience(timeout))

    @property
    def faults(self) -> handles.AsyncFaults:
        """The installed faults."""
        return handles.AsyncFaults(self)

    def fault(self, *given: Any, **fields: Any) -> handles.AsyncFaultContext:
        """Return a context manager that installs a fault for a `with` block.

        Entering it returns the `Fault`, whose `fired` counts the requests it has affected. docs/faults.md lists the
        fields.

        Raises:
            FaultError: a field is invalid.
            TypeError: an argument has no name.
        """
        if given:
            raise TypeError(
                "fault takes its fields by name, such as fault(api='Produce', error='NOT_LEADER_OR_FOLLOWER')"
            )
        return handles.AsyncFaultContext(self.faults, faults_fault.Fault.from_json(fields))

    def chaos(
        self,
        seed: int | None = None,
        *,
        profile: str = "default",
        only: Sequence[str] = (),
        without: Sequence[str] = (),
        steps: "Sequence[Step] | Mapping[str, Any] | None" = None,
    ) -> trials.AsyncChaos:
        """Return a context manager under which the broker misbehaves as a Kafka cluster may, see docs/chaos.md.

        Without arguments, return a handle for the chaos that is running, such as that of `Broker(chaos=8)`.

        Args:
            seed: The seed of all decisions.
            profile: "default", "heavy", "network", "rebalances", "failovers" or "transactions".
            only: The names of the only misbehaviours to use, instead of those of the profile.
            without: The names of misbehaviours to leave out.
            steps: The steps of an earlier run to repeat, instead of a seed, or a document that contains them.
        """
        return trials.AsyncChaos(self, seed, profile=profile, only=only, without=without, steps=steps)

    @property
    def check(self) -> trials.AsyncCheck:
        """Checks of an application, by what the broker saw of it."""
        return trials.AsyncCheck(self)

    async def reset(self, *, keep_topics: bool = False, keep_schemas: bool = False) -> None:
        """Remove all records, groups, transactions and faults, start all brokers, and reset the clock.

        The clock shows the machine's time again. Topics are removed as well, and those in the broker's options are
        created again with new ids. With `keep_topics` all topics stay and their offsets continue, so a reader with
        a checkpoint, such as a Spark query, misses nothing. With `keep_schemas` the schema registry keeps its subjects.
        Without it the registry is empty, but never gives a schema id twice.

        Connections stay open. Without `keep_topics`, a consumer that keeps running commits its old offsets and can
        miss new records. In both cases, create transactional producers again.
        """
        untouched = (SCHEMAS_TOPIC,) if keep_schemas else ()
        reset.reset(self.services, self.make_topics, keep_topics=keep_topics, untouched=untouched)
        await self.services.core.cluster.wait_until_settled()

    async def snapshot(self, directory: "str | os.PathLike[str] | None" = None) -> "Snapshot":
        """Copy all topics, records, groups and transactions into a new directory.

        If `directory` is None, a temporary directory is used. The snapshot has the state at the time of the call.
        Clients are served during the copy.
        """
        return await snapshots.take_snapshot(self.services, directory)

    async def restore(self, snapshot: "Snapshot | str | os.PathLike[str]") -> None:
        """Replace all topics, records, groups and transactions with those of a snapshot.

        `snapshot` can also be the snapshot's directory. During the copy, clients are served from the previous
        state, and anything they write is lost with that state.
        """
        await snapshots.restore_snapshot(self.services, snapshot)
        await self.services.core.cluster.wait_until_settled()
