"""Answers that say nothing but an error, of the APIs that describe and change the cluster: see `error_answers`."""

from typing import Any, Final

from minibroker.faults.declarations import Answering, alone, messages_of
from minibroker_protocol.error_codes import ErrorCode

_FIRST_LEADER_AND_ISR_WITH_TOPICS: Final = 2
_FIRST_LEADER_AND_ISR_WITH_IDS: Final = 5
_FIRST_STOP_REPLICA_WITH_TOPICS: Final = 1
_FIRST_STOP_REPLICA_WITH_STATES: Final = 3


def _describe_topic_partitions(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("describe_topic_partitions")
    return m.DescribeTopicPartitionsResponse(
        topics=[
            m.DescribeTopicPartitionsResponseTopic(error_code=code, name=each.name, topic_id=bytes(16), partitions=[])
            for each in request.topics
        ]
    )


def _alter_replica_log_dirs(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("alter_replica_log_dirs")
    return m.AlterReplicaLogDirsResponse(
        results=[
            m.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    m.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for wanted in request.dirs
            for topic in wanted.topics
        ]
    )


def elect_leaders_error(request: Any, code: ErrorCode, message: str | None = None) -> Any:
    """All elections have failed, for the same reason."""
    m = messages_of("elect_leaders")
    return m.ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            m.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    m.PartitionResult(partition_id=index, error_code=code, error_message=message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _elect_leaders(request: Any, _version: int, code: ErrorCode) -> Any:
    return elect_leaders_error(request, code)


def _elect_leaders_parts(request: Any, _version: int, code: ErrorCode) -> Any:
    answer = elect_leaders_error(request, code)
    answer.error_code = ErrorCode.NONE
    return answer


def _alter_partition_reassignments(request: Any, _version: int, code: ErrorCode) -> Any:
    answer = _alter_partition_reassignments_parts(request, _version, code)
    answer.error_code = code
    return answer


def _alter_partition_reassignments_parts(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("alter_partition_reassignments")
    return m.AlterPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=[
            m.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    m.ReassignablePartitionResponse(
                        partition_index=each.partition_index, error_code=code, error_message=None
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _list_partition_reassignments(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("list_partition_reassignments")
    return m.ListPartitionReassignmentsResponse(
        error_code=code,
        error_message=None,
        topics=[
            m.OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    m.OngoingPartitionReassignment(
                        partition_index=index, replicas=[], adding_replicas=[], removing_replicas=[]
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )


def _leader_and_isr(request: Any, version: int, code: ErrorCode) -> Any:
    m = messages_of("leader_and_isr")
    if version < _FIRST_LEADER_AND_ISR_WITH_TOPICS:
        named = [(each.topic_name, each) for each in request.ungrouped_partition_states]
    else:
        named = [(topic.topic_name, each) for topic in request.topic_states for each in topic.partition_states]
    if version < _FIRST_LEADER_AND_ISR_WITH_IDS:
        return m.LeaderAndIsrResponse(
            error_code=code,
            partition_errors=[
                m.LeaderAndIsrPartitionError(topic_name=name, partition_index=each.partition_index, error_code=code)
                for name, each in named
            ],
        )
    return m.LeaderAndIsrResponse(
        error_code=code,
        topics=[
            m.LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    m.LeaderAndIsrPartitionError(partition_index=each.partition_index, error_code=code)
                    for each in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ],
    )


def _stop_replica(request: Any, version: int, code: ErrorCode) -> Any:
    m = messages_of("stop_replica")
    if version < _FIRST_STOP_REPLICA_WITH_TOPICS:
        named = [(each.topic_name, each.partition_index) for each in request.ungrouped_partitions]
    elif version < _FIRST_STOP_REPLICA_WITH_STATES:
        named = [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    else:
        named = [
            (topic.topic_name, each.partition_index)
            for topic in request.topic_states
            for each in topic.partition_states
        ]
    return m.StopReplicaResponse(
        error_code=code,
        partition_errors=[
            m.StopReplicaPartitionError(topic_name=name, partition_index=index, error_code=code)
            for name, index in named
        ],
    )


def _none() -> None:
    """No message: Kafka sends none where an error's own sentence would be all."""


CLUSTER_ANSWERS: Final[dict[str, Answering]] = {
    "LeaderAndIsr": _leader_and_isr,
    "StopReplica": _stop_replica,
    "UpdateMetadata": alone("update_metadata", "UpdateMetadataResponse"),
    "ControlledShutdown": alone("controlled_shutdown", "ControlledShutdownResponse", remaining_partitions=list),
    "AlterReplicaLogDirs": _alter_replica_log_dirs,
    "DescribeLogDirs": alone("describe_log_dirs", "DescribeLogDirsResponse", results=list),
    "ElectLeaders": _elect_leaders,
    "AlterPartitionReassignments": _alter_partition_reassignments,
    "ListPartitionReassignments": _list_partition_reassignments,
    "DescribeQuorum": alone("describe_quorum", "DescribeQuorumResponse", with_message=True, topics=list),
    "UpdateFeatures": alone("update_features", "UpdateFeaturesResponse", error_message=_none),
    "DescribeCluster": alone("describe_cluster", "DescribeClusterResponse", cluster_id=str, brokers=list),
    "UnregisterBroker": alone("unregister_broker", "UnregisterBrokerResponse", with_message=True),
    "UnregisterController": alone("unregister_controller", "UnregisterControllerResponse", with_message=True),
    "DescribeTopicPartitions": _describe_topic_partitions,
    "AddRaftVoter": alone("add_raft_voter", "AddRaftVoterResponse", with_message=True),
    "RemoveRaftVoter": alone("remove_raft_voter", "RemoveRaftVoterResponse", with_message=True),
}
"""By API: what refuses a whole request."""

CLUSTER_PARTS: Final[dict[str, Answering]] = {
    "ElectLeaders": _elect_leaders_parts,
    "AlterPartitionReassignments": _alter_partition_reassignments_parts,
}
"""By API: what refuses each partition, where the other one says more than that."""
