"""OffsetFetch: how far groups have read.

Versions 0-10. Version 0, which older Kafkas answered from ZooKeeper, is served as any other. Null topics (version 2)
ask for all that a group has committed; version 8 asks for several groups (KIP-709); the member of version 9 matters to
no classic group. Partitions are not held against the topics that there are; offset -1 says that nothing is committed.
With `require_stable` (version 7, KIP-447) a partition that an open transaction may change is UNSTABLE_OFFSET_COMMIT. An
error of a whole group, such as COORDINATOR_LOAD_IN_PROGRESS, stands at each of its partitions before version 2.
Version 10 names topics by their ids: an unknown one is UNKNOWN_TOPIC_ID, and of all that a group has committed,
offsets of topics that are gone are not returned.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from minibroker.cluster.topics import with_names
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.requests.call import Call
from minibroker.requests.declarations import Refusal, topics_at
from minibroker.requests.requirements import asked_by_handler
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from minibroker_protocol.records.header import NO_OFFSET
from minibroker_protocol.schema import first_version

_FIRST_WITH_GROUP_ERROR: Final = first_version(OffsetFetchResponse, "error_code")
_FIRST_WITH_GROUPS: Final = first_version(OffsetFetchRequest, "groups")
_FIRST_WITH_TOPIC_IDS: Final = first_version(OffsetFetchRequestTopics, "topic_id")
_NO_EPOCH: Final = -1
_OF_A_STEP: Final = 64
"""Partitions, or topics, between two steps; most requests have fewer."""
_NAMED_OF_A_STEP: Final = 2_000
_GROUPS_OF_A_STEP: Final = 4
"""The partition of a group may have to be loaded."""


class _Found(NamedTuple):
    """The answer for one partition."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error_code: ErrorCode


_Topics = Iterable[tuple[str, Sequence[int]]]
_Answer = tuple[ErrorCode, list[tuple[str, list[_Found]]]]
_Topic = TypeVar("_Topic")

NAMES: Final = topics_at("topics.name", "partition_indexes") | topics_at("groups.topics.name", "partition_indexes")
NEEDS: Final = asked_by_handler("DESCRIBE on each group; DESCRIBE on each topic")
REFUSAL: Final = Refusal({"committed_offset": -1, "metadata": ""})


def handle(request: OffsetFetchRequest, call: Call) -> Steps[OffsetFetchResponse]:
    """Return committed offsets."""
    stable = request.require_stable
    if call.api_version >= _FIRST_WITH_GROUPS:
        groups: list[OffsetFetchResponseGroup] = []
        for requested in request.groups:
            named, unknown = requested.topics, list[OffsetFetchRequestTopics]()
            if named is not None and call.api_version >= _FIRST_WITH_TOPIC_IDS:
                named, unknown = with_names(call.core.topics, named)
            topics = None if named is None else [(each.name, each.partition_indexes) for each in named]
            code, found = yield from _fetch(call, requested, topics, stable=stable)
            results: list[OffsetFetchResponseTopics] = yield from _responses(
                found, OffsetFetchResponseTopics, OffsetFetchResponsePartitions
            )
            if call.api_version >= _FIRST_WITH_TOPIC_IDS:
                results = _with_ids(results, call)
                for each in () if code else unknown:
                    topic = yield from _unknown(each)
                    results.append(topic)
            groups.append(OffsetFetchResponseGroup(group_id=requested.group_id, error_code=code, topics=results))
            if not len(groups) % _GROUPS_OF_A_STEP:
                yield
        return OffsetFetchResponse(groups=groups)
    topics = None if request.topics is None else [(each.name, each.partition_indexes) for each in request.topics]
    code, found = yield from _fetch(call, request, topics, stable=stable)
    answered: list[OffsetFetchResponseTopic] = yield from _responses(
        found, OffsetFetchResponseTopic, OffsetFetchResponsePartition
    )
    return OffsetFetchResponse(error_code=code, topics=answered)


def _with_ids(results: list[OffsetFetchResponseTopics], call: Call) -> list[OffsetFetchResponseTopics]:
    """The results whose topics have an id."""
    kept: list[OffsetFetchResponseTopics] = []
    for each in results:
        topic = call.core.topics.get(each.name)
        if topic is not None:
            each.topic_id = topic.id
            kept.append(each)
    return kept


def _unknown(requested: OffsetFetchRequestTopics) -> Steps[OffsetFetchResponseTopics]:
    nothing = [_none(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in requested.partition_indexes]
    (result,) = yield from _responses([("", nothing)], OffsetFetchResponseTopics, OffsetFetchResponsePartitions)
    result.topic_id = requested.topic_id
    return result


def _offsets_of(requested: OffsetFetchRequest | OffsetFetchRequestGroup, call: Call) -> tuple[ErrorCode, GroupOffsets]:
    """(the error of a group, or 0; its offsets)."""
    store = call.services.groups.store
    group = None
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if call.allows(Operation.DESCRIBE, ResourceType.GROUP, requested.group_id):
        code = store.readiness(requested.group_id, call.node)
    if not code:
        group = store.find(requested.group_id)
        if isinstance(group, (ConsumerGroup, StreamsGroup)) and isinstance(requested, OffsetFetchRequestGroup):
            code = group.validate_fetch(requested.member_id, requested.member_epoch)
    return code, GroupOffsets() if group is None else group.offsets


def _fetch(
    call: Call, requested: OffsetFetchRequest | OffsetFetchRequestGroup, topics: _Topics | None, *, stable: bool
) -> Steps[_Answer]:
    code, offsets = _offsets_of(requested, call)
    if code:
        if call.api_version >= _FIRST_WITH_GROUP_ERROR:
            return code, []
        topics = topics or ()
    if topics is None:
        committed = offsets.committed.items()
        topics = [(name, tuple(indexes)) for name, indexes in committed if _may_describe(name, call)]
    # Before Kafka 4.0 a topic and a partition that are named twice are answered once, and no topic without partitions.
    named = (yield from _once(topics)).items() if call.services.is_before("4.0") else topics
    results: list[tuple[str, list[_Found]]] = []
    looked_up = 0
    for name, partitions in named:
        refusal = code or (ErrorCode.NONE if _may_describe(name, call) else ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        found: list[_Found] = []
        for each in partitions:
            found.append(_none(each, refusal) if refusal else _find(offsets, name, each, stable=stable))
            looked_up += 1
            if not looked_up % _OF_A_STEP:
                yield
        results.append((name, found))
    return ErrorCode.NONE, results


def _once(topics: _Topics) -> Steps[dict[str, dict[int, None]]]:
    """Each topic with its partitions, since those that are named twice are answered once."""
    named: dict[str, dict[int, None]] = {}
    for number, (name, indexes) in enumerate(topics, 1):
        if indexes:
            partitions = named.setdefault(name, {})
            partitions.update(dict.fromkeys(indexes[:_NAMED_OF_A_STEP]))
            for begin in range(_NAMED_OF_A_STEP, len(indexes), _NAMED_OF_A_STEP):
                yield
                partitions.update(dict.fromkeys(indexes[begin : begin + _NAMED_OF_A_STEP]))
        if not number % _OF_A_STEP:
            yield
    return named


def _may_describe(topic: str, call: Call) -> bool:
    return call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _find(offsets: GroupOffsets, topic: str, partition: int, *, stable: bool) -> _Found:
    if stable and offsets.is_unstable(topic, partition):
        return _none(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    known = offsets.get(topic, partition)
    if known is None:
        return _none(partition, ErrorCode.NONE)
    return _Found(partition, known.offset, known.leader_epoch, known.metadata, ErrorCode.NONE)


def _none(partition: int, code: ErrorCode) -> _Found:
    return _Found(partition, NO_OFFSET, _NO_EPOCH, "", code)


def _responses(
    found: list[tuple[str, list[_Found]]], topic: Callable[..., _Topic], partition: Callable[..., object]
) -> Steps[list[_Topic]]:
    """The answer, in the classes that the version has for topics and partitions."""
    topics: list[_Topic] = []
    made = 0
    for name, results in found:
        partitions: list[object] = []
        for each in results:
            partitions.append(
                partition(
                    partition_index=each.partition,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
            )
            made += 1
            if not made % _OF_A_STEP:
                yield
        topics.append(topic(name=name, partitions=partitions))
    return topics
