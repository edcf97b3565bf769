"""Checks the file names in data directories and partition directories, and the small files in them."""

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from minibroker_pipeline.filesystem import Entry, FileSystem, filesystem_of, read_if_there
from minibroker_pipeline.jobs.verify.findings import REBUILD, RENAME, Finding, Kind
from minibroker_pipeline.log_directories.partition_logs import SegmentFiles, partitions_without_directories
from minibroker_protocol.primitives import parse_uuid
from minibroker_storage.checkpoints import CHECKPOINT_VERSION, EpochEntry
from minibroker_storage.data_directory.names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINTS,
    TEMPORARY_DIRECTORY,
    TopicPartition,
    parse_partition_directory,
)
from minibroker_storage.data_directory.offset_checkpoints import parse_offset_checkpoint
from minibroker_storage.data_directory.staged_write import UNFINISHED
from minibroker_storage.errors import CorruptCheckpointError, CorruptSnapshotError
from minibroker_storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
)
from minibroker_storage.producer_snapshot import decode_snapshot

_OWN_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
_LEFTOVERS: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
_OTHER_NAMES: Final = re.compile(r"(quorum-state|\d{20}-\d{10}\.checkpoint(\.deleted)?|remote_log_snapshot)(\.tmp)?")
_RESTORE_ID: Final = "restore it: it has the topic's id; minibroker gives the topic a new one if the file is not there"
_ALL_SUFFIXES: Final = ("",)
"""The suffixes of files to list with their size: all files."""


@dataclass(slots=True)
class DataDirectory:
    """The small files of a data directory. An unreadable checkpoint is treated as empty."""

    path: str
    filesystem: FileSystem
    #: The URL scheme of the directory. Messages prefix paths with it.
    scheme: str
    checkpoints: dict[str, dict[TopicPartition, int]] = field(default_factory=dict[str, dict[TopicPartition, int]])
    is_clean: bool = False

    def read_cleaner_offsets(self) -> None:
        """Read cleaner-offset-checkpoint again, because a broker writes it after the logs.

        `find_at` reports its faults.
        """
        content = read_if_there(self.filesystem, f"{self.path}/{CLEANER_OFFSETS}")
        with contextlib.suppress(CorruptCheckpointError):
            self.checkpoints[CLEANER_OFFSETS] = parse_offset_checkpoint(content or b"", CLEANER_OFFSETS)

    def offset_in(self, checkpoint: str, topic: str, partition: int) -> int | None:
        """Return the offset of a partition in a checkpoint."""
        return self.checkpoints.get(checkpoint, {}).get((topic, partition))


@dataclass(slots=True)
class Partition:
    """The directory of a partition."""

    topic: str
    partition: int
    directory: str
    data: DataDirectory
    segments: list[SegmentFiles] = field(default_factory=list[SegmentFiles])
    snapshots: list[int] = field(default_factory=list[int])
    #: The entries of the leader epoch checkpoint.
    epochs: tuple[EpochEntry, ...] = ()

    def state(self) -> tuple[SegmentFiles, ...]:
        """Return a value that changes if segments are added or removed, but not if the last segment grows."""
        return (*self.segments[:-1], *(last._replace(size=0) for last in self.segments[-1:]))


def find_at(path: str, findings: list[Finding]) -> list[Partition]:
    """Return the partitions at `path`, which is a data directory or the directory of one partition.

    Partitions without a directory are included: they have never held a record. Faults outside the partitions are
    added to `findings`.

    Raises:
        OSError: a directory or a file cannot be read.
    """
    filesystem, directory = filesystem_of(path)
    scheme = path.partition("://")[0] + "://" if "://" in path and not path.startswith("file:") else ""
    entries = filesystem.entries(directory, _ALL_SUFFIXES)
    parent, _, name = directory.rpartition("/")
    own_partition = parse_partition_directory(name)
    if own_partition and any(entry.name.endswith((LOG_SUFFIX, PARTITION_METADATA)) for entry in entries):
        data = _data_directory(filesystem, parent, scheme, findings)
        return [Partition(*own_partition, directory, data)]
    data = _data_directory(filesystem, directory, scheme, findings)
    not_made = partitions_without_directories(filesystem, directory, {entry.name for entry in entries})
    partitions = [
        *_partitions_in(data, entries, findings),
        *(Partition(*key, f"{directory}/{key[0]}-{key[1]}", data) for key in not_made),
    ]
    return sorted(partitions, key=lambda partition: (partition.topic, partition.partition))


def _partitions_in(data: DataDirectory, entries: list[Entry], findings: list[Finding]) -> list[Partition]:
    partitions: dict[TopicPartition, Partition] = {}

    def report(name: str, kind: Kind, message: str, remedy: str) -> None:
        findings.append(Finding(f"{data.scheme}{data.path}/{name}", None, kind, message, remedy))

    for entry in entries:
        path = f"{data.path}/{entry.name}"
        key = parse_partition_directory(entry.name)
        if not entry.is_directory:
            if offset_of(entry.name) is not None:
                report(entry.name, Kind.NAME, "a file of a log, outside a partition's directory", RENAME)
        elif entry.name == UNFINISHED:
            message = "a writer was killed when it put its work in place: logs may be missing, or have others' ends"
            remedy = "write there again, or start minibroker there: either completes it"
            report(entry.name, Kind.MISSING, message, remedy)
        elif key is not None:
            partitions[key] = Partition(*key, path, data)
        elif TEMPORARY_DIRECTORY.fullmatch(entry.name) is None and any(
            file.name.endswith(LOG_SUFFIX) for file in data.filesystem.entries(path)
        ):
            message = "holds logs, but its name is not that of a topic, a dash and a partition: brokers do not see it"
            report(entry.name, Kind.NAME, message, RENAME)
    if data.is_clean and all(entry.name != UNFINISHED for entry in entries):
        for topic, partition in sorted(data.checkpoints.get(RECOVERY_POINTS, {}).keys() - partitions.keys()):
            message = f"{RECOVERY_POINTS} names it, but it is not there"
            report(f"{topic}-{partition}", Kind.MISSING, message, "restore the directory")
    return list(partitions.values())


def _data_directory(filesystem: FileSystem, path: str, scheme: str, findings: list[Finding]) -> DataDirectory:
    data = DataDirectory(path, filesystem, scheme)
    for name in OFFSET_CHECKPOINTS:
        try:
            data.checkpoints[name] = parse_offset_checkpoint(read_if_there(filesystem, f"{path}/{name}") or b"", name)
        except CorruptCheckpointError as error:
            remedy = "with the broker stopped, delete it; the broker goes on with what the logs say"
            findings.append(Finding(f"{scheme}{path}/{name}", None, Kind.SMALL_FILE, str(error), remedy))
    data.is_clean = read_if_there(filesystem, f"{path}/{CLEAN_SHUTDOWN}") is not None
    return data


def list_partition(partition: Partition) -> list[Finding]:
    """List a partition's directory again, setting its segments, snapshots and epochs.

    Returns:
        The faults of file names and small files.

    Raises:
        FileNotFoundError: the directory was deleted.
    """
    listing = _Listing(partition)
    listing.take(partition.data.filesystem.entries(partition.directory, _ALL_SUFFIXES))
    return listing.findings


class _Listing:
    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._prefix = f"{partition.data.scheme}{partition.directory}"
        self._logs: dict[int, Entry] = {}
        self._indexes: dict[int, set[str]] = {}
        self.findings: list[Finding] = []

    def take(self, entries: list[Entry]) -> None:
        partition = self._partition
        partition.snapshots, partition.epochs = [], ()
        for entry in sorted(entries):
            self._take(entry)
        partition.snapshots.sort()
        partition.segments = [
            SegmentFiles(base, entry.size, entry.identity, frozenset(self._indexes.get(base, ())))
            for base, entry in sorted(self._logs.items())
        ]
        for base, suffixes in sorted(self._indexes.items()):
            if base not in self._logs:
                for suffix in sorted(suffixes):
                    message = "there is no log file for this index"
                    self._add_finding(f"{base:020d}{suffix}", Kind.MISSING, message, f"restore {base:020d}{LOG_SUFFIX}")
        if not self._logs and not self._is_unused({entry.name for entry in entries}):
            message = "there is no log file in this directory"
            self._add_finding("", Kind.MISSING, message, "restore it, or remove the directory")

    def _is_unused(self, names: set[str]) -> bool:
        """Return whether the directory cannot have held a record.

        Either minibroker left only the topic's id in it, or a broker is creating the directory.
        """
        data, key = self._partition.data, (self._partition.topic, self._partition.partition)
        if any(data.offset_in(name, *key) for name in OFFSET_CHECKPOINTS):
            return False
        return names == {PARTITION_METADATA} or not (data.is_clean or self._indexes or self._partition.snapshots)

    def _take(self, entry: Entry) -> None:
        name = entry.name
        stem, dot, ending = name.rpartition(".")
        suffix, offset = dot + ending, offset_of(name)
        if entry.is_directory:
            message = "a directory, where brokers put none"
            self._add_finding(name, Kind.NAME, message, "move it elsewhere", is_damage=False)
        elif suffix in _OWN_SUFFIXES and offset is not None and "." not in stem:
            self._add_log_file(entry, offset, suffix)
        elif name == LEADER_EPOCH_CHECKPOINT:
            self._check(name, self._read_epochs)
        elif name == PARTITION_METADATA:
            self._check(name, self._read_metadata)
        elif suffix in _LEFTOVERS and offset is not None:
            if suffix != DELETED_SUFFIX:
                message = "left by a compaction that is going on, or was interrupted"
                self._add_finding(name, Kind.NAME, message, "nothing: a broker completes it", is_damage=False)
        elif _OTHER_NAMES.fullmatch(name) is None and suffix != ".tmp":
            if any(part in name for part in _OWN_SUFFIXES):
                message = f"no name of a log's file, which is 20 digits and {', '.join(_OWN_SUFFIXES)}: never read"
                self._add_finding(name, Kind.NAME, message, RENAME)
            else:
                self._add_finding(name, Kind.NAME, "not a file of a broker", "move it elsewhere", is_damage=False)

    def _add_log_file(self, entry: Entry, offset: int, suffix: str) -> None:
        if suffix == LOG_SUFFIX:
            self._logs[offset] = entry
        elif suffix == SNAPSHOT_SUFFIX:
            self._partition.snapshots.append(offset)
            self._check(entry.name, decode_snapshot)
        else:
            self._indexes.setdefault(offset, set()).add(suffix)

    def _check(self, name: str, read: Callable[[bytes], object]) -> None:
        content = read_if_there(self._partition.data.filesystem, f"{self._partition.directory}/{name}")
        if content is None:
            return  # The file was deleted after it was listed, so there is nothing to check.
        try:
            read(content)
        except (CorruptSnapshotError, ValueError, KeyError, TypeError, IndexError) as error:
            remedy = _RESTORE_ID if name == PARTITION_METADATA else REBUILD
            self._add_finding(name, Kind.SMALL_FILE, f"cannot be read: {error}", remedy)

    def _read_epochs(self, content: bytes) -> None:
        lines = content.decode().splitlines()
        if not lines:
            return
        entries = [EpochEntry(*map(int, line.split())) for line in lines[2:]]
        if int(lines[0]) != CHECKPOINT_VERSION or int(lines[1]) != len(entries) or entries != sorted(set(entries)):
            raise ValueError(f"version {lines[0]}, {lines[1]} of {len(entries)} entries, or they do not rise")
        self._partition.epochs = tuple(entries)

    @staticmethod
    def _read_metadata(content: bytes) -> None:
        fields = dict(line.split(": ", 1) for line in content.decode().splitlines())
        parse_uuid(fields["topic_id"].strip())

    def _add_finding(self, name: str, kind: Kind, message: str, remedy: str, *, is_damage: bool = True) -> None:
        self.findings.append(Finding(f"{self._prefix}/{name}".rstrip("/"), None, kind, message, remedy, is_damage))
