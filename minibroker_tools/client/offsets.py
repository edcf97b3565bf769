"""ListOffsets, sent to the leaders of the partitions."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import list_offsets as api
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.failures import ApiError

TopicPartition: TypeAlias = tuple[str, int]
LATEST: Final = -1
EARLIEST: Final = -2


class Found(NamedTuple):
    """An offset with the timestamp of its record in ms, -1 for none; or the error in its place."""

    offset: int
    timestamp: int
    error: ApiError | None = None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The indexes of the partitions by their topics, in order."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def leaders_of(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The leader of each partition, -1 for one without. Partitions that do not exist are missing."""
    names = sorted({topic for topic, _ in partitions})
    return {
        (topic.name or "", partition.partition_index): partition.leader_id
        for topic in cluster.metadata(names).topics
        for partition in topic.partitions
    }


def list_offsets(
    cluster: Cluster, places: Mapping[TopicPartition, int], *, isolation: int = 0
) -> dict[TopicPartition, Found]:
    """The offset of each partition for a timestamp in ms, or for one of the negative numbers of the protocol."""
    leaders = leaders_of(cluster, places)
    found: dict[TopicPartition, Found] = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition in places:
        leader = leaders.get(partition)
        if leader is None:
            found[partition] = Found(-1, -1, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif leader < 0:
            found[partition] = Found(-1, -1, ApiError(ErrorCode.LEADER_NOT_AVAILABLE))
        else:
            by_leader.setdefault(leader, []).append(partition)
    for leader, partitions in by_leader.items():
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
                error = ApiError(each.error_code) if each.error_code else None
                found[answer.name, each.partition_index] = Found(each.offset, each.timestamp, error)
    return found
