"""One broker as a script about groups of the consumer protocol sees it: see `group_world`."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final

from minibroker.coordinators.groups.modern.topics import TopicMetadata, hash_topics
from minibroker_protocol.coordinator_records import UnknownKey, decode_versioned, read_group_key
from minibroker_protocol.coordinator_records.consumer_groups import (
    CONSUMER_GROUP_RECORDS,
    ConsumerGroupTargetAssignmentMemberKey,
)
from minibroker_protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementallyAlteredConfig,
    IncrementallyAlteredResource,
)
from minibroker_protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minibroker_protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from minibroker_protocol.schema import schema_of
from tests.broker.config.configs import GROUP, SET, change_request, describe_request
from tests.kafka.group_world import World
from tests.kafka.topics import batches_of

Owned = Mapping[str, Sequence[int]]
_OFFSETS: Final = "__consumer_offsets"
_KAFKA_UUID: Final = re.compile(r"[\w-]{22}", re.ASCII)
_GROUP: Final = 32
"""The type of a group as a resource with configurations."""


class ConsumerWorld(World):
    """A world whose group has topics of its own; their ids are told by their names.

    Attributes:
        beside: a configuration of such groups and a value that it may have; it tells when others have come to a broker.
        later: added to the epochs that a script names: those of Kafka 4.3 and later are one more than before.
        records_of: the key and value classes of the records of such groups.
        targets_of: the version of the key of a member's target assignment.
        not_recorded: fields of records that are not compared.
    """

    records_of: ClassVar = CONSUMER_GROUP_RECORDS
    targets_of: ClassVar = schema_of(ConsumerGroupTargetAssignmentMemberKey).versions.first
    not_recorded: ClassVar[frozenset[str]] = frozenset({"assignment_timestamp"})
    beside: ClassVar[tuple[str, int] | None] = None
    later = 0

    def __init__(self, address: tuple[str, int], group_id: str) -> None:
        super().__init__(address, group_id)
        self._names: dict[bytes, str] = {}
        self._hashes: dict[int, int] = {}
        self._changes = 0

    def topic(self, name: str) -> str:
        """The name of one of the group's own topics."""
        return f"{self.group_id}-{name}"

    def _later(self, epoch: int) -> int:
        return epoch + self.later if epoch > 0 else epoch

    def configure(self, **configs: str) -> None:
        """Give the group configurations; `_` stands for `.`."""
        altered = [
            IncrementallyAlteredConfig(name=name.replace("_", "."), config_operation=0, value=value)
            for name, value in configs.items()
        ]
        resource = IncrementallyAlteredResource(resource_type=_GROUP, resource_name=self.group_id, configs=altered)
        self.ask("admin", IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        if self.beside is not None:
            self._wait_for_configs(*self.beside)

    def _wait_for_configs(self, key: str, least: int) -> None:
        """Wait until the coordinator has them.

        A broker of Kafka hears of changes one by one. When it tells of a later one, it is through with this one.
        """
        self._changes += 1
        group, value = f"{self.group_id}-beside", str(least + self._changes)
        client = self.client("admin")
        client.ask(change_request(GROUP, group, (SET, key, value)), 1)

        def is_known() -> bool:
            (found,) = client.ask(describe_request(GROUP, group, key), 4).results
            return [each.value for each in found.configs] == [value]

        self.wait(is_known)

    # Topics

    def create(self, **partitions: int) -> None:
        """Create topics, and wait until the broker knows them."""
        topics = [
            CreatableTopic(name=self.topic(name), num_partitions=count, replication_factor=1)
            for name, count in partitions.items()
        ]
        self.client("admin").ask(CreateTopicsRequest(topics=topics), 5)
        for name, count in partitions.items():
            self._until_it_has(name, count)

    def configure_and_wait(self, name: str, value: str) -> None:
        """Give the group a configuration, and wait until the coordinator has it."""
        self.configure(**{name.replace(".", "_"): value})

        def is_known() -> bool:
            request = describe_request(GROUP, self.group_id, name)
            (found,) = self.client("admin").ask(request, 4).results
            return [each.value for each in found.configs] == [value]

        self.wait(is_known)

    def begin_in_epoch_3(self, **partitions: int) -> None:
        """Create topics, and have the group be empty in epoch 3, whatever epoch its first member makes."""
        self.create(**partitions)
        (name, *_) = partitions
        joined = self.client("admin").ask(self.request("first", 0, topics=[name]), 0)
        if joined.member_epoch == 1:  # it is 2 in Kafka 4.4
            self.client("admin").ask(self.request("first", 1, topics=[name, "more"]), 0)
        self.client("admin").ask(self.request("first", -1), 0)

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        topic = CreatePartitionsTopic(name=self.topic(name), count=partitions, assignments=None)
        self.client("admin").ask(CreatePartitionsRequest(topics=[topic], timeout_ms=10_000), 1)
        self._until_it_has(name, partitions)

    def drop(self, name: str) -> None:
        """Delete a topic."""
        self.client("admin").ask(DeleteTopicsRequest(topic_names=[self.topic(name)], timeout_ms=10_000), 3)
        self._until_it_has(name, 0)

    def know(self, name: str) -> None:
        """Learn the id of a topic that is there."""
        self.wait(lambda: self._look(name) > 0)

    def _until_it_has(self, name: str, partitions: int) -> None:
        self.wait(lambda: self._look(name) == partitions)
        self.wait(lambda: self._assigned_to_a_probe(name) == partitions)

    def _look(self, name: str) -> int:
        """The number of a topic's partitions."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic(name))], allow_auto_topic_creation=False)
        (topic,) = self.client("admin").ask(request, 10).topics
        if topic.partitions:
            self._names[bytes(topic.topic_id)] = name
        return len(topic.partitions)

    def _assigned_to_a_probe(self, name: str) -> int:
        """The number of partitions that the coordinator knows of: Kafka's learns of them later than Metadata."""
        request = self.request("probe", 0, topics=[name])
        request.group_id = f"{self.group_id}-probe"
        joined = self.client("admin").ask(request, 0)
        leaving = self.request("probe", -1)
        leaving.group_id = request.group_id
        self.client("admin").ask(leaving, 0)
        return sum(len(each.partitions) for each in joined.assignment.topic_partitions)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str) and _KAFKA_UUID.fullmatch(value):
            return self._uuids.setdefault(value, f"#{len(self._uuids)}")
        plain = super()._plain(value)
        return self._names.get(plain, plain) if isinstance(plain, bytes) else plain

    # Members

    def request(
        self,
        member: str,
        epoch: int,
        *,
        owned: Owned | None = None,
        topics: Sequence[str] | None = None,
        rebalance_ms: int = -1,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat; who joins says what it has to."""
        if epoch == 0:
            owned = {} if owned is None else owned
            topics = ["t"] if topics is None else topics
            rebalance_ms = 60_000 if rebalance_ms == -1 else rebalance_ms
        ids = {name: id_ for id_, name in self._names.items()}
        listed = None
        if owned is not None:
            listed = [TopicPartitions(topic_id=ids[name], partitions=list(each)) for name, each in owned.items()]
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member,
            member_epoch=self._later(epoch),
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else [self.topic(each) for each in topics],
            topic_partitions=listed,
            **fields,
        )

    def beat(self, member: str, epoch: int, **kwargs: Any) -> Any:
        """Send a heartbeat of a member and note the answer."""
        return self.ask(member or "nobody", self.request(member, epoch, **kwargs), 0)

    def settle(self, member: str, epoch: int, owned: Owned, more: int = 1) -> Any:
        """Send heartbeats until the member is told of another epoch; note the last one."""
        found: list[Any] = []

        def look() -> bool:
            found[:] = [self.client(member).ask(self.request(member, epoch, owned=owned), 0)]
            return bool(found[0].error_code or found[0].member_epoch >= epoch + self.later + more)

        self.wait(look)
        self.note(f"{member} settles", found[0])
        return found[0]

    # Looking on

    def look(self) -> None:
        """Note what the group is."""
        request = ConsumerGroupDescribeRequest(group_ids=[self.group_id], include_authorized_operations=False)
        self.ask("admin", request, 0)

    def until_members(self, count: int) -> None:
        """Wait until the group has so many members, then note it."""
        request = ConsumerGroupDescribeRequest(group_ids=[self.group_id], include_authorized_operations=False)
        self.wait(lambda: len(self.client("admin").ask(request, 0).groups[0].members) == count)
        self.look()

    def consumer_records(self) -> None:
        """Note all records of its protocol that there are of the group, in their order.

        Kafka removes members and tells what each shall have in the order of a hash map, which their ids decide: their
        tombstones and the target assignments of one change are put in order.
        """
        known = {schema_of(key).versions.first: (key, value) for key, value in self.records_of}
        found: list[tuple[int, Any, Any]] = []
        for batch in batches_of(self.client("admin"), _OFFSETS):
            for record in batch:
                kind = read_group_key(record.key or b"")
                if not isinstance(kind, UnknownKey) or kind.version not in known:
                    continue
                classes = known[kind.version]
                key: Any = decode_versioned(classes[0], record.key or b"")
                if key.group_id == self.group_id:
                    value: Any = None if record.value is None else decode_versioned(classes[1], record.value)
                    hashed = getattr(value, "metadata_hash", 0)
                    if hashed:
                        value.metadata_hash = self._hashes.setdefault(hashed, len(self._hashes) + 1)
                    for field in self.not_recorded.intersection(dir(value)):
                        setattr(value, field, 0)
                    found.append((kind.version, key, value))
        for (version, is_gone), alike in groupby(found, lambda each: (each[0], each[2] is None)):
            noted = [[key, value] for _, key, value in alike]
            if is_gone or version == self.targets_of:
                noted.sort(key=lambda each: repr(self._plain(each[0])))
            for each in noted:
                self.note(f"record {version}", each)

    def check_hash(self, *topics: str) -> None:
        """Note whether the last hash of topics that was recorded is that of these, which are there."""
        ids = {name: id_ for id_, name in self._names.items()}
        found = {self.topic(each): TopicMetadata(ids[each], self._look(each)) for each in topics}
        self.note("hash", hash_topics(found) == [*self._hashes][-1])

    # Offsets

    def commit_as(
        self,
        member: str,
        epoch: int,
        offset: int = 5,
        *,
        version: int = 9,
        places: Mapping[str, Sequence[int]] | None = None,
        metadata: str = "",
    ) -> None:
        """Commit an offset for the first partition of "t", or for other partitions."""
        topics = [
            OffsetCommitRequestTopic(
                name=self.topic(name),
                topic_id=next((id_ for id_, known in self._names.items() if known == name), bytes(16)),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                    for index in indexes
                ],
            )
            for name, indexes in (places or {"t": [0]}).items()
        ]
        request = OffsetCommitRequest(
            group_id=self.group_id, generation_id_or_member_epoch=self._later(epoch), member_id=member, topics=topics
        )
        self.ask("admin", request, version)

    def fetch_as(self, member: str | None, epoch: int, *, version: int = 9) -> None:
        """Ask for that offset."""
        topics = [OffsetFetchRequestTopics(name=self.topic("t"), partition_indexes=[0])]
        group = OffsetFetchRequestGroup(
            group_id=self.group_id, member_id=member, member_epoch=self._later(epoch), topics=topics
        )
        self.ask("admin", OffsetFetchRequest(groups=[group]), version)

    def delete_offset(self) -> None:
        """Delete that offset."""
        topic = OffsetDeleteRequestTopic(
            name=self.topic("t"), partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
        self.ask("admin", OffsetDeleteRequest(group_id=self.group_id, topics=[topic]), 0)


class NewestWorld(ConsumerWorld):
    """A world whose groups begin one epoch later, as since Kafka 4.3."""

    later = 1
