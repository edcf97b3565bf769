"""Requests about partitions of one topic, as functions."""

import dataclasses
from typing import Any, Final

from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
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
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from minibroker_protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord

TIMEOUT_MS: Final = 20_000
EARLIEST: Final = -2
LATEST: Final = -1
PREFERRED: Final = 0
UNCLEAN: Final = 1


def creation(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    """A CreateTopics."""
    return CreateTopicsRequest(topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only)


def placed(name: str, *replicas: tuple[int, ...], **configs: str) -> CreatableTopic:
    """A topic whose replicas are placed by hand; `min_insync_replicas="2"` stands for min.insync.replicas=2."""
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in enumerate(replicas)
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def metadata(*names: str) -> MetadataRequest:
    """A Metadata about topics that are not made by it."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)


def pages(*names: str) -> DescribeTopicPartitionsRequest:
    """A DescribeTopicPartitions."""
    return DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names])


def together(*requests: Any) -> Any:
    """One request about the topics of several ones that are alike but for these."""
    return dataclasses.replace(requests[0], topics=[topic for each in requests for topic in each.topics])


def produce(name: str, *partitions: int, acks: int = -1) -> ProduceRequest:
    """A Produce of one record to each partition."""
    batch = memoryview(bytes(build_batch([NewRecord(None, b"value", 1_000)])))
    data = [PartitionProduceData(index=index, records=batch) for index in partitions]
    topic = TopicProduceData(name=name, partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[topic])


def fetch(name: str, topic_id: bytes, *partitions: int, epoch: int = -1, offset: int = 0) -> FetchRequest:
    """A Fetch that waits for nothing."""
    requested_partitions = [
        FetchPartition(partition=index, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index in partitions
    ]
    topic = FetchTopic(topic=name, topic_id=topic_id, partitions=requested_partitions)
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])


def offsets(name: str, *partitions: int, time: int = LATEST, epoch: int = -1) -> ListOffsetsRequest:
    """A ListOffsets."""
    requested_partitions = [
        ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=time) for index in partitions
    ]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=requested_partitions)])


def epoch_ends(name: str, *partitions: int, asked: int = 0, epoch: int = -1) -> OffsetForLeaderEpochRequest:
    """An OffsetForLeaderEpoch."""
    requested_partitions = [
        OffsetForLeaderPartition(partition=index, current_leader_epoch=epoch, leader_epoch=asked)
        for index in partitions
    ]
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=requested_partitions)])


def election(kind: int, name: str, *partitions: int) -> ElectLeadersRequest:
    """An ElectLeaders."""
    topics = [TopicPartitions(topic=name, partitions=list(partitions))]
    return ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=TIMEOUT_MS)


def reassignment(name: str, *replicas: list[int] | None, **more: Any) -> AlterPartitionReassignmentsRequest:
    """An AlterPartitionReassignments for the partitions from 0 on; None takes one back."""
    partitions = [ReassignablePartition(partition_index=index, replicas=ids) for index, ids in enumerate(replicas)]
    topic = ReassignableTopic(name=name, partitions=partitions)
    return AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, **more)
