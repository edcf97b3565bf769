"""OffsetFetch: how far groups have read.

Versions 0-10. Version 0, which older Kafkas answered from ZooKeeper, is served as any other. Null topics (version 2)
ask for all that a group has committed; version 8 asks for several groups (KIP-709); the member of version 9 matters to
no classic group. Partitions are not held against the topics that there are; offset -1 says that nothing is committed.
With `require_stable` (version 7, KIP-447) a partition that an open transaction may change is UNSTABLE_OFFSET_COMMIT. An
error of a whole group, such as COORDINATOR_LOAD_IN_PROGRESS, stands at each of its partitions before version 2.
Version 10 names topics by their ids: an unknown one is UNKNOWN_TOPIC_ID, and of all that a group has committed,
offsets of topics that are gone are not returned.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from minibroker.cluster.routing.slices import Steps
from minibroker.cluster.topics import with_names
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, topics_at
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.offsets import (
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

_Topics = Iterable[tuple[str, Iterable[int]]]
_T = TypeVar("_T")
_P = TypeVar("_P")

NAMES: Final = topics_at("topics.name", "partition_indexes") | topics_at("groups.topics.name", "partition_indexes")
NEEDS: Final = asked_by_handler("DESCRIBE on each group; DESCRIBE on each topic")
REFUSAL: Final = Refusal({"committed_offset": -1, "metadata": ""})


def handle(request: OffsetFetchRequest, call: Call) -> Steps[OffsetFetchResponse]:
    """Return committed offsets."""
    stable = request.require_stable
    if call.api_version < _FIRST_WITH_GROUPS:
        topics = None if request.topics is None else [(each.name, each.partition_indexes) for each in request.topics]
        code, results = _fetch(
            call, request, topics, OffsetFetchResponseTopic, OffsetFetchResponsePartition, stable=stable
        )
        return OffsetFetchResponse(error_code=code, topics=results)
    groups: list[OffsetFetchResponseGroup] = []
    for requested in request.groups:
        groups.append(_fetch_group(call, requested, stable=stable))
        yield
    return OffsetFetchResponse(groups=groups)


def _fetch_group(call: Call, requested: OffsetFetchRequestGroup, *, stable: bool) -> OffsetFetchResponseGroup:
    named, unknown = requested.topics, list[OffsetFetchRequestTopics]()
    has_ids = call.api_version >= _FIRST_WITH_TOPIC_IDS
    if named is not None and has_ids:
        named, unknown = with_names(call.core.topics, named)
    topics = None if named is None else [(each.name, each.partition_indexes) for each in named]
    code, results = _fetch(
        call, requested, topics, OffsetFetchResponseTopics, OffsetFetchResponsePartitions, stable=stable
    )
    if has_ids:
        results = _with_ids(results, call)
        results += [_unknown(each) for each in unknown if not code]
    return OffsetFetchResponseGroup(group_id=requested.group_id, error_code=code, topics=results)


def _with_ids(results: list[OffsetFetchResponseTopics], call: Call) -> list[OffsetFetchResponseTopics]:
    """Return the results whose topics have an id."""
    known: list[OffsetFetchResponseTopics] = []
    for result in results:
        topic = call.core.topics.get(result.name)
        if topic is not None:
            result.topic_id = topic.id
            known.append(result)
    return known


def _unknown(requested: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [
        _none(OffsetFetchResponsePartitions, index, ErrorCode.UNKNOWN_TOPIC_ID) for index in requested.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=requested.topic_id, partitions=partitions)


def _offsets_of(requested: OffsetFetchRequest | OffsetFetchRequestGroup, call: Call) -> tuple[ErrorCode, GroupOffsets]:
    """Return the error of a group, or NONE, and its offsets."""
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
    call: Call,
    requested: OffsetFetchRequest | OffsetFetchRequestGroup,
    topics: _Topics | None,
    topic_of: Callable[..., _T],
    partition_of: Callable[..., _P],
    *,
    stable: bool,
) -> tuple[ErrorCode, list[_T]]:
    """Return the error of a group and its topics, made by the classes of the version."""
    code, offsets = _offsets_of(requested, call)
    if code:
        if call.api_version >= _FIRST_WITH_GROUP_ERROR:
            return code, []
        topics = topics or ()
    if topics is None:
        topics = [(name, tuple(indexes)) for name, indexes in offsets.committed.items() if _may_describe(name, call)]
    # Before Kafka 4.0 a topic and a partition that are named twice are answered once, and no topic without partitions.
    named = _once(topics).items() if call.services.is_before("4.0") else topics
    results: list[_T] = []
    for name, indexes in named:
        refusal = code or (ErrorCode.NONE if _may_describe(name, call) else ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if refusal:
            partitions = [_none(partition_of, index, refusal) for index in indexes]
        else:
            partitions = [_partition(partition_of, offsets, name, index, stable=stable) for index in indexes]
        results.append(topic_of(name=name, partitions=partitions))
    return ErrorCode.NONE, results


def _once(topics: _Topics) -> dict[str, dict[int, None]]:
    """Return each topic with its partitions, without repetitions."""
    named: dict[str, dict[int, None]] = {}
    for name, indexes in topics:
        if indexes:
            named.setdefault(name, {}).update(dict.fromkeys(indexes))
    return named


def _may_describe(topic: str, call: Call) -> bool:
    return call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _partition(partition_of: Callable[..., _P], offsets: GroupOffsets, topic: str, index: int, *, stable: bool) -> _P:
    if stable and offsets.is_unstable(topic, index):
        return _none(partition_of, index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = offsets.get(topic, index)
    if committed is None:
        return _none(partition_of, index, ErrorCode.NONE)
    return partition_of(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=ErrorCode.NONE,
    )


def _none(partition_of: Callable[..., _P], index: int, code: ErrorCode) -> _P:
    return partition_of(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=_NO_EPOCH,
        metadata="",
        error_code=code,
    )
