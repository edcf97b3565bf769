"""The topology of a streams application, as its members send it (Kafka's `StreamsTopology`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from minibroker_protocol.coordinator_records.streams_groups import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from minibroker_protocol.messages import streams_group_heartbeat, streams_tasks


class DuplicateSubtopologyError(Exception):
    """A topology that has a subtopology twice."""


@dataclass(frozen=True)
class Topology:
    """The topology of one epoch.

    Attributes:
        subtopologies: by their ids, in the order in which they were sent.
    """

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    @classmethod
    def of(cls, value: StreamsGroupTopologyValue) -> Self:
        """The topology of a record. DuplicateSubtopologyError."""
        subtopologies = {each.subtopology_id: each for each in value.subtopologies}
        if len(subtopologies) < len(value.subtopologies):
            raise DuplicateSubtopologyError
        return cls(value.epoch, subtopologies)

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """The topics without which no task can run."""
        changelogs = (info.name for each in self.subtopologies.values() for info in each.state_changelog_topics)
        return frozenset(self.sources) | frozenset(changelogs)

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """Each topic that tasks read, with the id of its subtopology."""
        return {
            topic: subtopology_id
            for subtopology_id, each in self.subtopologies.items()
            for topic in source_topics(each)
        }


def source_topics(subtopology: Subtopology) -> list[str]:
    """The topics that the tasks of a subtopology read."""
    return [*subtopology.source_topics, *(info.name for info in subtopology.repartition_source_topics)]


def to_record(topology: streams_group_heartbeat.Topology) -> StreamsGroupTopologyValue:
    """The record of a topology that a member has sent."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                state_changelog_topics=[_topic(info) for info in each.state_changelog_topics],
                repartition_sink_topics=each.repartition_sink_topics,
                repartition_source_topics=[_topic(info) for info in each.repartition_source_topics],
                copartition_groups=[_copartition(group) for group in each.copartition_groups],
            )
            for each in topology.subtopologies
        ],
    )


def _topic(info: streams_tasks.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=info.name,
        partitions=info.partitions,
        replication_factor=info.replication_factor,
        topic_configs=[TopicConfig(key=each.key, value=each.value) for each in info.topic_configs],
    )


def _copartition(group: streams_group_heartbeat.CopartitionGroup) -> CopartitionGroup:
    return CopartitionGroup(
        source_topics=group.source_topics,
        source_topic_regex=group.source_topic_regex,
        repartition_source_topics=group.repartition_source_topics,
    )
