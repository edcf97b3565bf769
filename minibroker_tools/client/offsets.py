"""Offsets of partitions (ListOffsets) and committed offsets of groups (OffsetFetch and OffsetCommit).

ListOffsets requests go to the leaders of the partitions, and the other requests to the coordinator of the group.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import log_offsets as api
from minibroker_protocol.messages import offsets as commits
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.failures import ApiError, check_all, find_error, raise_if_failed

K = TypeVar("K")
V = TypeVar("V")

TopicPartition: TypeAlias = tuple[str, int]
LATEST: Final = -1
EARLIEST: Final = -2
Member: TypeAlias = tuple[int, str, str | None]
"""A generation, a member id and a group instance id."""
NO_MEMBER: Member = (-1, "", None)


def group_values(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Group the values of pairs by key, in order."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition indexes by topic, both in sorted order."""
    return group_values(sorted(partitions))


def by_partition(topics: Iterable[Any]) -> dict[TopicPartition, Any]:
    """Return a response's partitions by topic name and partition index."""
    return {(topic.name or "", info.partition_index): info for topic in topics for info in topic.partitions}


def find_leaders(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the leader of each partition, or -1 if it has none. Partitions that do not exist are omitted."""
    names = sorted({topic for topic, _ in partitions})
    topics = cluster.metadata(names).topics
    return {key: partition.leader_id for key, partition in by_partition(topics).items()}


def group_by_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, ApiError]]:
    """Group partitions by leader. Also return the errors of partitions that do not exist or have no leader."""
    targets = list(partitions)
    leaders = find_leaders(cluster, targets) if targets else {}
    groups: dict[int, list[TopicPartition]] = {}
    errors: dict[TopicPartition, ApiError] = {}
    for partition in targets:
        leader = leaders.get(partition)
        if leader is None:
            errors[partition] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif leader < 0:
            errors[partition] = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            groups.setdefault(leader, []).append(partition)
    return groups, errors


def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], *, isolation: int = 0
) -> dict[TopicPartition, int | ApiError]:
    """Look up the offset of each partition for its timestamp.

    Timestamps are in milliseconds. Negative timestamps are the protocol's special values, such as LATEST.
    """
    groups, errors = group_by_leader(cluster, timestamps)
    results: dict[TopicPartition, int | ApiError] = {**errors}
    for leader, partitions in groups.items():
        topics = [
            api.ListOffsetsTopic(
                name=name,
                partitions=[
                    api.ListOffsetsPartition(partition_index=index, timestamp=timestamps[name, index])
                    for index in indexes
                ],
            )
            for name, indexes in group_by_topic(partitions).items()
        ]
        request = api.ListOffsetsRequest(isolation_level=isolation, topics=topics, timeout_ms=30_000)
        response: api.ListOffsetsResponse = cluster.node(leader).ask(request)
        for key, result in by_partition(response.topics).items():
            results[key] = find_error(result) or result.offset
    return results


def list_offsets_at(
    cluster: Cluster, partitions: Iterable[TopicPartition], timestamp: int, *, isolation: int = 0
) -> dict[TopicPartition, int]:
    """Like `list_offsets`, but look up one timestamp in all partitions and raise errors.

    Raises:
        ApiError: A partition has an error. Only the first error is raised.
    """
    offsets: dict[TopicPartition, int] = {}
    results = list_offsets(cluster, dict.fromkeys(partitions, timestamp), isolation=isolation)
    for partition, result in results.items():
        if isinstance(result, ApiError):
            raise result
        offsets[partition] = result
    return offsets


def fetch_committed_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, int]:
    """Return the committed offsets of the group for these partitions, or for all partitions if None.

    Raises:
        ApiError: The coordinator returned an error.
    """
    topics = group_by_topic(partitions or ()).items()
    group_topics = [commits.OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics]
    older_topics = [commits.OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics]
    is_all = partitions is None
    request = commits.OffsetFetchRequest(
        group_id=group,
        topics=None if is_all else older_topics,
        groups=[commits.OffsetFetchRequestGroup(group_id=group, topics=None if is_all else group_topics)],
    )

    def fetch() -> dict[TopicPartition, int]:
        response: commits.OffsetFetchResponse = raise_if_failed(cluster.coordinator(group).ask(request))
        check_all(response.groups)
        committed = by_partition([topic for answer in response.groups for topic in answer.topics] or response.topics)
        return {
            key: partition.committed_offset
            for key, partition in committed.items()
            if partition.committed_offset >= 0 and not partition.error_code
        }

    return cluster.retry(fetch)


def commit_offsets(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int], *, member: Member = NO_MEMBER
) -> dict[TopicPartition, ApiError | None]:
    """Commit offsets and return the error of each partition, or None on success.

    Args:
        cluster: The cluster of the group.
        group: The group id.
        offsets: The offset to commit for each partition.
        member: The group member that commits, or NO_MEMBER to commit from outside the group.
    """
    generation, member_id, instance = member
    request = commits.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=[
            commits.OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    commits.OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offsets[name, index], committed_metadata=""
                    )
                    for index in indexes
                ],
            )
            for name, indexes in group_by_topic(offsets).items()
        ],
    )
    response: commits.OffsetCommitResponse = cluster.coordinator(group).ask(request)
    return {key: find_error(partition) for key, partition in by_partition(response.topics).items()}
