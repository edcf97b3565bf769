"""Committed offsets of groups: OffsetFetch and OffsetCommit, sent to the group's coordinator."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from minibroker_protocol.messages import offset_commit as commits
from minibroker_protocol.messages import offset_fetch as fetches
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition, by_topic
from minibroker_tools.failures import ApiError, check

Member: TypeAlias = tuple[int, str, str | None]
"""Generation, member id and instance id."""
NO_MEMBER: Member = (-1, "", None)


def committed_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, int]:
    """The committed offsets of the group, of all partitions for None. ApiError."""
    topics = None if partitions is None else by_topic(partitions)
    asked = (
        None
        if topics is None
        else [
            fetches.OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ]
    )
    older = (
        None
        if topics is None
        else [fetches.OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    )
    request = fetches.OffsetFetchRequest(
        group_id=group, topics=older, groups=[fetches.OffsetFetchRequestGroup(group_id=group, topics=asked)]
    )

    def fetch() -> dict[TopicPartition, int]:
        response: fetches.OffsetFetchResponse = cluster.coordinator(group).ask(request)
        check(response.error_code)
        for answer in response.groups:
            check(answer.error_code)
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
    """Commit offsets as a member of the group or, without one, as an outsider; the error of each partition."""
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
        (topic.name, each.partition_index): ApiError(each.error_code) if each.error_code else None
        for topic in response.topics
        for each in topic.partitions
    }
