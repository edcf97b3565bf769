"""Requests of clients about committed offsets, as scripts for `OffsetWorld`."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from minibroker_protocol.coordinator_records import OffsetCommitKey, OffsetCommitValue, decode_versioned, read_group_key
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from minibroker_protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_protocol.records.header import BatchHeader
from tests.broker.coordinators.groups import offset_requests as requests
from tests.broker.coordinators.groups.member_requests import CHANGED
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.socket_client import SocketClient
from tests.kafka.group_world import World
from tests.kafka.scripts import Scripts
from tests.kafka.topics import batches_of, create_topic

Script = Callable[["OffsetWorld"], None]
SCRIPTS: Final = Scripts["OffsetWorld"]()
_OFFSETS: Final = "__consumer_offsets"


class OffsetWorld(World):
    """A broker with topics "<group>-t" and "<group>-u" of two partitions."""

    def __init__(self, address: tuple[str, int], group_id: str) -> None:
        super().__init__(address, group_id)
        self.t, self.u = f"{group_id}-t", f"{group_id}-u"
        self.broker: SocketClient = self.client("offsets")
        for name in (self.t, self.u):
            create_topic(self.broker, name, 2)

    def places(self, *names: str) -> list[tuple[str, int]]:
        """Partitions by names such as "t0"; another letter than t or u is of a topic that does not exist."""
        topics = {"t": self.t, "u": self.u}
        return [(topics.get(name[0], "no-such-topic"), int(name[1:])) for name in names]

    def commit_offsets(self, names: str, offset: int, **fields: Any) -> None:
        """Commit an offset for partitions and note the outcome."""
        fields = {"group_id": self.group_id, **fields}
        places = self.places(*names.split())
        self.note(
            f"commit {names} {offset}", _sorted(requests.commit(self.broker, dict.fromkeys(places, offset), **fields))
        )

    def fetch_offsets(self, names: str = "", **fields: Any) -> None:
        """Fetch what is committed, all of it if nothing is named, and note it."""
        fields = {"group_id": self.group_id, **fields}
        code, found = requests.fetch_with_error(self.broker, *self.places(*names.split()), **fields)
        self.note(f"fetch {names}", (code, _sorted(found)))

    def delete_offsets(self, names: str, **fields: Any) -> None:
        """Delete offsets and note the outcome."""
        fields = {"group_id": self.group_id, **fields}
        code, found = requests.delete(self.broker, *self.places(*names.split()), **fields)
        self.note(f"delete {names}", (code, _sorted(found)))

    def member(self) -> tuple[str, int]:
        """A stable group of one consumer, "a": its id and generation."""
        member = self.new_id("a")
        generation = self.join("a", member).generation_id
        self.sync("a", member, generation, {member: b"all"})
        return member, generation

    def producer(self) -> Producer:
        """A producer whose transaction has the group."""
        producer = Producer(self.broker, f"{self.group_id}-producer", init=False)
        self.wait(lambda: producer.init() == 0)
        self.note("add offsets", producer.add_offsets(self.group_id))
        return producer

    def end(self, producer: Producer, *, commit: bool) -> None:
        """End the transaction and wait until it has ended everywhere."""
        self.note("end", producer.end(commit=commit))
        self.wait(lambda: producer.add_offsets(f"another-{self.group_id}") == 0)
        self.wait(self._is_stable)

    def _is_stable(self) -> bool:
        code, found = requests.fetch_with_error(self.broker, group_id=self.group_id, stable=True)
        return not code and not any(error for *_, error in found.values())

    def offset_records(self) -> None:
        """Note what was written about the group's offsets; times are only there or not."""
        for header, found in self._written():
            self.note("batch", [header.is_transactional, header.base_sequence, header.record_count])
            self.note("records", found)

    def has_tombstones(self) -> bool:
        """Kafka writes them after its answers know nothing of the offsets any more."""
        return any(stored is None for _, found in self._written() for *_, stored in found)

    def _written(self) -> Iterator[tuple[BatchHeader, list[Any]]]:
        for batch in batches_of(self.broker, _OFFSETS):
            found: list[Any] = []
            for record in batch:
                key = read_group_key(record.key or b"")
                if not isinstance(key, OffsetCommitKey) or key.group != self.group_id:
                    continue
                stored: Any = None
                if record.value is not None:
                    value = decode_versioned(OffsetCommitValue, record.value)
                    kept_ms = value.expire_timestamp - value.commit_timestamp if value.expire_timestamp >= 0 else None
                    stored = record.value[:2], value.offset, value.leader_epoch, value.metadata, kept_ms
                found.append([(record.key or b"")[:2], key.topic, key.partition, stored])
            if found:
                yield batch.header, found


def _sorted(found: dict[tuple[str, int], Any]) -> list[Any]:
    return sorted(found.items())


def in_version(version: int) -> Script:
    """A client without a group, in one version of both requests; Kafka has no version 0 without ZooKeeper."""

    def run(world: OffsetWorld) -> None:
        world.fetch_offsets("t0 x7", version=version)
        if version >= 2:
            world.fetch_offsets(version=version)
        world.commit_offsets("t0 t1", 5, version=version, metadata="some")
        world.commit_offsets("t1 u0 u2 x0", 6, version=version, metadata=None)
        world.fetch_offsets("t0 t1 u0 u1 u2 x0", version=version)
        if version >= 2:
            world.fetch_offsets(version=version)
        world.commit_offsets("t0", 7, version=version, metadata="x" * 4097)
        world.commit_offsets("t0", 7, version=version, metadata="\U0001f600" * 2048)
        world.fetch_offsets("t0", version=version)
        world.commit_offsets("x0", 1, version=version)
        world.offset_records()

    return run


SCRIPTS.update({f"version_{version}": in_version(version) for version in range(1, 10)})


@SCRIPTS.add
def leader_epochs(world: OffsetWorld) -> None:
    for version in (5, 6, 9):
        world.commit_offsets("t0", 1, version=version, **({"each_committed_leader_epoch": 4} if version > 5 else {}))
        for other in (4, 5, 8):
            world.fetch_offsets("t0", version=other)
    world.offset_records()


@SCRIPTS.add
def times_that_clients_choose(world: OffsetWorld) -> None:
    world.commit_offsets("t0", 1, version=1, each_commit_timestamp=1)
    for version in (2, 3, 4):
        world.commit_offsets("t0", version, version=version, retention_time_ms=100_000)
        world.commit_offsets("t1", version, version=version, retention_time_ms=-1)
    world.fetch_offsets()
    world.offset_records()


@SCRIPTS.add
def members(world: OffsetWorld) -> None:
    member, generation = world.member()
    for who in (member, "", "stranger"):
        for when in (generation, generation - 1, generation + 1, -1, -2):
            for version in (1, 9):
                world.commit_offsets("t0", when, member_id=who, generation_id_or_member_epoch=when, version=version)
    world.commit_offsets("t0", 8, member_id=member, generation_id_or_member_epoch=generation, group_instance_id="i")
    world.commit_offsets("t0", 9, member_id="", generation_id_or_member_epoch=-1, group_instance_id="i")
    world.fetch_offsets()
    world.leave("a", (member, None))
    world.until("Empty")
    for when in (generation, generation + 1, -1):
        for who in (member, ""):
            world.commit_offsets("t0", 20 + when, member_id=who, generation_id_or_member_epoch=when)
    world.fetch_offsets()


@SCRIPTS.add
def a_member_during_a_rebalance(world: OffsetWorld) -> None:
    member, generation = world.member()
    world.begin_join("b", world.new_id("b"))
    world.until("PreparingRebalance", 2)
    world.commit_offsets("t0", 1, member_id=member, generation_id_or_member_epoch=generation)
    world.commit_offsets("t0", 2)
    generation = world.join("a", member).generation_id
    other = world.receive("b").member_id
    world.until("CompletingRebalance", 2)
    for who in (member, other, "stranger"):
        for when in (generation, generation - 1):
            world.commit_offsets("t0", 3, member_id=who, generation_id_or_member_epoch=when)
    world.commit_offsets("t0", 4)
    world.fetch_offsets("t0")


@SCRIPTS.add
def a_static_member(world: OffsetWorld) -> None:
    member = world.join("a", instance="i").member_id
    world.sync("a", member, 1, {member: b"all"}, instance="i")
    as_static = {"generation_id_or_member_epoch": 1, "group_instance_id": "i"}
    world.commit_offsets("t0", 1, member_id=member, **as_static)
    world.commit_offsets("t0", 2, member_id="stranger", **as_static)
    world.commit_offsets("t0", 3, member_id=member, generation_id_or_member_epoch=1)
    world.fetch_offsets()


@SCRIPTS.add
def a_group_that_is_not_there(world: OffsetWorld) -> None:
    world.commit_offsets("t0", 1, member_id="m", generation_id_or_member_epoch=0)
    world.commit_offsets("t0 x0", 1, generation_id_or_member_epoch=1, metadata="x" * 5000)
    world.list_groups()
    world.commit_offsets("t0", 1, member_id="m", generation_id_or_member_epoch=-1)
    world.list_groups()
    world.commit_offsets("t0", 1)
    world.list_groups()
    world.describe()


@SCRIPTS.add
def metadata_that_is_too_large_makes_a_group(world: OffsetWorld) -> None:
    world.commit_offsets("t0", 1, metadata="x" * 5000)
    world.list_groups()


@SCRIPTS.add
def groups_without_a_name(world: OffsetWorld) -> None:
    world.commit_offsets("t0", 1, group_id="")
    world.fetch_offsets("t0", group_id="")
    world.delete_offsets("t0", group_id="")


@SCRIPTS.add
def several_groups_at_once(world: OffsetWorld) -> None:
    world.commit_offsets("t0", 1)
    world.commit_offsets("t1", 2, group_id=world.group_id + "-other")
    topics = [OffsetFetchRequestTopics(name=world.t, partition_indexes=[1, 0, 1])]
    names = (world.group_id, "nobody", world.group_id + "-other", world.group_id)
    for version in (8, 9):
        for requested in (topics, None, []):
            groups = [OffsetFetchRequestGroup(group_id=name, topics=requested) for name in names[:3]]
            world.ask("offsets", OffsetFetchRequest(groups=groups), version)


@SCRIPTS.add
def partitions_named_twice(world: OffsetWorld) -> None:
    offsets = [
        OffsetCommitRequestPartition(partition_index=0, committed_offset=each, committed_metadata="") for each in (1, 2)
    ]
    unknown = [OffsetCommitRequestPartition(partition_index=5, committed_offset=1, committed_metadata="")] * 2
    topics = [OffsetCommitRequestTopic(name=world.t, partitions=each) for each in (offsets, offsets, unknown)]
    world.ask("offsets", OffsetCommitRequest(group_id=world.group_id, topics=topics), 8)
    world.fetch_offsets()
    requested_topics = [
        OffsetFetchRequestTopic(name=name, partition_indexes=[1, 0, 1]) for name in (world.t, world.u, world.t)
    ]
    world.ask("offsets", OffsetFetchRequest(group_id=world.group_id, topics=requested_topics), 7)
    gone = [OffsetDeleteRequestPartition(partition_index=each) for each in (0, 0, 7, 7)]
    names = [OffsetDeleteRequestTopic(name=world.t, partitions=gone)] * 2
    world.ask("offsets", OffsetDeleteRequest(group_id=world.group_id, topics=names), 0)
    world.offset_records()


@SCRIPTS.add
def no_partitions(world: OffsetWorld) -> None:
    empty = [OffsetCommitRequestTopic(name=world.t, partitions=[])]
    for topics in (empty, []):
        world.ask("offsets", OffsetCommitRequest(group_id=world.group_id, topics=topics), 8)
    world.list_groups()
    world.commit_offsets("t0", 1)
    requested_topics = [OffsetFetchRequestTopic(name=world.t, partition_indexes=[])]
    world.ask("offsets", OffsetFetchRequest(group_id=world.group_id, topics=requested_topics), 7)
    names = [OffsetDeleteRequestTopic(name=world.t, partitions=[])]
    world.ask("offsets", OffsetDeleteRequest(group_id=world.group_id, topics=names), 0)
    world.ask("offsets", OffsetDeleteRequest(group_id=world.group_id, topics=[]), 0)


@SCRIPTS.add
def forgetting(world: OffsetWorld) -> None:
    world.delete_offsets("t0")
    world.delete_offsets("x0")
    world.commit_offsets("t0 t1 u0", 1)
    world.delete_offsets("t0 u1 u2 x0")
    world.fetch_offsets()
    world.delete_offsets("t1 u0")
    world.list_groups()
    world.delete_offsets("t1")
    world.offset_records()


@SCRIPTS.add
def forgetting_beside_members(world: OffsetWorld) -> None:
    member = world.new_id("a", CHANGED)
    world.join("a", member, CHANGED)
    world.commit_offsets("t0", 1)
    world.delete_offsets("t0")
    world.sync("a", member, 1, {member: b"all"})
    world.commit_offsets("t0 u0", 1, member_id=member, generation_id_or_member_epoch=1)
    world.delete_offsets("t0 u1")
    world.leave("a", (member, None))
    world.until("Empty")
    world.delete_offsets("u0")
    world.fetch_offsets()
    world.offset_records()


@SCRIPTS.add
def forgetting_beside_members_that_are_no_consumers(world: OffsetWorld) -> None:
    member = world.new_id("a", protocol_type="connect")
    world.join("a", member, protocol_type="connect")
    world.sync("a", member, 1, {member: b"all"})
    world.commit_offsets("t0", 1, member_id=member, generation_id_or_member_epoch=1)
    world.delete_offsets("t0")
    world.fetch_offsets()


@SCRIPTS.add
def deleting_the_group(world: OffsetWorld) -> None:
    world.commit_offsets("t0 u0", 1)
    world.delete()
    world.fetch_offsets()
    world.offset_records()
    member, generation = world.member()
    world.commit_offsets("t0", 2, member_id=member, generation_id_or_member_epoch=generation)
    world.delete()
    world.leave("a", (member, None))
    world.until("Empty")
    world.delete()
    world.fetch_offsets("t0")
    world.offset_records()
    world.records()


@SCRIPTS.add
def deleting_a_topic(world: OffsetWorld) -> None:
    world.commit_offsets("t0 t1 u0", 1)
    states = [DeleteTopicState(name=world.t)]
    assert world.broker.ask(DeleteTopicsRequest(topics=states, timeout_ms=10_000), 6).responses[0].error_code == 0
    world.wait(lambda: len(requests.fetch(world.broker, group_id=world.group_id)) == 1)
    world.wait(world.has_tombstones)
    world.fetch_offsets()
    world.commit_offsets("t0", 2)
    world.offset_records()


@SCRIPTS.add
def a_transaction(world: OffsetWorld) -> None:
    for commit in (False, True):
        world.commit_offsets("t0 u0", 1)
        producer = world.producer()
        for offset, topic in ((5, world.t), (6, world.u), (7, world.t)):
            world.note("commit", producer.commit_offset(world.group_id, offset, topic=topic, partition=offset % 2))
        for stable in (False, True):
            world.fetch_offsets("t0 t1 u0 u1", stable=stable)
            world.fetch_offsets(stable=stable)
            world.fetch_offsets("t0 t1 u0 u1", version=7, stable=stable)
        world.commit_offsets("t1", 2)
        world.end(producer, commit=commit)
        world.fetch_offsets(stable=True)
    world.offset_records()


@SCRIPTS.add
def a_group_of_an_open_transaction(world: OffsetWorld) -> None:
    producer = world.producer()
    world.note("commit", producer.commit_offset(world.group_id, 5, topic=world.t))
    world.list_groups()
    world.fetch_offsets()
    world.fetch_offsets(stable=True)
    world.fetch_offsets("t0", stable=True)
    world.end(producer, commit=False)
    world.list_groups()
    world.fetch_offsets("t0", stable=True)


@SCRIPTS.add
def forgetting_what_a_transaction_has_committed(world: OffsetWorld) -> None:
    world.commit_offsets("t0 u0", 1)
    producer = world.producer()
    world.note("commit", producer.commit_offset(world.group_id, 5, topic=world.t))
    world.note("commit", producer.commit_offset(world.group_id, 6, topic=world.u))
    world.delete_offsets("t0")
    world.fetch_offsets("t0 u0", stable=True)
    world.end(producer, commit=True)
    world.fetch_offsets()
