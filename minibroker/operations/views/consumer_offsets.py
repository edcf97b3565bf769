"""The records of `__consumer_offsets` for the lab's page: commits for one partition, and groups at an earlier time.

They are read from the log itself.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from minibroker.cluster.routing.slices import Steps, steps_of
from minibroker.coordinators.groups.replay import Replay
from minibroker.operations.views.slicing import in_slices
from minibroker.server.services import Services
from minibroker_protocol.coordinator_records import (
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_versioned,
    read_group_key,
)
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_protocol.records.batch import Batch
from minibroker_protocol.records.header import MAGIC_V1, MAGIC_V2, control_type
from minibroker_storage.errors import StorageError
from minibroker_storage.views.record_view import batches_from

MOST: Final = 500
"""Maximum number of groups."""
_MOST_BYTES: Final = 1 << 26
"""Maximum number of bytes read from the logs."""


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A record with a committed offset. Times are in ms.

    Attributes:
        partition: its partition of `__consumer_offsets`.
        log_offset: its offset in that partition.
        offset: the committed offset, or None for a tombstone, which removes the commit.
        state: "committed", or the state of its transaction: "open" or "aborted".
        marker: the offset of the marker that ended the transaction, or None.
    """

    group: str
    partition: int
    log_offset: int
    offset: int | None
    metadata: str
    commit_timestamp: int
    state: str = "committed"
    producer_id: int = -1
    marker: int | None = None


@dataclass(frozen=True, slots=True)
class GroupCommits:
    """The commits of one group for one partition.

    Attributes:
        passed: the oldest existing record with an offset greater than the requested one, or None.
        latest: the newest committed record.
        count: the number of existing records.
    """

    group: str
    passed: CommitRecord | None
    latest: CommitRecord | None
    count: int


@dataclass(frozen=True, slots=True)
class CommitsView:
    """The commits of at most 500 groups. `is_whole` is False if the logs were too long to read completely."""

    groups: tuple[GroupCommits, ...]
    is_whole: bool


async def commits_of(services: Services, topic: str, partition: int, offset: int) -> CommitsView:
    """Return the commits for one partition, and which of them are beyond `offset`.

    Raises:
        StorageError, OSError: a log cannot be read.
    """
    return await in_slices(services, _commits(services, topic, partition, offset))


def _commits(services: Services, topic: str, partition: int, offset: int) -> Steps[CommitsView]:
    coordinators = services.core.topics.get(CONSUMER_OFFSETS)
    if coordinators is None:
        return CommitsView((), is_whole=True)
    services.core.writes.commit()
    reader = _Reader(topic, partition, offset, services.groups.store.partition_of)
    left = _MOST_BYTES
    for each in coordinators.partitions:
        log = each.log
        if log.log_end_offset == log.log_start_offset or left <= 0:
            continue
        try:
            for _, _, batch in batches_from(log, log.log_start_offset):
                left -= batch.header.size_in_bytes
                if left <= 0:
                    break
                reader.take(batch, each.index)
                yield
        except DecodeError as error:
            raise StorageError(f"{CONSUMER_OFFSETS}-{each.index}: {error}") from None
        reader.end()
    return CommitsView(tuple(reader.groups.values()), is_whole=left > 0)


class _Reader:
    """Collects commits while the logs are read.

    Attributes:
        groups: the commits found so far, by group.
    """

    def __init__(self, topic: str, partition: int, offset: int, home_of: Callable[[str], int]) -> None:
        self._topic = topic
        self._home_of = home_of
        self._needle = topic.encode()
        self._partition = partition
        self._offset = offset
        self._open: dict[int, list[CommitRecord]] = {}
        self.groups: dict[str, GroupCommits] = {}

    def end(self) -> None:
        """Record the transactions that are still open at the end of a partition's log."""
        for pending in self._open.values():
            for each in pending:
                self._note(replace(each, state="open"))
        self._open = {}

    def take(self, batch: Batch, index: int) -> None:
        """Read a batch of one partition."""
        header = batch.header
        if header.magic > MAGIC_V1 and header.is_control:
            record = next(iter(batch), None)
            is_commit = record is not None and control_type(record.key)[0] == "COMMIT"
            for each in self._open.pop(header.producer_id, ()):
                state = "committed" if is_commit else "aborted"
                self._note(replace(each, state=state, marker=header.base_offset))
            return
        for found in self._of_partition(batch, index):
            if header.magic == MAGIC_V2 and header.is_transactional:
                waiting = self._open.setdefault(header.producer_id, [])
                waiting[:] = waiting[-MOST:]
                waiting.append(replace(found, producer_id=header.producer_id))
            else:
                self._note(found)

    def _of_partition(self, batch: Batch, index: int) -> Iterator[CommitRecord]:
        for record in batch:
            if record.key is None or self._needle not in record.key:
                continue
            try:
                key = read_group_key(record.key)
                if not isinstance(key, OffsetCommitKey) or (key.topic, key.partition) != (self._topic, self._partition):
                    continue
                place = key.group, index, record.offset
                if record.value is None:
                    yield CommitRecord(*place, None, "", record.timestamp)
                    continue
                value = decode_versioned(OffsetCommitValue, record.value)
            except DecodeError:
                continue  # Skip a damaged record.
            yield CommitRecord(*place, value.offset, value.metadata, value.commit_timestamp)

    def _note(self, found: CommitRecord) -> None:
        known = self.groups.get(found.group)
        if known is None:
            if len(self.groups) >= MOST:
                return
            known = GroupCommits(found.group, None, None, 0)
        passed = known.passed
        passes = found.offset is not None and found.offset > self._offset
        if passes and (passed is None or (passed.state != "committed" and found.state == "committed")):
            passed = found
        latest = known.latest
        if found.state == "committed":
            # Version 1.0 stored some groups in other partitions; see `coordinators.misplaced`.
            home = self._home_of(found.group)
            if latest is None or latest.partition != home or found.partition == home:
                latest = found
        self.groups[found.group] = GroupCommits(found.group, passed, latest, known.count + 1)


_MOST_LISTED: Final = 200
"""Maximum number of groups, and of members and offsets of each group."""
_KINDS: Final = {"ConsumerGroup": "consumer", "ShareGroup": "share", "StreamsGroup": "streams"}
"""Group types by the prefix of their key classes' names."""


@dataclass(frozen=True, slots=True)
class PastOffset:
    """A committed offset."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class PastGroup:
    """A group at an earlier time.

    Attributes:
        type: "classic", "consumer", "share" or "streams".
        generation: the generation or the group epoch, or None for a group that only has offsets.
        members: at most 200 client ids of members.
        offsets: the first 200 of `offset_count`.
    """

    group_id: str
    type: str
    generation: int | None
    members: tuple[str, ...]
    offset_count: int
    offsets: tuple[PastOffset, ...]


@dataclass(frozen=True, slots=True)
class PastGroups:
    """The first 200 groups by id. `is_whole` is False if the logs were too long to read completely."""

    groups: tuple[PastGroup, ...]
    is_whole: bool


async def past_groups(services: Services, time_ms: int) -> PastGroups:
    """Return the groups at the end of the millisecond `time_ms` of the broker's clock.

    Records removed by compaction since then are missing.

    Raises:
        StorageError, OSError: a log cannot be read.
    """
    return await in_slices(services, _groups(services, time_ms))


def _groups(services: Services, time_ms: int) -> Steps[PastGroups]:
    topic = services.core.topics.get(CONSUMER_OFFSETS)
    if topic is None:
        return PastGroups((), is_whole=True)
    services.core.writes.commit()
    partition_of = services.groups.store.partition_of
    found: dict[str, PastGroup] = {}
    left = _MOST_BYTES
    for each in topic.partitions:
        log = each.log
        if log.log_end_offset > log.log_start_offset and left > 0:
            replay = Replay(f"{CONSUMER_OFFSETS}-{each.index}")
            # The coordinator stamps its records when it writes them, so a timestamp marks the end.
            for _, _, batch in batches_from(log, log.log_start_offset):
                left -= batch.header.size_in_bytes
                if batch.header.max_timestamp > time_ms or left <= 0:
                    break
                replay.read([batch])
                yield
            yield from steps_of(replay.finish())
            for group_id in replay.groups:
                # Version 1.0 stored some groups in other partitions; see `coordinators.misplaced`.
                if group_id not in found or partition_of(group_id) == each.index:
                    found[group_id] = _group(replay, group_id)
        yield
    return PastGroups(tuple(found[group_id] for group_id in sorted(found)[:_MOST_LISTED]), is_whole=left > 0)


def _group(replay: Replay, group_id: str) -> PastGroup:
    metadata, offsets = replay.groups[group_id]
    changes = replay.modern_groups.get(group_id, ())
    kind, generation, members = _classic(metadata) if not changes else _modern(changes)
    listed = [
        PastOffset(topic, partition, committed.offset)
        for topic, partitions in sorted(offsets.committed.items())
        for partition, committed in sorted(partitions.items())
    ]
    return PastGroup(
        group_id, kind, generation, tuple(members[:_MOST_LISTED]), len(listed), tuple(listed[:_MOST_LISTED])
    )


def _classic(metadata: GroupMetadataValue | None) -> tuple[str, int | None, list[str]]:
    if metadata is None:
        return "classic", None, []
    return "classic", metadata.generation, sorted(each.client_id for each in metadata.members)


def _modern(changes: Sequence[Any]) -> tuple[str, int | None, list[str]]:
    kind, epoch = "consumer", None
    members: list[str] = []
    for each in changes:
        name = type(each.key).__name__
        of_type = next((prefix for prefix in _KINDS if name.startswith(prefix)), "")
        kind = _KINDS.get(of_type, kind)
        if name == f"{of_type}MetadataKey":
            epoch = each.value.epoch
        elif name == f"{of_type}MemberMetadataKey":
            members.append(each.value.client_id)
    return kind, epoch, sorted(members)
