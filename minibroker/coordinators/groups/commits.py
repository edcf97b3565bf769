"""The code shared by OffsetCommit and TxnOffsetCommit."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from minibroker.cluster.topics import Topics
from minibroker.config.keys import LONG_MAX
from minibroker.coordinators.coordinator_log import CoordinatorLogError
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.kinds import AnyGroup
from minibroker.coordinators.groups.offsets import CommittedOffset
from minibroker.coordinators.groups.store import commit_error
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.core import Core
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.header import NO_TIMESTAMP
from minibroker_storage.data_directory.names import TopicPartition

T = TypeVar("T")

_BYTES_PER_CHARACTER: Final = 2
"""Java counts a string in units of UTF-16."""

_AS_LONG_AS_THE_GROUP: Final = -1
_STALE: Final = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION})
_PIECE: Final = 100
"""So many partitions are done in about half a millisecond; smaller commits are done at once."""

Outcomes = list[tuple[str, list[tuple[int, ErrorCode]]]]
"""The topics of a response, and the partitions of each with their errors."""


class OffsetCommitPartition(Protocol):
    """A partition of either request."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class OffsetCommitTopic(Protocol):
    """A topic of either request."""

    name: str
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[OffsetCommitPartition]:
        """Its partitions."""
        ...


class Committing(Protocol):
    """Either request."""

    member_id: str
    generation_id_or_member_epoch: int


class RefusedCommitError(Exception):
    """A commit that is refused as a whole."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Commit(NamedTuple):
    """The steps that commit the offsets of a request.

    Attributes:
        admit: the group, once it is sure that it takes the offsets of these partitions. RefusedCommitError.
        encode: makes the batch of the offsets. CoordinatorLogError.
        write: notes the offsets.
    """

    admit: Callable[[Collection[TopicPartition]], AnyGroup]
    encode: Callable[[Mapping[TopicPartition, CommittedOffset]], Steps[bytearray]]
    write: Callable[[AnyGroup, Mapping[TopicPartition, CommittedOffset], bytearray], ErrorCode]


def commit(
    core: Core,
    topics: Sequence[OffsetCommitTopic],
    operation: Commit,
    *,
    merges: bool,
    retention_ms: int = _AS_LONG_AS_THE_GROUP,
) -> Steps[Outcomes]:
    """Commit what can be.

    UNKNOWN_TOPIC_OR_PARTITION for a partition that does not exist. If there are others, the group decides over all of
    them; then OFFSET_METADATA_TOO_LARGE for each with more metadata than `offset.metadata.max.bytes`, which Kafka
    counts in Java's characters. Of a partition that is named twice, the last offset counts. `merges` as for `by_topic`.
    """
    longest = core.config.integer("offset.metadata.max.bytes")
    now_ms = core.clock.now_ms()
    # Of one moment: by the record a reader sees how long the client wanted it to be kept.
    expire_timestamp = NO_TIMESTAMP if retention_ms == _AS_LONG_AS_THE_GROUP else min(now_ms + retention_ms, LONG_MAX)
    offsets: dict[TopicPartition, CommittedOffset] = {}
    codes: list[tuple[int, TopicPartition, ErrorCode]] = []
    for number, requested in enumerate(topics, 1):
        if not number % _PIECE:
            yield
        topic = core.topics.get(requested.name)
        for each in requested.partitions:
            key = requested.name, each.partition_index
            if topic is None or topic.partition(each.partition_index) is None:
                codes.append((number, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            elif _length(each.committed_metadata or "") > longest:
                codes.append((number, key, ErrorCode.OFFSET_METADATA_TOO_LARGE))
            else:
                codes.append((number, key, ErrorCode.NONE))
                offsets[key] = _offset(each, now_ms, expire_timestamp)
            if not len(codes) % _PIECE:
                yield
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refusal = written = ErrorCode.NONE
    if any(code is not unknown for _, _, code in codes):
        try:
            written = yield from _write(operation, offsets)
        except RefusedCommitError as error:
            refusal = error.code
    concluded = ((number, key, code if code is unknown else refusal or code or written) for number, key, code in codes)
    return (yield from by_topic(concluded, merges=merges))


def is_late_but_fine(
    group: AnyGroup,
    code: ErrorCode,
    request: Committing,
    places: Iterable[TopicPartition],
    topics: Topics,
    *,
    is_before_4_3: bool,
) -> bool:
    """May a member commit these, although it was refused with `code` (KIP-1071; KIP-1251, since Kafka 4.3)?

    A member that goes on to the next epoch keeps partitions, and commits for them before it hears of that epoch.
    """
    member_id, epoch = request.member_id, request.generation_id_or_member_epoch
    if code not in _STALE:
        return False
    if isinstance(group, StreamsGroup):
        return group.may_commit_late(member_id, epoch, places)
    if is_before_4_3 or not isinstance(group, ConsumerGroup):
        return False
    found = ((topics.get(name), index) for name, index in places)
    return group.may_commit_late(member_id, epoch, [(topic.id, index) for topic, index in found if topic is not None])


def _write(operation: Commit, offsets: Mapping[TopicPartition, CommittedOffset]) -> Steps[ErrorCode]:
    """Write offsets. RefusedCommitError."""
    group = operation.admit(offsets.keys())
    if not offsets:
        return ErrorCode.NONE
    try:
        batch = yield from operation.encode(offsets)
    except CoordinatorLogError as error:
        return commit_error(error.code)
    if len(offsets) >= _PIECE:  # others were served meanwhile, and the group may not be what it was
        group = operation.admit(offsets.keys())
    return operation.write(group, offsets, batch)


def by_topic(codes: Iterable[tuple[int, TopicPartition, ErrorCode]], *, merges: bool) -> Steps[Outcomes]:
    """Return outcomes as a response has them, from the number of each topic in the request, partition and error.

    They repeat what the request repeats. With `merges`, as before Kafka 4.0, each topic is there once, and each
    partition that exists.
    """
    reported: set[TopicPartition] = set()
    outcomes: dict[int | str, tuple[str, list[tuple[int, ErrorCode]]]] = {}
    for count, (number, key, code) in enumerate(codes, 1):
        topic, partition = key
        if not merges or code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or key not in reported:
            outcomes.setdefault(topic if merges else number, (topic, []))[1].append((partition, code))
            reported.add(key)
        if not count % _PIECE:
            yield
    return list(outcomes.values())


def answered(
    outcomes: Outcomes,
    topics: Sequence[OffsetCommitTopic],
    unknown: Sequence[OffsetCommitTopic],
    topic_of: Callable[..., T],
    partition_of: Callable[..., Any],
) -> Steps[list[T]]:
    """Outcomes as the response of either API has them, made by its classes for a topic and for a partition.

    UNKNOWN_TOPIC_ID for what the topics `unknown` name; the others are `topics`.
    """
    ids = {each.name: each.topic_id for each in topics}
    listed: list[T] = []
    made = 0
    for each in unknown:
        indexes = [partition.partition_index for partition in each.partitions]
        nothing = [partition_of(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes]
        listed.append(topic_of(topic_id=each.topic_id, partitions=nothing))
        yield
    for name, results in outcomes:
        partitions: list[Any] = []
        for index, code in results:
            partitions.append(partition_of(partition_index=index, error_code=code))
            made += 1
            if not made % _PIECE:
                yield
        listed.append(topic_of(name=name, topic_id=ids[name], partitions=partitions))
        yield
    return listed


def _offset(partition: OffsetCommitPartition, now_ms: int, expire_timestamp: int) -> CommittedOffset:
    """The offset that a client commits; version 1 of OffsetCommit carries the time of the commit itself."""
    timestamp = getattr(partition, "commit_timestamp", -1)
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now_ms if timestamp == -1 else timestamp,
        expire_timestamp,
    )


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // _BYTES_PER_CHARACTER
