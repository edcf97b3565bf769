"""The partitions that tasks stand for: for interactive queries, and for people."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from minibroker.cluster.topics import Topics
from minibroker.coordinators.groups.modern.partitions import Partitions
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.coordinators.groups.streams.internal_topics import ConfiguredSubtopology
from minibroker.coordinators.groups.streams.member import StreamsMember
from minibroker.coordinators.groups.streams.tasks import Tasks, TaskSets
from minibroker.coordinators.groups.streams.topology import source_topics
from minibroker_protocol.java_text import in_java_order


class EndpointPartitions(NamedTuple):
    """The source partitions of a member that answers interactive queries, by topic (`EndpointToPartitionsManager`)."""

    endpoint: tuple[str, int]
    active: list[tuple[str, list[int]]]
    standby: list[tuple[str, list[int]]]


def endpoints_of(group: StreamsGroup, members: Iterable[StreamsMember]) -> list[EndpointPartitions]:
    """The partitions that each member with an endpoint answers for; none while topics do not fit."""
    subtopologies = None if group.configured is None else group.configured.subtopologies
    if subtopologies is None:
        return []
    return [
        EndpointPartitions(
            each.endpoint,
            _places(group, subtopologies, each.assigned.without_epochs().active),
            _places(group, subtopologies, each.assigned.copies),
        )
        for each in members
        if each.endpoint is not None
    ]


def _places(
    group: StreamsGroup, subtopologies: Mapping[str, ConfiguredSubtopology], tasks: TaskSets
) -> list[tuple[str, list[int]]]:
    found: list[tuple[str, list[int]]] = []
    for subtopology, indexes in in_java_order(tasks):
        for topic in subtopologies[subtopology].sources if subtopology in subtopologies else ():
            there = group.topics.get(topic)
            known = [index for index in sorted(indexes) if there is not None and index < there.partitions]
            if known:
                found.append((topic, known))
    return found


def partitions_of_tasks(group: StreamsGroup, tasks: Tasks, topics: Topics) -> Partitions:
    """The partitions that active tasks read, by the ids of their topics."""
    found: dict[bytes, frozenset[int]] = {}
    for subtopology, indexes in tasks.active.items():
        known = None if group.topology is None else group.topology.subtopologies.get(subtopology)
        for name in () if known is None else source_topics(known):
            topic = topics.get(name)
            if topic is not None:
                found[topic.id] = frozenset(each for each in indexes if each < len(topic.partitions))
    return found
