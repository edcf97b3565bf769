"""Handlers for the committed offsets of groups."""

from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, TypeVar

from minibroker.cluster.routing.slices import ForEach, Served, then
from minibroker.cluster.topics import resolve_topic_ids
from minibroker.coordinators.groups.classic.group import CONSUMER, Group, GroupState
from minibroker.coordinators.groups.commits import Outcomes, check_member, commit, commit_response, merge_outcomes
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles, topics_at
from minibroker.server.requests.requirements import asked_by_handler, on_each, on_group
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
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
from minibroker_storage.data_directory.names import TopicPartition

_FIRST_WITH_UNKNOWN_GROUPS: Final = 9
_FIRST_COMMIT_WITH_TOPIC_IDS: Final = first_version(OffsetCommitRequestTopic, "topic_id")


@handles(
    ApiKey.OFFSET_COMMIT,
    needs=on_group(Operation.READ) & on_each(Operation.READ, ResourceType.TOPIC),
    names=topics_at("topics.name", "partitions.partition_index"),
)
def offset_commit(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    """OffsetCommit: commit offsets of a group.

    Versions 0-10 are served. Version 0 used ZooKeeper in older Kafka releases and is refused by newer ones, but works
    here like the other versions. Since version 10 topics are named by id. Offsets are written to `__consumer_offsets`
    before the response. A commit counts as a heartbeat. A client without a generation can commit while the group has no
    members. Versions 2-4 can set a retention time, whose end is capped at the largest timestamp. Version 1 can set the
    time of the commit.

    Error codes:

    - UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist.
    - UNKNOWN_TOPIC_ID: no topic has this id.
    - OFFSET_METADATA_TOO_LARGE: the metadata exceeds `offset.metadata.max.bytes`.
    - UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION: the member or its generation does not match.
    - REBALANCE_IN_PROGRESS: the group is waiting for assignments.
    - GROUP_ID_NOT_FOUND: the request has a generation but the group does not exist. As in Kafka 4, versions before
      9 get ILLEGAL_GENERATION instead.
    """
    core = call.core
    store = call.services.groups.store
    topics: list[OffsetCommitRequestTopic] = request.topics

    def admit(partitions: Collection[TopicPartition]) -> AnyGroup:
        code = store.check_readiness(request.group_id, call.node)
        if code:
            raise GroupRefusedError(code)
        generation = request.generation_id_or_member_epoch
        if generation >= 0 and store.find(request.group_id) is None:
            knows_groups = call.api_version >= _FIRST_WITH_UNKNOWN_GROUPS and not call.services.is_before("4.0")
            raise GroupRefusedError(ErrorCode.GROUP_ID_NOT_FOUND if knows_groups else ErrorCode.ILLEGAL_GENERATION)
        group = store.find_or_create(request.group_id)
        check_member(core, group, request, partitions, is_transactional=False, version=call.api_version)
        group.note_activity(request.member_id)
        return group

    unknown: list[OffsetCommitRequestTopic] = []
    if call.api_version >= _FIRST_COMMIT_WITH_TOPIC_IDS:
        topics, unknown = resolve_topic_ids(core.topics, topics)
    merges = call.services.is_before("4.0")
    outcomes = commit(core, topics, admit, store.commit, merges=merges, retention_ms=request.retention_time_ms)
    responses = commit_response(outcomes, topics, unknown, OffsetCommitResponseTopic, OffsetCommitResponsePartition)
    return OffsetCommitResponse(topics=responses)


_FIRST_WITH_GROUP_ERROR: Final = first_version(OffsetFetchResponse, "error_code")
_FIRST_WITH_GROUPS: Final = first_version(OffsetFetchRequest, "groups")
_FIRST_FETCH_WITH_TOPIC_IDS: Final = first_version(OffsetFetchRequestTopics, "topic_id")
_NO_EPOCH: Final = -1
_Topics = Iterable[tuple[str, Iterable[int]]]
_T = TypeVar("_T")
_P = TypeVar("_P")


@handles(
    ApiKey.OFFSET_FETCH,
    needs=asked_by_handler("DESCRIBE on each group; DESCRIBE on each topic"),
    names=topics_at("topics.name", "partition_indexes") | topics_at("groups.topics.name", "partition_indexes"),
    refusal=Refusal({"committed_offset": -1, "metadata": ""}),
)
def offset_fetch(request: OffsetFetchRequest, call: Call) -> Served[OffsetFetchResponse]:
    """OffsetFetch: return the committed offsets of groups.

    Versions 0-10 are served. Version 0 used ZooKeeper in older Kafka releases, but works here like the other versions.
    Null topics (version 2) select all committed offsets of a group, and version 8 adds several groups per request
    (KIP-709). The member in version 9 is ignored for classic groups. Partitions do not have to exist. A partition
    without a committed offset gets -1. Version 10 names topics by id, and omits offsets of deleted topics when a
    request selects all topics.

    Before version 2 the error of a whole group, such as COORDINATOR_LOAD_IN_PROGRESS, is set on each partition.

    Error codes:

    - UNSTABLE_OFFSET_COMMIT: with `require_stable`, an open transaction may change the offset (version 7, KIP-447).
    - UNKNOWN_TOPIC_ID: no topic has this id.
    """
    stable = request.require_stable
    if call.api_version < _FIRST_WITH_GROUPS:
        topics = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
        code, results = _fetch(
            call, request, topics, OffsetFetchResponseTopic, OffsetFetchResponsePartition, stable=stable
        )
        return OffsetFetchResponse(error_code=code, topics=results)
    return ForEach(
        request.groups,
        lambda requested: _fetch_group(call, requested, stable=stable),
        lambda groups: OffsetFetchResponse(groups=groups),
    )


def _fetch_group(call: Call, requested: OffsetFetchRequestGroup, *, stable: bool) -> OffsetFetchResponseGroup:
    requested_topics, unknown = requested.topics, list[OffsetFetchRequestTopics]()
    has_ids = call.api_version >= _FIRST_FETCH_WITH_TOPIC_IDS
    if requested_topics is not None and has_ids:
        requested_topics, unknown = resolve_topic_ids(call.core.topics, requested_topics)
    topics = None if requested_topics is None else [(topic.name, topic.partition_indexes) for topic in requested_topics]
    code, results = _fetch(
        call, requested, topics, OffsetFetchResponseTopics, OffsetFetchResponsePartitions, stable=stable
    )
    if has_ids:
        results = _set_topic_ids(results, call)
        results += [_build_unknown_topic(topic) for topic in unknown if not code]
    return OffsetFetchResponseGroup(group_id=requested.group_id, error_code=code, topics=results)


def _set_topic_ids(results: list[OffsetFetchResponseTopics], call: Call) -> list[OffsetFetchResponseTopics]:
    """Set the topic ids in results, and return only the results whose topics have an id."""
    existing: list[OffsetFetchResponseTopics] = []
    for result in results:
        topic = call.core.topics.get(result.name)
        if topic is not None:
            result.topic_id = topic.id
            existing.append(result)
    return existing


def _build_unknown_topic(requested: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [
        _build_empty_partition(OffsetFetchResponsePartitions, index, ErrorCode.UNKNOWN_TOPIC_ID)
        for index in requested.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=requested.topic_id, partitions=partitions)


def _group_offsets(
    requested: OffsetFetchRequest | OffsetFetchRequestGroup, call: Call
) -> tuple[ErrorCode, GroupOffsets]:
    """Return the error of a group, or NONE, and its offsets."""
    store = call.services.groups.store
    group = None
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if call.allows(Operation.DESCRIBE, ResourceType.GROUP, requested.group_id):
        code = store.check_readiness(requested.group_id, call.node)
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
    """Return the error of a group and its topics. The topics are built with the classes of the request's version."""
    code, offsets = _group_offsets(requested, call)
    if code:
        if call.api_version >= _FIRST_WITH_GROUP_ERROR:
            return code, []
        topics = topics or ()
    if topics is None:
        topics = [(name, tuple(indexes)) for name, indexes in offsets.committed.items() if _may_describe(name, call)]
    # Before Kafka 4.0, repeated topics and partitions are merged, and topics without partitions are left out.
    requested_topics = _merge_topics(topics).items() if call.services.is_before("4.0") else topics
    results: list[_T] = []
    for name, indexes in requested_topics:
        refusal = code or (ErrorCode.NONE if _may_describe(name, call) else ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if refusal:
            partitions = [_build_empty_partition(partition_of, index, refusal) for index in indexes]
        else:
            partitions = [_build_partition(partition_of, offsets, name, index, stable=stable) for index in indexes]
        results.append(topic_of(name=name, partitions=partitions))
    return ErrorCode.NONE, results


def _merge_topics(topics: _Topics) -> dict[str, dict[int, None]]:
    """Merge repeated topics and partitions, and drop topics without partitions."""
    indexes_by_topic: dict[str, dict[int, None]] = {}
    for name, indexes in topics:
        if indexes:
            indexes_by_topic.setdefault(name, {}).update(dict.fromkeys(indexes))
    return indexes_by_topic


def _may_describe(topic: str, call: Call) -> bool:
    return call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _build_partition(
    partition_of: Callable[..., _P], offsets: GroupOffsets, topic: str, index: int, *, stable: bool
) -> _P:
    if stable and offsets.is_unstable(topic, index):
        return _build_empty_partition(partition_of, index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = offsets.get(topic, index)
    if committed is None:
        return _build_empty_partition(partition_of, index, ErrorCode.NONE)
    return partition_of(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=ErrorCode.NONE,
    )


def _build_empty_partition(partition_of: Callable[..., _P], index: int, code: ErrorCode) -> _P:
    return partition_of(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=_NO_EPOCH,
        metadata="",
        error_code=code,
    )


_PARTITIONS_PER_STEP: Final = 5_000


@handles(
    ApiKey.OFFSET_DELETE,
    needs=on_group(Operation.DELETE) & on_each(Operation.READ, ResourceType.TOPIC),
    names=topics_at("topics.name", "partitions.partition_index"),
)
def offset_delete(request: OffsetDeleteRequest, call: Call) -> Served[OffsetDeleteResponse]:
    """OffsetDelete: delete committed offsets of a group (KIP-496).

    Version 0 is served. Offsets of a group without members can always be deleted.

    Error codes:

    - GROUP_SUBSCRIBED_TO_TOPIC: members of a consumer group are subscribed to the topic.
    - NON_EMPTY_GROUP: the group has members that are not consumers.
    - GROUP_ID_NOT_FOUND: the group does not exist.
    - UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist.
    """
    group, code = _deletable_group(request.group_id, call)
    if group is None:
        raise GroupRefusedError(code)
    outcomes: Outcomes = []
    existing: list[TopicPartition] = []
    for requested in request.topics:
        topic, name = call.core.topics.get(requested.name), requested.name
        count = 0 if topic is None else len(topic.partitions)
        indexes = [partition.partition_index for partition in requested.partitions]
        existing += [(name, index) for index in indexes if 0 <= index < count]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if indexes:
            outcomes.append((name, [(index, ErrorCode.NONE if 0 <= index < count else unknown) for index in indexes]))
    deletion = _Deletion(group, existing, call)

    def conclude(_: object) -> OffsetDeleteResponse:
        results = deletion.add_kept_topics(outcomes)
        return OffsetDeleteResponse(
            error_code=ErrorCode.NONE,
            topics=[
                OffsetDeleteResponseTopic(
                    name=name,
                    partitions=[
                        OffsetDeleteResponsePartition(partition_index=index, error_code=code)
                        for index, code in partitions
                    ],
                )
                for name, partitions in (merge_outcomes(results) if call.services.is_before("4.0") else results)
            ],
        )

    return ForEach(deletion.parts() if existing else (), deletion.forget, conclude)


class _Deletion:
    """A deletion of a group's offsets for topics that no member subscribes to. Members can come and go meanwhile."""

    def __init__(self, group: AnyGroup, partitions: list[TopicPartition], call: Call) -> None:
        self._group = group
        self._partitions = partitions
        self._named = {name for name, _ in partitions}
        self._call = call
        self._store = call.services.groups.store
        # The topics to which a member was subscribed at any time during this request.
        self._subscribed_topics_seen: set[str] = set()

    def parts(self) -> list[list[TopicPartition]]:
        """Return the partitions with offsets, in lists of at most `_PARTITIONS_PER_STEP`."""
        committed = self._group.offsets.known(self._partitions)
        self._update_subscribed()
        return [
            committed[start : start + _PARTITIONS_PER_STEP]
            for start in range(0, len(committed) or 1, _PARTITIONS_PER_STEP)
        ]

    def forget(self, part: list[TopicPartition]) -> Any:
        """Delete the offsets of some partitions, in steps.

        Raises:
            GroupRefusedError: The offsets can no longer be deleted. Work that is returned can raise this error, too.
        """
        removes_empty = isinstance(self._group, Group)
        return then(
            self._store.forget(self._group, partial(self._find_deletable, part), removes_empty=removes_empty),
            _check_deleted,
        )

    def add_kept_topics(self, outcomes: Outcomes) -> Outcomes:
        """Return the outcomes, with an error for each topic whose offsets were not deleted."""
        unknown, subscribed = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        return [
            (name, [(index, code if code is unknown else subscribed) for index, code in results])
            if name in self._subscribed_topics_seen
            else (name, results)
            for name, results in outcomes
        ]

    def _update_subscribed(self) -> AbstractSet[str] | None:
        """Return and remember the topics to which members are subscribed. Return None if they cannot be determined."""
        subscribed = set[str]() if self._group.is_empty else self._group.subscribed_topics()
        self._subscribed_topics_seen |= self._named if subscribed is None else self._named & subscribed
        return subscribed

    def _find_deletable(self, part: list[TopicPartition]) -> list[TopicPartition] | ErrorCode:
        """Return the partitions whose offsets can be deleted, or an error."""
        group, code = _deletable_group(self._group.group_id, self._call)
        if group is None or group is not self._group:
            return code or ErrorCode.GROUP_ID_NOT_FOUND
        subscribed = self._update_subscribed()
        return [] if subscribed is None else group.offsets.known(key for key in part if key[0] not in subscribed)


def _check_deleted(code: ErrorCode) -> None:
    if code:
        raise GroupRefusedError(code)


def _deletable_group(group_id: str, call: Call) -> tuple[AnyGroup | None, ErrorCode]:
    """Return a group, or the error that explains why its offsets cannot be deleted."""
    store = call.services.groups.store
    code = ErrorCode.INVALID_GROUP_ID if not group_id else store.check_readiness(group_id, call.node)
    if code:
        return None, code
    group = store.find(group_id)
    if group is None or group.state is GroupState.DEAD or isinstance(group, ShareGroup):
        return None, ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_empty and group.protocol_type != CONSUMER and not isinstance(group, StreamsGroup):
        return None, ErrorCode.NON_EMPTY_GROUP
    return group, ErrorCode.NONE
