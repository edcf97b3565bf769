"""Requests about many names and partitions, both existing and missing."""

import struct

from benchmarks.hostile.bytes_of import frame, text, uvarint
from benchmarks.hostile.case import Attack, Cases, Target, sent
from minibroker_protocol.messages.describe_transactions import DescribeProducersRequest
from minibroker_protocol.messages.describe_transactions import TopicRequest as ProducersTopic
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.groups import FindCoordinatorRequest
from minibroker_protocol.messages.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from minibroker_protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minibroker_protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)

_CASES = Cases()
case = _CASES.case


@case("Metadata of 1,000 unknown names, which are created", 1_000)
def metadata_creates(target: Target, size: int) -> Attack:
    return sent((_named(target.names(size), create=True), 9))


@case("Metadata of 10,000 unknown names, none created", 10_000)
def metadata_unknown(target: Target, size: int) -> Attack:
    return sent((_named(target.names(size), create=False), 9))


def _named(names: list[str], *, create: bool) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create)


@case("Metadata of all of 5,000 topics", 5_000)
def metadata_all(target: Target, size: int) -> Attack:
    target.topics(size)
    return sent((MetadataRequest(topics=None), 9))


@case("50 requests for Metadata of a topic with 9,000 partitions", 9_000)
def metadata_wide(target: Target, size: int) -> Attack:
    name = target.topic(size)
    return sent(*((_named([name, f"{name}-{number}"], create=False), 9) for number in range(50)))


@case("Metadata of 4,000,000 empty names (8 MB)", 4_000_000)
def metadata_empty_names(target: Target, size: int) -> Attack:
    del target
    return Attack(frames=(frame(3, 9, b"\x00" + uvarint(size + 1) + b"\x01\x00" * size + bytes(4)),))


@case("ApiVersions with 4,000,000 tagged fields (8 MB)", 4_000_000)
def tagged_fields(target: Target, size: int) -> Attack:
    del target
    return Attack(frames=(frame(18, 3, uvarint(size) + b"\x7f\x00" * size + b"\x02a\x02a\x00"),))


@case("DescribeTopicPartitions of 5,000 topics", 5_000)
def describe_topic_partitions(target: Target, size: int) -> Attack:
    names = target.topics(size)
    topics = [TopicRequest(name=name) for name in names]
    return sent((DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=2_000), 0))


@case("ListOffsets of 100,000 unknown partitions", 100_000)
def list_offsets_unknown(target: Target, size: int) -> Attack:
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(size)]
    return sent((ListOffsetsRequest(topics=[ListOffsetsTopic(name=target.tag, partitions=partitions)]), 5))


@case("ListOffsets of 5,000 partitions", 5_000)
def list_offsets(target: Target, size: int) -> Attack:
    name = target.topic(size)
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(size)]
    return sent((ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=partitions)]), 5))


@case("OffsetForLeaderEpoch of 100,000 unknown partitions", 100_000)
def offset_for_leader_epoch(target: Target, size: int) -> Attack:
    partitions = [OffsetForLeaderPartition(partition=number, leader_epoch=0) for number in range(size)]
    topics = [OffsetForLeaderTopic(topic=target.tag, partitions=partitions)]
    return sent((OffsetForLeaderEpochRequest(topics=topics), 3))


def _fetch(name: str, size: int, version: int, session_epoch: int) -> Attack:
    partitions = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1) for number in range(size)]
    topics = [FetchTopic(topic=name, partitions=partitions)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics, session_epoch=session_epoch)
    return sent((request, version))


@case("Fetch of 100,000 unknown partitions", 100_000)
def fetch_unknown(target: Target, size: int) -> Attack:
    return _fetch(target.tag, size, 11, -1)


@case("Fetch of 300,000 unknown partitions that opens a session", 300_000)
def fetch_session(target: Target, size: int) -> Attack:
    return _fetch(target.tag, size, 7, 0)


@case("Fetch of 5,000 partitions", 5_000)
def fetch_many(target: Target, size: int) -> Attack:
    return _fetch(target.topic(size), size, 11, -1)


@case("200 connections, each a waiting Fetch and 4 MB behind it", 200)
def fetch_parked(target: Target, size: int) -> Attack:
    body = struct.pack(">iiiib", -1, 600_000, 1, 1 << 20, 0) + struct.pack(">i", 1) + text(target.topic())
    waiting = frame(1, 6, body + struct.pack(">iiqqi", 1, 0, 0, 0, 1 << 20))
    return Attack(
        frames=(waiting, struct.pack(">i", 90_000_000), b"\1" * 4_000_000), connections=size, is_answered=False
    )


@case("FindCoordinator of 10,000 keys", 10_000)
def find_coordinator(target: Target, size: int) -> Attack:
    return sent((FindCoordinatorRequest(key_type=0, coordinator_keys=target.names(size)), 4))


@case("DescribeLogDirs of 5,000 partitions", 5_000)
def describe_log_dirs(target: Target, size: int) -> Attack:
    topic = DescribableLogDirTopic(topic=target.topic(size), partitions=list(range(size)))
    return sent((DescribeLogDirsRequest(topics=[topic]), 1))


@case("DescribeProducers of 5,000 partitions", 5_000)
def describe_producers(target: Target, size: int) -> Attack:
    topic = ProducersTopic(name=target.topic(size), partition_indexes=list(range(size)))
    return sent((DescribeProducersRequest(topics=[topic]), 0))


CASES = tuple(_CASES.found)
