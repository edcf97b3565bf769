"""Requests that change many topics, partitions or settings at once."""

from dataclasses import replace

from benchmarks.hostile.case import TOPIC, WATCHED, Attack, Cases, Target, sent
from minibroker_protocol.messages import configs as api
from minibroker_protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from minibroker_protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from minibroker_protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from minibroker_protocol.messages.log_offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from minibroker_protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from minibroker_protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

_CASES = Cases()
case = _CASES.case
_WAIT_MS = 60_000
_THREE = replace(WATCHED, brokers=3)
_ALONE = "it would need three processes"


def _new(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


@case("CreateTopics of 1,000 topics", 1_000)
def create_topics(target: Target, size: int) -> Attack:
    return sent((CreateTopicsRequest(topics=[_new(name, 1) for name in target.names(size)], timeout_ms=_WAIT_MS), 5))


@case("CreateTopics of 4 x 2,499 partitions", 2_499)
def create_wide_topics(target: Target, size: int) -> Attack:
    return sent((CreateTopicsRequest(topics=[_new(name, size) for name in target.names(4)], timeout_ms=_WAIT_MS), 5))


@case("CreatePartitions from 1 to 10,000", 10_000)
def create_partitions(target: Target, size: int) -> Attack:
    topic = CreatePartitionsTopic(name=target.topic(), count=size, assignments=None)
    return sent((CreatePartitionsRequest(topics=[topic], timeout_ms=_WAIT_MS), 1))


@case("DeleteTopics of 1,000 topics", 1_000)
def delete_topics(target: Target, size: int) -> Attack:
    topics = [DeleteTopicState(name=name) for name in target.topics(size)]
    return sent((DeleteTopicsRequest(topics=topics, timeout_ms=_WAIT_MS), 6))


@case("IncrementalAlterConfigs of 1,000 topics", 1_000)
def incremental_alter(target: Target, size: int) -> Attack:
    value = api.IncrementallyAlteredConfig(name="retention.ms", config_operation=0, value="1000000")
    resources = [
        api.IncrementallyAlteredResource(resource_type=TOPIC, resource_name=name, configs=[value])
        for name in target.topics(size)
    ]
    return sent((api.IncrementalAlterConfigsRequest(resources=resources, validate_only=False), 1))


@case("AlterConfigs of 1,000 topics", 1_000)
def alter_all_configs(target: Target, size: int) -> Attack:
    value = api.AlterableConfig(name="retention.ms", value="1000000")
    resources = [
        api.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[value])
        for name in target.topics(size)
    ]
    return sent((api.AlterConfigsRequest(resources=resources, validate_only=False), 1))


@case("DescribeConfigs of 1,000 topics, synonyms and documentation", 1_000)
def describe_configs(target: Target, size: int) -> Attack:
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
        for name in target.topics(size)
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)
    return sent((request, 4))


@case("DeleteRecords of 5,000 partitions", 5_000)
def delete_records(target: Target, size: int) -> Attack:
    partitions = [DeleteRecordsPartition(partition_index=number, offset=-1) for number in range(size)]
    topic = DeleteRecordsTopic(name=target.topic(size), partitions=partitions)
    return sent((DeleteRecordsRequest(topics=[topic], timeout_ms=_WAIT_MS), 1))


@case("AlterReplicaLogDirs of 5,000 partitions", 5_000)
def alter_replica_log_dirs(target: Target, size: int) -> Attack:
    topic = AlterReplicaLogDirTopic(name=target.topic(size), partitions=list(range(size)))
    return sent((AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/nowhere", topics=[topic])]), 1))


@case("AlterPartitionReassignments of 3,000 partitions", 3_000, broker=_THREE, alone=_ALONE)
def reassign(target: Target, size: int) -> Attack:
    partitions = [ReassignablePartition(partition_index=number, replicas=[3 - number % 3]) for number in range(size)]
    topic = ReassignableTopic(name=target.topic(size), partitions=partitions)
    return sent((AlterPartitionReassignmentsRequest(timeout_ms=_WAIT_MS, topics=[topic]), 0))


@case("ElectLeaders of 3,000 partitions", 3_000, broker=_THREE, alone=_ALONE)
def elect_leaders(target: Target, size: int) -> Attack:
    topic = TopicPartitions(topic=target.topic(size), partitions=list(range(size)))
    return sent((ElectLeadersRequest(election_type=0, topic_partitions=[topic], timeout_ms=_WAIT_MS), 1))


@case("UpdateFeatures of 10,000 unknown features", 10_000)
def update_features(target: Target, size: int) -> Attack:
    updates = [FeatureUpdateKey(feature=name, max_version_level=1) for name in target.names(size)]
    return sent((UpdateFeaturesRequest(timeout_ms=_WAIT_MS, feature_updates=updates), 1))


CASES = tuple(_CASES.found)
