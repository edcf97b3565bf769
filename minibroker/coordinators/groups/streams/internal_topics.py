"""The topology of a streams application, the partition counts of its internal topics, and the missing internal topics.

This is Kafka's `InternalTopicManager` with `RepartitionTopics`, `CopartitionedTopicsEnforcer` and `ChangelogTopics`.
The messages are Kafka's, because members show them to their users.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate
from typing import Final, NamedTuple, Self

from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.modern.topics import TopicMetadata
from minibroker.coordinators.java_order import hash_order, string_hash, table_size
from minibroker_protocol.coordinator_records.streams_groups import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.java_text import sort_in_java_order
from minibroker_protocol.messages import streams_group, streams_group_heartbeat

_MAX_LISTED_NAMES: Final = 3


@dataclass(frozen=True)
class Topology:
    """The topology of a streams application in one epoch, as sent by its members (Kafka's `StreamsTopology`).

    Attributes:
        subtopologies: The subtopologies by id, in the order in which they were sent.
    """

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    @classmethod
    def of(cls, value: StreamsGroupTopologyValue) -> Self:
        """Return the topology in a record.

        Raises:
            GroupRefusedError: Two subtopologies have the same id.
        """
        subtopologies = {subtopology.subtopology_id: subtopology for subtopology in value.subtopologies}
        if len(subtopologies) < len(value.subtopologies):
            message = "The topology has two subtopologies of the same name."
            raise GroupRefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        return cls(value.epoch, subtopologies)

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """The topics required to run any task."""
        changelogs = (info.name for sub in self.subtopologies.values() for info in sub.state_changelog_topics)
        return frozenset(self.sources) | frozenset(changelogs)

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """The topics read by tasks, each with the id of the subtopology that reads it."""
        return {
            topic: subtopology_id
            for subtopology_id, subtopology in self.subtopologies.items()
            for topic in source_topics(subtopology)
        }


def source_topics(subtopology: Subtopology) -> list[str]:
    """Return the topics read by the tasks of a subtopology."""
    return [*subtopology.source_topics, *(info.name for info in subtopology.repartition_source_topics)]


def to_record(topology: streams_group_heartbeat.Topology) -> StreamsGroupTopologyValue:
    """Return the record of a topology sent by a member."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=subtopology.source_topics,
                source_topic_regex=subtopology.source_topic_regex,
                state_changelog_topics=[_to_topic_record(info) for info in subtopology.state_changelog_topics],
                repartition_sink_topics=subtopology.repartition_sink_topics,
                repartition_source_topics=[_to_topic_record(info) for info in subtopology.repartition_source_topics],
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in subtopology.copartition_groups
                ],
            )
            for subtopology in topology.subtopologies
        ],
    )


def _to_topic_record(info: streams_group.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=info.name,
        partitions=info.partitions,
        replication_factor=info.replication_factor,
        topic_configs=[TopicConfig(key=config.key, value=config.value) for config in info.topic_configs],
    )


class StatusCode(IntEnum):
    """A group condition reported to its members (Kafka's `StreamsGroupHeartbeatResponse.Status`)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Status(NamedTuple):
    """A status code with a message."""

    code: StatusCode
    detail: str


class _NotReadyError(Exception):
    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


class InternalTopic(NamedTuple):
    """An internal topic of the application. A replication factor of 0 stands for the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with a known number of tasks.

    Attributes:
        tasks: The number of tasks.
        sources: The topics read by the tasks, including repartition topics.
        external_sources: The topics read by the tasks, without repartition topics.
        sinks: The repartition topics written by the tasks.
        repartition: The internal topics read by the tasks.
        changelogs: The internal topics that store the tasks' state.
    """

    tasks: int
    sources: tuple[str, ...]
    external_sources: tuple[str, ...]
    sinks: tuple[str, ...]
    repartition: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]


class ConfiguredTopology(NamedTuple):
    """A topology configured for the existing topics.

    Attributes:
        subtopologies: The subtopologies sorted by id, or None if the existing topics do not fit.
        missing: The internal topics that must be created, by name.
        fault: The reason why no task can run yet, or None.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Mapping[str, InternalTopic]
    fault: Status | None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can run."""
        return self.fault is None


def configure(
    topology: Topology, topics: Mapping[str, TopicMetadata], *, summarizes_names: bool = True
) -> ConfiguredTopology:
    """Compute the tasks and internal topics of a topology.

    Args:
        topology: The topology.
        topics: The existing topics of the topology.
        summarizes_names: Whether a status lists only the first missing topics, as it does since Kafka 4.2.

    Raises:
        GroupRefusedError: STREAMS_INVALID_TOPOLOGY if the topology cannot work with any topics, or
            UNKNOWN_SERVER_ERROR if Kafka fails on the topology with an unexpected exception.
    """
    sources = {name for sub in topology.subtopologies.values() for name in sub.source_topics}
    if missing_sources := sorted(sources - topics.keys()):
        names = _summarize_names(missing_sources) if summarizes_names else ", ".join(missing_sources)
        detail = f"Source topics {names} are missing."
        return ConfiguredTopology(topology.epoch, None, {}, Status(StatusCode.MISSING_SOURCE_TOPICS, detail))
    try:
        counts = _Counts(topology, topics)
        counts.decide_repartition_topics()
        counts.decide_copartitioned_topics()
        counts.decide_changelogs()
        subtopologies = {
            name: counts.configure_subtopology(sub) for name, sub in sort_in_java_order(topology.subtopologies)
        }
        missing = _find_missing_topics(subtopologies, topology, topics)
    except _NotReadyError as error:
        return ConfiguredTopology(topology.epoch, None, {}, error.status)
    fault = None
    if missing:
        names = _summarize_names(missing) if summarizes_names else f"[{', '.join(missing)}]"
        fault = Status(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology.epoch, subtopologies, missing, fault)


def _find_missing_topics(
    subtopologies: Mapping[str, ConfiguredSubtopology], topology: Topology, topics: Mapping[str, TopicMetadata]
) -> Mapping[str, InternalTopic]:
    """Return the missing internal topics in the iteration order of Java's `HashMap`.

    Raises:
        _NotReadyError: An existing internal topic has the wrong number of partitions.
    """
    needed = {info.name: info for sub in subtopologies.values() for info in (*sub.repartition, *sub.changelogs)}
    size = table_size(len(needed))
    for name in hash_order(topology.required_topics, string_hash):
        existing = topics.get(name)
        expected = None if existing is None else needed.pop(name, None)
        if existing is not None and expected is not None and existing.partitions != expected.partitions:
            raise _NotReadyError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected.partitions}, "
                f"found {existing.partitions}",
            )
    return {name: needed[name] for name in hash_order(needed, string_hash, size)}


class _Counts:
    """The partition counts of internal topics, decided step by step."""

    def __init__(self, topology: Topology, topics: Mapping[str, TopicMetadata]) -> None:
        self._topics = topics
        self._subtopologies = list(topology.subtopologies.values())
        self._repartition_sources = [info for sub in self._subtopologies for info in sub.repartition_source_topics]
        self._decided: dict[str, int] = {}
        self._fixed: set[int] | None = None

    def _find_count(self, name: str) -> int | None:
        existing = self._topics.get(name)
        return self._decided.get(name) if existing is None else existing.partitions

    def _count_or_fail(self, name: str) -> int:
        if (count := self._find_count(name)) is None:
            raise GroupRefusedError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"Number of partitions must be set for topic {name}"
            )
        return count

    def decide_repartition_topics(self) -> None:
        """Decide the partition counts of repartition topics.

        A repartition topic has the count sent by the member. If none was sent, it has the count of the largest source
        of a subtopology that writes to it.

        Raises:
            GroupRefusedError: A count cannot be decided.
        """
        counts = {info.name: info.partitions for info in self._repartition_sources if info.partitions}
        if not self._follow_sources(counts):
            raise GroupRefusedError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "Failed to compute number of partitions for all repartition topics. "
                "There may be loops in the topology that cannot be resolved.",
            )
        if any(info.name not in counts for info in self._repartition_sources):
            raise GroupRefusedError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "Failed to compute number of partitions for all repartition topics, because "
                "a repartition source topic is never used as a sink topic.",
            )
        self._decided.update(counts)

    def _follow_sources(self, counts: dict[str, int]) -> bool:
        """Give each sink the count of its largest source known so far, and return whether all sinks have a count.

        Kafka visits all sinks repeatedly until nothing changes. Here a sink is visited, in the same order, when its
        count can be decided. Otherwise a topology of n subtopologies in reverse order would take n rounds.
        """
        readers: dict[str, list[int]] = {}
        largest: list[int | None] = []
        for index, sub in enumerate(self._subtopologies):
            source_counts = [count for name in sub.source_topics if (count := self._find_count(name)) is not None]
            for name in dict.fromkeys(info.name for info in sub.repartition_source_topics):
                readers.setdefault(name, []).append(index)
                source_counts += [counts[name]] if name in counts else []
            largest.append(max(source_counts, default=None))
        sinks = [(index, sink) for index, sub in enumerate(self._subtopologies) for sink in sub.repartition_sink_topics]
        # The index of each subtopology's first sink, and the number of sinks.
        first_sinks = list(accumulate((len(sub.repartition_sink_topics) for sub in self._subtopologies), initial=0))
        turns = [(0, sink_index) for sink_index, (index, _) in enumerate(sinks) if largest[index] is not None]
        while turns:
            turn, sink_index = heappop(turns)
            index, sink = sinks[sink_index]
            count = largest[index]
            if sink in counts or count is None:
                continue
            counts[sink] = count
            for reader in readers.get(sink, ()):
                if (previous_count := largest[reader]) is None:
                    for waiting_sink in range(first_sinks[reader], first_sinks[reader + 1]):
                        heappush(turns, (turn if waiting_sink > sink_index else turn + 1, waiting_sink))
                largest[reader] = count if previous_count is None else max(previous_count, count)
        return all(sink in counts for _, sink in sinks)

    def decide_copartitioned_topics(self) -> None:
        """Set the same partition count for topics that are joined with each other."""
        fixed = {info.name for info in self._repartition_sources if info.partitions}
        internal = {info.name for info in self._repartition_sources}
        for subtopology in self._subtopologies:
            for names in _iterate_copartition_groups(subtopology):
                self._decided.update(self._enforce_counts(names, fixed, internal))

    def _enforce_counts(self, names: set[str], fixed: set[str], internal: set[str]) -> dict[str, int]:
        if not names:
            return {}
        repartition = {name: self._count_or_fail(name) for name in sorted(names & internal)}
        external = {name: self._count_or_fail(name) for name in sorted(names - repartition.keys())}
        if external:
            count = _find_common_count(external, external.values())
        elif fixed:
            # Partition counts sent by the client never change, so look them up only once.
            if self._fixed is None:
                self._fixed = {self._count_or_fail(name) for name in sorted(fixed)}
            count = _find_common_count(repartition, self._fixed)
        else:
            count = max(repartition.values())
        for name, partitions in repartition.items():
            if name in fixed and partitions != count:
                raise _NotReadyError(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{partitions}] of repartition topic [{name}] "
                    f"doesn't match number of partitions [{count}] of the source topic.",
                )
        return dict.fromkeys(repartition, count)

    def decide_changelogs(self) -> None:
        """Set the partition count of each changelog topic to the number of tasks of its subtopology.

        Raises:
            GroupRefusedError: A subtopology has no source topics.
        """
        for subtopology in self._subtopologies:
            topic_names = source_topics(subtopology)
            if not topic_names:
                raise GroupRefusedError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"No source topics found for subtopology {subtopology.subtopology_id}",
                )
            tasks = max(map(self._count_or_fail, topic_names))
            self._decided.update((info.name, tasks) for info in subtopology.state_changelog_topics)

    def configure_subtopology(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        """Return the configured subtopology, with its number of tasks and its internal topics."""
        topic_names = source_topics(subtopology)
        return ConfiguredSubtopology(
            tasks=max(map(self._count_or_fail, topic_names)),
            sources=tuple(dict.fromkeys(topic_names)),
            external_sources=tuple(subtopology.source_topics),
            sinks=tuple(subtopology.repartition_sink_topics),
            repartition=tuple(self._to_internal_topic(info) for info in subtopology.repartition_source_topics),
            changelogs=tuple(self._to_internal_topic(info) for info in subtopology.state_changelog_topics),
        )

    def _to_internal_topic(self, info: TopicInfo) -> InternalTopic:
        return InternalTopic(
            info.name,
            info.partitions or self._decided[info.name],
            info.replication_factor,
            {config.key: config.value for config in info.topic_configs},
        )


def _iterate_copartition_groups(subtopology: Subtopology) -> Iterator[set[str]]:
    """Yield the sets of topics that must have the same partition count.

    Raises:
        GroupRefusedError: An index is out of bounds.
    """
    repartition = [info.name for info in subtopology.repartition_source_topics]
    for group in subtopology.copartition_groups:
        source_names = set(_names_at(subtopology.source_topics, group.source_topics))
        yield source_names | set(_names_at(repartition, group.repartition_source_topics))


def _names_at(names: list[str], indexes: Sequence[int]) -> list[str]:
    wrong = next((index for index in indexes if not 0 <= index < len(names)), None)
    if wrong is not None:
        raise GroupRefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Index {wrong} out of bounds for length {len(names)}")
    return [names[index] for index in indexes]


def _find_common_count(count_by_topic: Mapping[str, int], counts: Iterable[int]) -> int:
    """Return the partition count that all the topics have.

    Raises:
        _NotReadyError: The counts differ.
    """
    different = set(counts)
    if len(different) > 1:
        listing = ", ".join(f"{name}={count}" for name, count in sorted(count_by_topic.items()))
        raise _NotReadyError(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listing}}}]",
        )
    return different.pop()


def _summarize_names(names: Iterable[str]) -> str:
    listed = list(names)
    unlisted = len(listed) - _MAX_LISTED_NAMES
    return ", ".join(listed[:_MAX_LISTED_NAMES]) + (f" and {unlisted} additional topics" if unlisted > 0 else "")
