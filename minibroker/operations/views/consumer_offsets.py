"""Views of `__consumer_offsets` for the lab's page: the commits of one partition, and groups at an earlier time.

Both are read from the log, not from the coordinator's memory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from minibroker.cluster.routing.slices import Steps, steps_of
from minibroker.coordinators.groups.replay import Replay
from minibroker.operations.waiting import run_in_slices
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

MAX_ELEMENTS: Final = 500
"""Maximum number of groups."""
_MAX_BYTES: Final = 1 << 26
"""Maximum number of bytes read from the logs."""


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A record with a committed offset. Times are in ms.

    Attributes:
        partition: the record's partition of `__consumer_offsets`.
        log_offset: the record's offset in that partition.
        offset: the committed offset, or None for a tombstone, which removes the commit.
        state: "committed", or "open" or "aborted" for a record of a transaction in that state.
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
        passed: the oldest record in the log whose committed offset is greater than the requested one, or None.
        latest: the newest record, not counting records of open and aborted transactions.
        count: the number of the group's records in the log.
    """

    group: str
    passed: CommitRecord | None
    latest: CommitRecord | None
    count: int


@dataclass(frozen=True, slots=True)
class CommitsView:
    """The commits of all groups, at most 500. `is_whole` is False if the logs were too long to read completely."""

    groups: tuple[GroupCommits, ...]
    is_whole: bool


async def commits_of(services: Services, topic: str, partition: int, offset: int) -> CommitsView:
    """Return all groups' commits for one partition, with each group's first commit beyond `offset`.

    Raises:
        StorageError, OSError: a log cannot be read.
    """
    return await run_in_slices(services, _collect_commits(services, topic, partition, offset))


def _collect_commits(services: Services, topic: str, partition: int, offset: int) -> Steps[CommitsView]:
    coordinators = services.core.topics.get(CONSUMER_OFFSETS)
    if coordinators is None:
        return CommitsView((), is_whole=True)
    services.core.writes.commit()
    reader = _CommitReader(topic, partition, offset, services.groups.store.partition_of)
    bytes_left = _MAX_BYTES
    for offsets_partition in coordinators.partitions:
        log = offsets_partition.log
        if log.log_end_offset == log.log_start_offset or bytes_left <= 0:
            continue
        try:
            for _, _, batch in batches_from(log, log.log_start_offset):
                bytes_left -= batch.header.size_in_bytes
                if bytes_left <= 0:
                    break
                reader.take(batch, offsets_partition.index)
                yield
        except DecodeError as error:
            raise StorageError(f"{CONSUMER_OFFSETS}-{offsets_partition.index}: {error}") from None
        reader.end()
    return CommitsView(tuple(reader.groups.values()), is_whole=bytes_left > 0)


class _CommitReader:
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
            for record in pending:
                self._add(replace(record, state="open"))
        self._open = {}

    def take(self, batch: Batch, index: int) -> None:
        """Read a batch of one partition."""
        header = batch.header
        if header.magic > MAGIC_V1 and header.is_control:
            record = next(iter(batch), None)
            is_commit = record is not None and control_type(record.key)[0] == "COMMIT"
            for pending in self._open.pop(header.producer_id, ()):
                state = "committed" if is_commit else "aborted"
                self._add(replace(pending, state=state, marker=header.base_offset))
            return
        for commit in self._commits_in(batch, index):
            if header.magic == MAGIC_V2 and header.is_transactional:
                waiting = self._open.setdefault(header.producer_id, [])
                waiting[:] = waiting[-MAX_ELEMENTS:]
                waiting.append(replace(commit, producer_id=header.producer_id))
            else:
                self._add(commit)

    def _commits_in(self, batch: Batch, index: int) -> Iterator[CommitRecord]:
        for record in batch:
            if record.key is None or self._needle not in record.key:
                continue
            try:
                key = read_group_key(record.key)
                if not isinstance(key, OffsetCommitKey) or (key.topic, key.partition) != (self._topic, self._partition):
                    continue
                position = key.group, index, record.offset
                if record.value is None:
                    yield CommitRecord(*position, None, "", record.timestamp)
                    continue
                value = decode_versioned(OffsetCommitValue, record.value)
            except DecodeError:
                continue  # Skip a damaged record.
            yield CommitRecord(*position, value.offset, value.metadata, value.commit_timestamp)

    def _add(self, commit: CommitRecord) -> None:
        commits = self.groups.get(commit.group)
        if commits is None:
            if len(self.groups) >= MAX_ELEMENTS:
                return
            commits = GroupCommits(commit.group, None, None, 0)
        passed = commits.passed
        passes = commit.offset is not None and commit.offset > self._offset
        if passes and (passed is None or (passed.state != "committed" and commit.state == "committed")):
            passed = commit
        latest = commits.latest
        if commit.state == "committed":
            # Version 1.0 of minibroker stored some groups in the wrong partitions; see `coordinators.misplaced`.
            home = self._home_of(commit.group)
            if latest is None or latest.partition != home or commit.partition == home:
                latest = commit
        self.groups[commit.group] = GroupCommits(commit.group, passed, latest, commits.count + 1)


_MAX_LISTED: Final = 200
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
        members: the client ids of at most 200 members.
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
    """Return the groups as they were at the end of the millisecond `time_ms`, by the broker's clock.

    Records removed by compaction since then are missing.

    Raises:
        StorageError, OSError: a log cannot be read.
    """
    return await run_in_slices(services, _collect_groups(services, time_ms))


def _collect_groups(services: Services, time_ms: int) -> Steps[PastGroups]:
    topic = services.core.topics.get(CONSUMER_OFFSETS)
    if topic is None:
        return PastGroups((), is_whole=True)
    services.core.writes.commit()
    partition_of = services.groups.store.partition_of
    groups: dict[str, PastGroup] = {}
    bytes_left = _MAX_BYTES
    for partition in topic.partitions:
        log = partition.log
        if log.log_end_offset > log.log_start_offset and bytes_left > 0:
            replay = Replay(f"{CONSUMER_OFFSETS}-{partition.index}")
            # The coordinator stamps records when it writes them, so the replay stops at the first later timestamp.
            for _, _, batch in batches_from(log, log.log_start_offset):
                bytes_left -= batch.header.size_in_bytes
                if batch.header.max_timestamp > time_ms or bytes_left <= 0:
                    break
                replay.read([batch])
                yield
            yield from steps_of(replay.finish())
            for group_id in replay.groups:
                # Version 1.0 of minibroker stored some groups in the wrong partitions; see `coordinators.misplaced`.
                if group_id not in groups or partition_of(group_id) == partition.index:
                    groups[group_id] = _describe_past_group(replay, group_id)
        yield
    return PastGroups(tuple(groups[group_id] for group_id in sorted(groups)[:_MAX_LISTED]), is_whole=bytes_left > 0)


def _describe_past_group(replay: Replay, group_id: str) -> PastGroup:
    metadata, offsets = replay.groups[group_id]
    changes = replay.modern_groups.get(group_id, ())
    kind, generation, members = _describe_classic(metadata) if not changes else _describe_modern(changes)
    listed = [
        PastOffset(topic, partition, committed.offset)
        for topic, partitions in sorted(offsets.committed.items())
        for partition, committed in sorted(partitions.items())
    ]
    return PastGroup(group_id, kind, generation, tuple(members[:_MAX_LISTED]), len(listed), tuple(listed[:_MAX_LISTED]))


def _describe_classic(metadata: GroupMetadataValue | None) -> tuple[str, int | None, list[str]]:
    if metadata is None:
        return "classic", None, []
    return "classic", metadata.generation, sorted(member.client_id for member in metadata.members)


def _describe_modern(changes: Sequence[Any]) -> tuple[str, int | None, list[str]]:
    kind, epoch = "consumer", None
    members: list[str] = []
    for record in changes:
        name = type(record.key).__name__
        of_type = next((prefix for prefix in _KINDS if name.startswith(prefix)), "")
        kind = _KINDS.get(of_type, kind)
        if name == f"{of_type}MetadataKey":
            epoch = record.value.epoch
        elif name == f"{of_type}MemberMetadataKey":
            members.append(record.value.client_id)
    return kind, epoch, sorted(members)
