"""Offsets of partitions (ListOffsets) and committed offsets of groups (OffsetFetch and OffsetCommit).

ListOffsets requests go to the leaders of the partitions, the others to the coordinator of the group.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import log_offsets as api
from minibroker_protocol.messages import offsets as commits
from minibroker_protocol.messages import offsets as fetches
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.failures import ApiError, check_all, checked, error_in

TopicPartition: TypeAlias = tuple[str, int]
LATEST: Final = -1
EARLIEST: Final = -2
Member: TypeAlias = tuple[int, str, str | None]
"""Generation, member id and group instance id."""
NO_MEMBER: Member = (-1, "", None)


class Found(NamedTuple):
    """An offset with the timestamp of its record in milliseconds, or an error. -1 means no timestamp."""

    offset: int
    timestamp: int
    error: ApiError | None = None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group sorted partition indexes by topic."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def leaders_of(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the leader of each partition, -1 if the partition has none. Missing partitions are left out."""
    names = sorted({topic for topic, _ in partitions})
    return {
        (topic.name or "", partition.partition_index): partition.leader_id
        for topic in cluster.metadata(names).topics
        for partition in topic.partitions
    }


def by_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, ApiError]]:
    """Group partitions by leader. Also return the errors of partitions that do not exist or have no leader."""
    asked = list(partitions)
    known = leaders_of(cluster, asked) if asked else {}
    groups: dict[int, list[TopicPartition]] = {}
    errors: dict[TopicPartition, ApiError] = {}
    for partition in asked:
        leader = known.get(partition)
        if leader is None:
            errors[partition] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif leader < 0:
            errors[partition] = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            groups.setdefault(leader, []).append(partition)
    return groups, errors


def list_offsets(
    cluster: Cluster, places: Mapping[TopicPartition, int], *, isolation: int = 0
) -> dict[TopicPartition, Found]:
    """Return each partition's offset for a timestamp in milliseconds, or for one of the protocol's negative values."""
    groups, errors = by_leader(cluster, places)
    found = {partition: Found(-1, -1, error) for partition, error in errors.items()}
    for leader, partitions in groups.items():
        topics: dict[str, list[api.ListOffsetsPartition]] = {}
        for topic, index in partitions:
            asked = api.ListOffsetsPartition(partition_index=index, timestamp=places[topic, index])
            topics.setdefault(topic, []).append(asked)
        request = api.ListOffsetsRequest(
            isolation_level=isolation,
            topics=[api.ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
            timeout_ms=30_000,
        )
        response: api.ListOffsetsResponse = cluster.node(leader).ask(request)
        for answer in response.topics:
            for each in answer.partitions:
                found[answer.name, each.partition_index] = Found(each.offset, each.timestamp, error_in(each))
    return found


def offsets_at(
    cluster: Cluster, partitions: Iterable[TopicPartition], at: int, *, isolation: int = 0
) -> dict[TopicPartition, int]:
    """Return the offset of each partition for the same timestamp, as in `list_offsets`.

    Raises:
        ApiError: A partition has an error. The first such error is raised.
    """
    found = list_offsets(cluster, dict.fromkeys(partitions, at), isolation=isolation)
    error = next((place.error for place in found.values() if place.error is not None), None)
    if error is not None:
        raise error
    return {partition: place.offset for partition, place in found.items()}


def committed_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, int]:
    """Return the committed offsets of the group for these partitions, or for all partitions if None.

    Raises:
        ApiError: The coordinator returned an error.
    """
    asked, older = None, None
    if partitions is not None:
        topics = by_topic(partitions).items()
        asked = [fetches.OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics]
        older = [fetches.OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics]
    request = fetches.OffsetFetchRequest(
        group_id=group, topics=older, groups=[fetches.OffsetFetchRequestGroup(group_id=group, topics=asked)]
    )

    def fetch() -> dict[TopicPartition, int]:
        response: fetches.OffsetFetchResponse = checked(cluster.coordinator(group).ask(request))
        check_all(response.groups)
        found = [topic for answer in response.groups for topic in answer.topics] or response.topics
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in found
            for each in topic.partitions
            if each.committed_offset >= 0 and not each.error_code
        }

    return cluster.retried(fetch)


def commit_offsets(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int], *, member: Member = NO_MEMBER
) -> dict[TopicPartition, ApiError | None]:
    """Commit offsets and return the error of each partition, or None on success.

    Args:
        cluster: The cluster of the group.
        group: The group id.
        offsets: The offset to commit for each partition.
        member: The member that commits. By default the commit is made outside the group's membership.
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
            for name, indexes in by_topic(offsets).items()
        ],
    )
    response: commits.OffsetCommitResponse = cluster.coordinator(group).ask(request)
    return {
        (topic.name, each.partition_index): error_in(each) for topic in response.topics for each in topic.partitions
    }
