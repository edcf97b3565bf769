"""Requests of members of share groups, and of clients that describe such groups."""

import time
import uuid
from typing import Any

from benchmarks.hostile.bytes_of import batch, record
from benchmarks.hostile.case import Attack, Cases, Target, sent
from benchmarks.wire import Connection, WireError, produce_request, produced_offset
from minibroker_protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementallyAlteredConfig,
    IncrementallyAlteredResource,
)
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.share_group import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    TopicPartitions,
)
from minibroker_protocol.messages.share_group_state import (
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
    WrittenPartition,
)
from minibroker_protocol.messages.share_records import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)

_CASES = Cases()
case = _CASES.case
_GROUP = 32
"""The resource type of a group's configuration."""
_NO_KAFKA = "Kafka 3.9.1 does not serve share groups"
_LAST = -1
_ACCEPT, _RENEW = 1, 4
_MOST_LOCKS = 4_000


def _heartbeat(group: str, member: str, epoch: int, names: list[str] | None) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=names
    )


def _configure(target: Target, **configs: str) -> None:
    """Configure the group named after the target's tag. `locks="1"` sets share.locks=1."""
    chosen = [
        IncrementallyAlteredConfig(name=f"share.{key.replace('_', '.')}", config_operation=0, value=value)
        for key, value in configs.items()
    ]
    resource = IncrementallyAlteredResource(resource_type=_GROUP, resource_name=target.tag, configs=chosen)
    (altered,) = target.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1).responses
    if altered.error_code:
        raise WireError(f"IncrementalAlterConfigs: {altered.error_code} {altered.error_message}")


def _joined(target: Target, partitions: int) -> tuple[str, bytes, str]:
    """Join a member that has all partitions of a new topic. Return the topic, its id and the member id."""
    name, member = target.topic(partitions), str(uuid.uuid4())
    topic_id = target.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics[0].topic_id
    _configure(target, auto_offset_reset="earliest", partition_max_record_locks=str(_MOST_LOCKS))
    epoch, deadline = 0, time.monotonic() + 60
    names: list[str] | None = [name]
    while time.monotonic() < deadline:
        response = target.ask(_heartbeat(target.tag, member, epoch, names), 1)
        if response.error_code == 0:
            epoch, names = response.member_epoch, None
            assigned: list[TopicPartitions] = response.assignment.topic_partitions if response.assignment else []
            if sum(len(each.partitions) for each in assigned) == partitions:
                return name, topic_id, member
        time.sleep(0.05)
    raise WireError("the member was not given the partitions")


def _fill(target: Target, name: str, partition: int, batches: int, records: int) -> None:
    data = batch(b"".join(record(number, b"v" * 10) for number in range(records)), records)
    with Connection(target.address) as connection:
        for _ in range(batches):
            connection.socket.sendall(produce_request(name, partition, data))
            produced_offset(connection.receive())


def _fetch(
    target: Target, member: str, epoch: int, topic_id: bytes, partitions: int, **fields: int
) -> ShareFetchRequest:
    named = [FetchPartition(partition_index=number, acknowledgement_batches=[]) for number in range(partitions)]
    values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_records": _MOST_LOCKS, "batch_size": 1, **fields}
    return ShareFetchRequest(
        group_id=target.tag,
        member_id=member,
        share_session_epoch=epoch,
        topics=[FetchTopic(topic_id=topic_id, partitions=named)] if named else [],
        forgotten_topics_data=[],
        **values,
    )


@case("ShareGroupHeartbeat with 10,000 subscribed names", 10_000, alone=_NO_KAFKA)
def share_names(target: Target, size: int) -> Attack:
    return sent((_heartbeat(target.tag, "member", 0, target.names(size)), 1))


@case("ShareGroupHeartbeat of a member with 10,000 topics", 10_000, alone=_NO_KAFKA)
def share_topics(target: Target, size: int) -> Attack:
    names = target.topics(size)
    _configure(target, assignment_interval_ms="0")
    both = [(_heartbeat(target.tag, member, 0, names), 1) for member in ("member", "other")]
    return sent(*both * 8)  # they come again, and are given what has a state by then


@case("ShareGroupHeartbeat of a member with 9,000 partitions", 9_000, alone=_NO_KAFKA)
def share_wide_topic(target: Target, size: int) -> Attack:
    name = target.topic(size)
    return sent((_heartbeat(target.tag, "member", 0, [name]), 1), (_heartbeat(target.tag, "other", 0, [name]), 1))


@case("100 members join a share group of 5,000 partitions one after the other", 100, alone=_NO_KAFKA)
def share_members(target: Target, size: int) -> Attack:
    name, _, _ = _joined(target, 50 * size)
    return sent(*((_heartbeat(target.tag, f"member-{number}", 0, [name]), 1) for number in range(size)))


@case("ShareFetch that opens a session of 9,000 partitions", 9_000, alone=_NO_KAFKA)
def share_session(target: Target, size: int) -> Attack:
    _, topic_id, member = _joined(target, size)
    return sent(
        (_fetch(target, member, 0, topic_id, size), 2),
        *((_fetch(target, member, epoch, topic_id, 0), 2) for epoch in (1, 2, -1)),
    )


@case("ShareFetch that opens a session of 200,000 unknown partitions", 200_000, alone=_NO_KAFKA)
def share_session_unknown(target: Target, size: int) -> Attack:
    _, _, member = _joined(target, 1)
    unknown = uuid.uuid4().bytes
    return sent(
        (_fetch(target, member, 0, unknown, size), 2),
        *((_fetch(target, member, epoch, unknown, 0), 2) for epoch in (1, 2, -1)),
    )


@case("ShareFetch of 4,000 records, each in a batch of its own", 4_000, alone=_NO_KAFKA)
def share_small_batches(target: Target, size: int) -> Attack:
    name, topic_id, member = _joined(target, 1)
    _fill(target, name, 0, size, 1)
    return sent((_fetch(target, member, 0, topic_id, 1), 2), (_fetch(target, member, -1, topic_id, 0), 2))


def _acknowledged(target: Target, member: str, topic_id: bytes, batches: list[AcknowledgementBatch]) -> Attack:
    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
    request = ShareAcknowledgeRequest(
        group_id=target.tag,
        member_id=member,
        share_session_epoch=1,
        is_renew_ack=True,
        topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[partition])],
    )
    return sent((request, 2))


def _acquired(target: Target, batches: int, records: int) -> tuple[str, bytes]:
    """Return the id of a member that has acquired records, and the topic id."""
    name, topic_id, member = _joined(target, 1)
    _fill(target, name, 0, batches, records)
    (topic,) = target.ask(_fetch(target, member, 0, topic_id, 1, max_bytes=1 << 30, batch_size=1_000), 2).responses
    got = sum(each.last_offset - each.first_offset + 1 for each in topic.partitions[0].acquired_records)
    if got != batches * records:
        raise WireError(f"acquired {got} records")
    return member, topic_id


@case("ShareAcknowledge of 4,000 records one by one", 4_000, alone=_NO_KAFKA)
def share_acknowledge(target: Target, size: int) -> Attack:
    member, topic_id = _acquired(target, size // 1_000 or 1, min(size, 1_000))
    batches = [AcknowledgementBatch(first_offset=at, last_offset=at, acknowledge_types=[_ACCEPT]) for at in range(size)]
    return _acknowledged(target, member, topic_id, batches)


@case("ShareAcknowledge of every second one of 4,000 records", 4_000, alone=_NO_KAFKA)
def share_acknowledge_holes(target: Target, size: int) -> Attack:
    member, topic_id = _acquired(target, size // 1_000 or 1, min(size, 1_000))
    batches = [
        AcknowledgementBatch(first_offset=at, last_offset=at, acknowledge_types=[_ACCEPT]) for at in range(1, size, 2)
    ]
    return _acknowledged(target, member, topic_id, batches)


@case("ShareAcknowledge that renews one record 80,000 times", 80_000, alone=_NO_KAFKA)
def share_renew(target: Target, size: int) -> Attack:
    member, topic_id = _acquired(target, 1, 100)
    one = AcknowledgementBatch(first_offset=5, last_offset=5, acknowledge_types=[_RENEW])
    return _acknowledged(target, member, topic_id, [one] * size)


@case("ShareAcknowledge with 200,000 types", 200_000, alone=_NO_KAFKA)
def share_acknowledge_types(target: Target, size: int) -> Attack:
    member, topic_id = _acquired(target, 1, 100)
    many = AcknowledgementBatch(first_offset=0, last_offset=size - 1, acknowledge_types=[_ACCEPT] * size)
    return _acknowledged(target, member, topic_id, [many])


@case("WriteShareGroupState with 60,000 batches", 60_000, alone=_NO_KAFKA)
def share_state(target: Target, size: int) -> Attack:
    _, topic_id, _ = _joined(target, 1)
    batches = [
        StateBatch(first_offset=2 * number, last_offset=2 * number, delivery_state=0, delivery_count=1)
        for number in range(size)
    ]
    data = WrittenPartition(partition=0, state_epoch=-1, leader_epoch=-1, start_offset=0, state_batches=batches)
    topics = [WriteStateData(topic_id=topic_id, partitions=[data])]
    return sent((WriteShareGroupStateRequest(group_id=target.tag, topics=topics), 0))


@case("ShareGroupDescribe of 10,000 names", 10_000, alone=_NO_KAFKA)
def share_describe(target: Target, size: int) -> Attack:
    request = ShareGroupDescribeRequest(group_ids=target.names(size), include_authorized_operations=True)
    return sent((request, 1))


@case("ShareGroupDescribe, DescribeShareGroupOffsets of a group with 9,000 partitions", 9_000, alone=_NO_KAFKA)
def share_describe_wide(target: Target, size: int) -> Attack:
    _joined(target, size)
    group = DescribeShareGroupOffsetsRequestGroup(group_id=target.tag, topics=None)
    return sent(
        (ShareGroupDescribeRequest(group_ids=[target.tag], include_authorized_operations=True), 1),
        (DescribeShareGroupOffsetsRequest(groups=[group]), 1),
    )


@case("AlterShareGroupOffsets of 9,000 partitions", 9_000, alone=_NO_KAFKA)
def share_alter_offsets(target: Target, size: int) -> Attack:
    name, _, member = _joined(target, size)
    target.ask(_heartbeat(target.tag, member, _LAST, None), 1)
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=0) for number in range(size)
    ]
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)]
    return sent((AlterShareGroupOffsetsRequest(group_id=target.tag, topics=topics), 0))


CASES = tuple(_CASES.found)
