"""Partitions on command lines: TOPIC and TOPIC:0,1,2."""

from collections.abc import Sequence

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition
from minibroker_tools.failures import UsageError


def split_topics(arguments: Sequence[str]) -> tuple[list[TopicPartition], list[str]]:
    """The partitions that the arguments name, and the topics that stand without partitions. UsageError."""
    partitions: list[TopicPartition] = []
    topics: list[str] = []
    for argument in arguments:
        topic, colon, numbers = argument.partition(":")
        if not colon:
            topics.append(topic)
            continue
        if not numbers or ":" in numbers:
            raise UsageError(f"Invalid topic arg '{argument}', expected topic name and partitions")
        for number in numbers.split(","):
            if not number.isdecimal():
                raise UsageError(f"Invalid partition '{number}' specified in topic arg '{argument}''")
            partitions.append((topic, int(number)))
    return partitions, topics


def partitions_of(cluster: Cluster, arguments: Sequence[str]) -> list[TopicPartition]:
    """All partitions that the arguments name. ApiError for a topic that does not exist, UsageError."""
    partitions, topics = split_topics(arguments)
    found = cluster.topics(topics) if topics else []
    partitions += [(topic.name or "", each.partition_index) for topic in found for each in topic.partitions]
    return list(dict.fromkeys(sorted(partitions)))
