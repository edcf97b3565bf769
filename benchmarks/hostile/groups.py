"""Requests of group members, and of clients that describe groups."""

import struct
import time
from dataclasses import replace
from itertools import islice, product

from benchmarks.hostile.bytes_of import frame, text
from benchmarks.hostile.case import WATCHED, Ask, Attack, Cases, Target, sent
from benchmarks.wire import WireError
from minibroker_protocol.messages.consumer_group import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from minibroker_protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
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
)
from minibroker_protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minibroker_protocol.messages.topics import DeleteTopicsRequest

_CASES = Cases()
case = _CASES.case
_EXPRESSION = "(?:.?){1000}" * 9
_PARTITIONS = 50
_THREE = replace(WATCHED, brokers=3)
_ALONE = "it would need three processes"


def _commit(group: str, topic: str, count: int) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=1, committed_metadata="")
        for number in range(count)
    ]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    return OffsetCommitRequest(group_id=group, topics=topics)


def _groups(target: Target, count: int) -> list[str]:
    """Create groups that have each committed one offset."""
    topic, names = target.topic(), target.names(count)
    for begin in range(0, count, 1_000):
        asks = [Ask(_commit(name, topic, 1), 6) for name in names[begin : begin + 1_000]]
        for response in target.ask_many(asks):
            if code := response.topics[0].partitions[0].error_code:
                raise WireError(f"OffsetCommit: {code}")
    return names


@case("OffsetCommit of 100,000 unknown partitions", 100_000)
def offset_commit_unknown(target: Target, size: int) -> Attack:
    return sent((_commit(target.tag, target.tag, size), 6))


@case("OffsetCommit of 9,000 partitions", 9_000)
def offset_commit(target: Target, size: int) -> Attack:
    name = target.topic(size)
    _groups_ready(target)
    return sent((_commit(target.tag, name, size), 6))


def _group_of(target: Target, size: int) -> str:
    """Create a group, named after the tag, that has committed all partitions of a topic. Return the topic."""
    name = target.topic(size)
    _groups_ready(target)
    (topic,) = target.ask(_commit(target.tag, name, size), 6).topics
    if codes := {each.error_code for each in topic.partitions} - {0}:
        raise WireError(f"OffsetCommit: {codes}")
    return name


@case("OffsetDelete of 9,000 partitions", 9_000)
def offset_delete(target: Target, size: int) -> Attack:
    partitions = [OffsetDeleteRequestPartition(partition_index=number) for number in range(size)]
    topic = OffsetDeleteRequestTopic(name=_group_of(target, size), partitions=partitions)
    return sent((OffsetDeleteRequest(group_id=target.tag, topics=[topic]), 0))


@case("OffsetDelete of 100,000 unknown partitions", 100_000)
def offset_delete_unknown(target: Target, size: int) -> Attack:
    _group_of(target, 1)
    partitions = [OffsetDeleteRequestPartition(partition_index=number) for number in range(size)]
    topic = OffsetDeleteRequestTopic(name=f"{target.tag}-unknown", partitions=partitions)
    return sent((OffsetDeleteRequest(group_id=target.tag, topics=[topic]), 0))


@case("DeleteGroups of a group with 9,000 offsets", 9_000)
def delete_wide_group(target: Target, size: int) -> Attack:
    _group_of(target, size)
    return sent((DeleteGroupsRequest(groups_names=[target.tag]), 1))


@case("DeleteTopics of one topic, whose offset 5,000 groups have committed", 5_000)
def delete_read_topic(target: Target, size: int) -> Attack:
    _groups_ready(target)
    _groups(target, size)
    return sent((DeleteTopicsRequest(topic_names=[f"{target.tag}-00000"], timeout_ms=60_000), 3))


@case("the leader of 10,000 groups moves away and back, OffsetFetch", 10_000, broker=_THREE, alone=_ALONE)
def move_groups(target: Target, size: int) -> Attack:
    topic, names = target.topic(), _groups_of_one_partition(target, size)
    asks = [Ask(_commit(name, topic, 1), 6) for name in names]
    for response in target.ask_many(asks):
        if code := response.topics[0].partitions[0].error_code:
            raise WireError(f"OffsetCommit: {code}")
    return sent(*((_led_by(node), 0) for node in (2, 1)), (OffsetFetchRequest(group_id=names[-1], topics=None), 5))


def _groups_of_one_partition(target: Target, count: int) -> list[str]:
    """Return group ids in one partition of the first node. "Aa" and "BB" have the same `String.hashCode` in Java."""
    ends = list(islice(map("".join, product(("Aa", "BB"), repeat=14)), count))
    for number in range(1000):
        names = [f"{target.tag}-{number}-{end}" for end in ends]
        if target.ask(FindCoordinatorRequest(key=names[0], key_type=0), 3).node_id == 1:
            return names
    raise WireError("the first node coordinates no group")


def _led_by(node: int) -> AlterPartitionReassignmentsRequest:
    """Return the request that has a node lead all partitions of groups."""
    partitions = [ReassignablePartition(partition_index=number, replicas=[node]) for number in range(_PARTITIONS)]
    topic = ReassignableTopic(name="__consumer_offsets", partitions=partitions)
    return AlterPartitionReassignmentsRequest(timeout_ms=60_000, topics=[topic])


def _groups_ready(target: Target) -> None:
    """Wait for the groups' coordinator. Kafka creates their topic on a lookup."""
    for _ in range(600):
        target.ask(FindCoordinatorRequest(key=target.tag, key_type=0), 3)
        request = OffsetFetchRequest(group_id=target.tag, topics=[])
        if target.ask(request, 5).error_code == 0:
            return
        time.sleep(0.1)
    raise WireError("no coordinator serves the group")


@case("OffsetFetch of 2,000,000 unknown partitions (8 MB)", 2_000_000)
def offset_fetch_unknown(target: Target, size: int) -> Attack:
    _groups_ready(target)
    head = text(target.tag) + struct.pack(">i", 1) + text("t") + struct.pack(">i", size)
    return Attack(frames=(frame(9, 1, head + struct.pack(f">{size}i", *range(size))),))


@case("OffsetFetch of 100,000 unknown partitions", 100_000)
def offset_fetch(target: Target, size: int) -> Attack:
    _groups_ready(target)
    topic = OffsetFetchRequestTopic(name=target.tag, partition_indexes=list(range(size)))
    return sent((OffsetFetchRequest(group_id=target.tag, topics=[topic]), 5))


@case("OffsetFetch v8 of all offsets of 1,000 groups", 1_000)
def offset_fetch_groups(target: Target, size: int) -> Attack:
    _groups_ready(target)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in _groups(target, size)]
    return sent((OffsetFetchRequest(groups=groups), 8))


def _heartbeat(group: str, member: str, epoch: int, **fields: object) -> ConsumerGroupHeartbeatRequest:
    timeout = {"rebalance_timeout_ms": 60_000, "topic_partitions": []} if epoch == 0 else {}
    values = {"subscribed_topic_names": None, **timeout, **fields}
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **values)  # type: ignore[arg-type]  # fields of any type


@case("ConsumerGroupHeartbeat, an expression of 108 bytes, 30 topics", 30)
def expression(target: Target, size: int) -> Attack:
    target.tag = target.tag.ljust(34, "x")
    target.topics(size)
    return sent((_heartbeat("hostile", "member", 0, subscribed_topic_regex=_EXPRESSION), 1))


@case("ConsumerGroupHeartbeat with 10,000 subscribed names", 10_000)
def subscribed_names(target: Target, size: int) -> Attack:
    _groups_ready(target)
    return sent((_heartbeat(target.tag, "", 0, subscribed_topic_names=target.names(size)), 0))


@case("100 members change their subscriptions one after the other", 100)
def unlike_subscriptions(target: Target, size: int) -> Attack:
    _groups_ready(target)
    names = target.topics(20, _PARTITIONS)
    joined = [
        target.ask(_heartbeat(f"{target.tag}-group", "", 0, subscribed_topic_names=names[:10]), 0) for _ in range(size)
    ]
    if codes := {each.error_code for each in joined} - {0}:
        raise WireError(f"ConsumerGroupHeartbeat: {codes}")
    changed = [
        (_heartbeat(f"{target.tag}-group", each.member_id, each.member_epoch, subscribed_topic_names=names), 0)
        for each in joined
    ]
    return sent(*changed)


def _join(group: str, metadata: bytes) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


@case("JoinGroup with 8 MB of metadata", 8_000_000)
def join_group(target: Target, size: int) -> Attack:
    _groups_ready(target)
    return sent((_join(target.tag, bytes(size)), 3))


@case("JoinGroup with 10,000 protocols", 10_000)
def join_group_protocols(target: Target, size: int) -> Attack:
    _groups_ready(target)
    request = _join(target.tag, b"")
    request.protocols = [JoinGroupRequestProtocol(name=name, metadata=b"") for name in target.names(size)]
    return sent((request, 3))


@case("SyncGroup with 10,000 assignments of 100 B", 10_000)
def sync_group(target: Target, size: int) -> Attack:
    _groups_ready(target)
    joined = target.ask(_join(target.tag, b""), 3)
    assignments = [
        SyncGroupRequestAssignment(member_id=name, assignment=bytes(100))
        for name in [joined.member_id, *target.names(size - 1)]
    ]
    request = SyncGroupRequest(
        group_id=target.tag, generation_id=joined.generation_id, member_id=joined.member_id, assignments=assignments
    )
    return sent((request, 1))


@case("LeaveGroup of 10,000 members", 10_000)
def leave_group(target: Target, size: int) -> Attack:
    _groups_ready(target)
    joined = target.ask(_join(target.tag, b""), 3)
    members = [MemberIdentity(member_id=name) for name in [*target.names(size - 1), joined.member_id]]
    return sent((LeaveGroupRequest(group_id=target.tag, members=members), 3))


@case("DescribeGroups of 10,000 names", 10_000)
def describe_groups(target: Target, size: int) -> Attack:
    _groups_ready(target)
    return sent((DescribeGroupsRequest(groups=target.names(size)), 5))


@case("ConsumerGroupDescribe of 10,000 names", 10_000)
def consumer_group_describe(target: Target, size: int) -> Attack:
    _groups_ready(target)
    request = ConsumerGroupDescribeRequest(group_ids=target.names(size), include_authorized_operations=True)
    return sent((request, 0))


@case("DeleteGroups of 10,000 names", 10_000)
def delete_groups(target: Target, size: int) -> Attack:
    _groups_ready(target)
    return sent((DeleteGroupsRequest(groups_names=target.names(size)), 1))


@case("DeleteGroups of 1,000 groups with an offset each", 1_000)
def delete_real_groups(target: Target, size: int) -> Attack:
    _groups_ready(target)
    return sent((DeleteGroupsRequest(groups_names=_groups(target, size)), 1))


@case("ListGroups with 10,000 groups", 10_000)
def list_groups(target: Target, size: int) -> Attack:
    _groups_ready(target)
    _groups(target, size)
    return sent((ListGroupsRequest(), 4))


CASES = tuple(_CASES.found)
