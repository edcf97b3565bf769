"""Moves replicas between brokers (through the controller), and between the log directories of a broker."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import log_dirs
from minibroker_protocol.messages import reassignments as api
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition, by_partition, group_by_topic, group_values
from minibroker_tools.failures import ApiError, find_error, raise_if_failed

_KEEP_FACTOR_VERSION: Final = 1
"""The first AlterPartitionReassignments version that can forbid changes to the replication factor (KIP-860)."""
_KEEP_FACTOR_UNSUPPORTED: Final = (
    "The broker does not support the AllowReplicationFactorChange option for the AlterPartitionReassignments API. "
    "Consider re-sending the request without the option or updating the server version"
)


Reassignment: TypeAlias = api.OngoingPartitionReassignment


class Replica(NamedTuple):
    """A replica of a partition on a broker."""

    node: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.node}"


def list_reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """Return the ongoing reassignments of these partitions, or of all partitions if None.

    Raises:
        ApiError: The controller returned an error.
    """
    topics = None
    if partitions is not None:
        topics = [
            api.ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
            for name, indexes in group_by_topic(partitions).items()
        ]
    request = api.ListPartitionReassignmentsRequest(topics=topics)
    response: api.ListPartitionReassignmentsResponse = cluster.ask_with_retries(cluster.controller, request)
    return by_partition(response.topics)


def alter_reassignments(
    cluster: Cluster, targets: Mapping[TopicPartition, list[int] | None], *, keep_factor: bool = False
) -> dict[TopicPartition, ApiError]:
    """Start or cancel reassignments, and return the error of each refused partition.

    Args:
        cluster: The cluster of the partitions.
        targets: The new replicas of each partition, or None to cancel its reassignment.
        keep_factor: Whether to refuse changes to the replication factor (KIP-860).

    Raises:
        ApiError: The controller refused the whole request.
    """
    request = api.AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=not keep_factor,
        topics=[
            api.ReassignableTopic(
                name=name,
                partitions=[
                    api.ReassignablePartition(partition_index=index, replicas=targets[name, index]) for index in indexes
                ],
            )
            for name, indexes in group_by_topic(targets).items()
        ],
    )

    if keep_factor and cluster.any().version_for(request) < _KEEP_FACTOR_VERSION:
        return dict.fromkeys(targets, ApiError(ErrorCode.UNSUPPORTED_VERSION, _KEEP_FACTOR_UNSUPPORTED))
    response: api.AlterPartitionReassignmentsResponse = cluster.ask_with_retries(cluster.controller, request)
    return {
        key: error
        for key, partition in by_partition(response.responses).items()
        if (error := find_error(partition)) is not None
    }


def replica_directories(cluster: Cluster, replicas: Iterable[Replica]) -> dict[Replica, tuple[str | None, str | None]]:
    """Return each replica's current log directory, and the directory to which it is being moved.

    Raises:
        ApiError: A broker returned an error.
    """
    directories_by_replica: dict[Replica, tuple[str | None, str | None]] = {}
    for node, group in _group_by_node(replicas).items():
        topics = group_by_topic((replica.topic, replica.partition) for replica in group)
        request = log_dirs.DescribeLogDirsRequest(
            topics=[log_dirs.DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics.items()]
        )
        response: log_dirs.DescribeLogDirsResponse = raise_if_failed(cluster.node(node).ask(request))
        directories_by_replica |= dict.fromkeys(group, (None, None))
        for result in response.results:
            for key, info in by_partition(result.topics).items():
                replica = Replica(node, *key)
                current, future = directories_by_replica.get(replica, (None, None))
                moved = (current, result.log_dir) if info.is_future_key else (result.log_dir, future)
                directories_by_replica[replica] = moved
    return directories_by_replica


def move_directories(cluster: Cluster, targets: Mapping[Replica, str]) -> dict[Replica, ApiError | None]:
    """Start moving replicas to other log directories on their brokers. Return each replica's error, or None."""
    results: dict[Replica, ApiError | None] = {}
    for node, group in _group_by_node(targets).items():
        paths = group_values((targets[replica], (replica.topic, replica.partition)) for replica in group)
        request = log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                log_dirs.AlterReplicaLogDir(
                    path=path,
                    topics=[
                        log_dirs.AlterReplicaLogDirTopic(name=name, partitions=indexes)
                        for name, indexes in group_by_topic(partitions).items()
                    ],
                )
                for path, partitions in paths.items()
            ]
        )
        response: log_dirs.AlterReplicaLogDirsResponse = cluster.node(node).ask(request)
        for topic in response.results:
            for result in topic.partitions:
                results[Replica(node, topic.topic_name, result.partition_index)] = find_error(result)
    return results


def _group_by_node(replicas: Iterable[Replica]) -> dict[int, list[Replica]]:
    return group_values((replica.node, replica) for replica in sorted(replicas))
