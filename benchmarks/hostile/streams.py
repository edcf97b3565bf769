"""Requests of members of streams groups (KIP-1071)."""

import uuid

from benchmarks.hostile.case import Attack, Cases, Target, sent
from minibroker_protocol.messages.streams_group import StreamsGroupDescribeRequest, TopicInfo
from minibroker_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology

_CASES = Cases()
case = _CASES.case
_NO_KAFKA = "Kafka 3.9.1 does not serve streams groups"


def _join(target: Target, subtopologies: list[Subtopology]) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        group_id=target.tag,
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        endpoint_information_epoch=0,
        rebalance_timeout_ms=60_000,
        topology=Topology(epoch=0, subtopologies=subtopologies),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id=str(uuid.uuid4()),
        client_tags=[],
    )


def _internal(name: str, partitions: int = 0) -> TopicInfo:
    return TopicInfo(name=name, partitions=partitions, replication_factor=1, topic_configs=[])


def _subtopology(number: int, **topics: list[str] | list[TopicInfo]) -> Subtopology:
    return Subtopology(
        subtopology_id=f"{number:05}",
        source_topics=topics.get("sources", []),  # type: ignore[arg-type]  # names
        source_topic_regex=[],
        state_changelog_topics=topics.get("changelogs", []),  # type: ignore[arg-type]  # topics
        repartition_sink_topics=topics.get("sinks", []),  # type: ignore[arg-type]  # names
        repartition_source_topics=topics.get("repartition", []),  # type: ignore[arg-type]  # topics
        copartition_groups=[],
    )


@case("StreamsGroupHeartbeat with 600 subtopologies in the wrong order", 600, alone=_NO_KAFKA)
def streams_chain(target: Target, size: int) -> Attack:
    source = target.topic()
    chain = [
        _subtopology(
            number,
            sources=[source] if number == size - 1 else [],
            sinks=[f"{target.tag}-{number}"],
            repartition=[_internal(f"{target.tag}-{number + 1}")] if number < size - 1 else [],
        )
        for number in range(size)
    ]
    last = _subtopology(size, repartition=[_internal(f"{target.tag}-0")])
    return sent((_join(target, [*chain, last]), 0))


@case("StreamsGroupHeartbeat that needs 1,000 topics of 9 partitions", 1_000, alone=_NO_KAFKA)
def streams_topics(target: Target, size: int) -> Attack:
    changelogs = [_internal(f"{target.tag}-changelog-{number}") for number in range(size)]
    return sent((_join(target, [_subtopology(0, sources=[target.topic(9)], changelogs=changelogs)]), 0))


@case("StreamsGroupHeartbeat with 60,000 subtopologies", 60_000, alone=_NO_KAFKA)
def streams_large(target: Target, size: int) -> Attack:
    source = target.topic()
    return sent((_join(target, [_subtopology(number, sources=[source]) for number in range(size)]), 0))


@case("50 members join a streams group of 9,000 tasks, and describe it", 9_000, alone=_NO_KAFKA)
def streams_members(target: Target, size: int) -> Attack:
    subtopologies = [_subtopology(0, sources=[target.topic(size)])]
    joins = [(_join(target, subtopologies), 0) for _ in range(50)]
    return sent(*joins, (StreamsGroupDescribeRequest(group_ids=[target.tag], include_authorized_operations=False), 0))


CASES = tuple(_CASES.found)
