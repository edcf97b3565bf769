"""The code shared by OffsetCommit and TxnOffsetCommit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from minibroker.config.keys import LONG_MAX
from minibroker.config.releases import is_before
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.offsets import CommittedOffset
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.header import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from minibroker.cluster.core import Core
    from minibroker.coordinators.groups.registry import AnyGroup
    from minibroker_protocol.messages.offsets import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )
    from minibroker_protocol.messages.transactions import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestPartition,
        TxnOffsetCommitRequestTopic,
    )
    from minibroker_storage.data_directory.names import TopicPartition

    OffsetCommitTopic = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
    OffsetCommitPartition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition

T = TypeVar("T")

_BYTES_PER_CHARACTER: Final = 2
"""The size of a UTF-16 code unit, the unit of string lengths in Java."""

_DEFAULT_RETENTION: Final = -1
_STALE: Final = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION})
Outcomes = list[tuple[str, list[tuple[int, ErrorCode]]]]
"""The topics of a response, with the error of each partition."""


def commit(
    core: Core,
    topics: Sequence[OffsetCommitTopic],
    admit: Callable[[Collection[TopicPartition]], AnyGroup],
    write: Callable[[AnyGroup, int, Iterable[tuple[TopicPartition, CommittedOffset]]], ErrorCode],
    *,
    merges: bool,
    retention_ms: int = _DEFAULT_RETENTION,
) -> Outcomes:
    """Commit the offsets of existing partitions, and return the error of each partition.

    The error of a missing partition is UNKNOWN_TOPIC_OR_PARTITION. The group accepts or rejects all the other
    partitions together. Accepted partitions whose metadata exceeds `offset.metadata.max.bytes`, counted in Java's
    characters as in Kafka, fail with OFFSET_METADATA_TOO_LARGE. If a partition is named twice, its last offset
    wins.

    Args:
        core: Provides the topics, the configuration and the clock.
        topics: The topics of the request.
        admit: Returns the group if it accepts offsets of these partitions, or raises GroupRefusedError.
        write: Writes the offsets. It is called with the group, the number of offsets, and the offsets.
        merges: Whether to merge the outcomes with `merge_outcomes`.
        retention_ms: The retention time requested by the client.
    """
    max_length = core.config.integer("offset.metadata.max.bytes")
    now_ms = core.clock.now_ms()
    # Both timestamps use the same time, so that a reader of the record can compute the retention time.
    expire_timestamp = NO_TIMESTAMP if retention_ms == _DEFAULT_RETENTION else min(now_ms + retention_ms, LONG_MAX)
    committed: dict[TopicPartition, OffsetCommitPartition] = {}
    outcomes: Outcomes = []
    unknown, no_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE
    for requested in topics:
        name, topic = requested.name, core.topics.get(requested.name)
        count = 0 if topic is None else len(topic.partitions)
        results: list[tuple[int, ErrorCode]] = []
        for partition in requested.partitions:
            index, metadata = partition.partition_index, partition.committed_metadata
            code = no_error
            if not 0 <= index < count:
                code = unknown
            elif metadata and _count_utf16_units(metadata) > max_length:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed[name, index] = partition
            results.append((index, code))
        if results:
            outcomes.append((name, results))
    refusal = write_error = no_error
    if any(code is not unknown for _, results in outcomes for _, code in results):
        try:
            group = admit(committed.keys())
            if committed:
                offsets = ((key, _make_offset(item, now_ms, expire_timestamp)) for key, item in committed.items())
                write_error = write(group, len(committed), offsets)
        except GroupRefusedError as error:
            refusal = error.code
    if refusal or write_error:
        outcomes = [
            (name, [(index, code if code is unknown else refusal or code or write_error) for index, code in results])
            for name, results in outcomes
        ]
    return merge_outcomes(outcomes) if merges else outcomes


def check_member(
    core: Core,
    group: AnyGroup,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    partitions: Iterable[TopicPartition],
    *,
    is_transactional: bool,
    version: int,
) -> None:
    """Check whether a client may commit offsets of some partitions in a group.

    Raises:
        GroupRefusedError: The commit is rejected.
    """
    member_id, epoch = request.member_id, request.generation_id_or_member_epoch
    code = group.validate_commit(
        member_id, request.group_instance_id, epoch, is_transactional=is_transactional, version=version
    )
    # A member keeps its partitions until it has committed their offsets, and only then gets the new epoch (KIP-1071;
    # KIP-1251, since Kafka 4.3). Until then it commits in the old epoch.
    if code in _STALE and isinstance(group, StreamsGroup) and group.may_commit_late(member_id, epoch, partitions):
        return
    if code in _STALE and isinstance(group, ConsumerGroup) and not is_before(core.config.release, "4.3"):
        topics = ((core.topics.get(name), index) for name, index in partitions)
        if group.may_commit_late(member_id, epoch, [(topic.id, index) for topic, index in topics if topic is not None]):
            return
    if code:
        raise GroupRefusedError(code)


def merge_outcomes(outcomes: Outcomes) -> Outcomes:
    """Merge outcomes as Kafka before 4.0 does: list each topic and each existing partition only once."""
    reported: set[TopicPartition] = set()
    topics: dict[str, list[tuple[int, ErrorCode]]] = {}
    for name, results in outcomes:
        for index, code in results:
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or (name, index) not in reported:
                topics.setdefault(name, []).append((index, code))
                reported.add((name, index))
    return list(topics.items())


def commit_response(
    outcomes: Outcomes,
    topics: Sequence[OffsetCommitTopic],
    unknown: Sequence[OffsetCommitTopic],
    topic_of: Callable[..., T],
    partition_of: Callable[..., Any],
) -> list[T]:
    """Return the topics of an OffsetCommit or TxnOffsetCommit response.

    Args:
        outcomes: The outcomes of the topics with known names.
        topics: The topics of the request with known names.
        unknown: The other topics of the request. Their partitions get UNKNOWN_TOPIC_ID.
        topic_of: Makes a topic of the response.
        partition_of: Makes a partition of the response.
    """
    ids = {topic.name: topic.topic_id for topic in topics}
    unknown_id = ErrorCode.UNKNOWN_TOPIC_ID
    refused = [
        topic_of(
            topic_id=topic.topic_id,
            partitions=[
                partition_of(partition_index=item.partition_index, error_code=unknown_id) for item in topic.partitions
            ],
        )
        for topic in unknown
    ]
    return refused + [
        topic_of(
            name=name,
            topic_id=ids[name],
            partitions=[partition_of(partition_index=index, error_code=code) for index, code in results],
        )
        for name, results in outcomes
    ]


def _make_offset(partition: OffsetCommitPartition, now_ms: int, expire_timestamp: int) -> CommittedOffset:
    """Return the offset to store for a partition of a request.

    The commit time is the current time, unless the request contains one (version 1 of OffsetCommit).
    """
    timestamp = getattr(partition, "commit_timestamp", -1)
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now_ms if timestamp == -1 else timestamp,
        expire_timestamp,
    )


def _count_utf16_units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // _BYTES_PER_CHARACTER
