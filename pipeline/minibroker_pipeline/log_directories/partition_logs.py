"""The logs of partitions in log directories: topics, partitions, segments, and the checkpoints beside them.

Directories of minibroker and of Apache Kafka are treated alike. Nothing is written, locked or repaired here. The used
part of an index file is read into an array, because planning needs many index entries at once, and the files may be
remote.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.filesystem import Entry, FileSystem, filesystem_of, read_if_there
from minibroker_protocol.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC
from minibroker_storage.data_directory.names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOCK_FILE,
    LOG_START_OFFSETS,
    TOPICS_FILE,
    TopicPartition,
    parse_partition_directory,
    parse_topics_file,
)
from minibroker_storage.data_directory.offset_checkpoints import parse_offset_checkpoint
from minibroker_storage.data_directory.staged_write import UNFINISHED
from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.layout import INDEX_SUFFIX as OFFSET_INDEX_SUFFIX
from minibroker_storage.layout import (
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
)
from minibroker_storage.transaction_index import AbortedTxn, decode_all

KAFKAS_TOPICS: Final = INTERNAL_TOPICS | {METADATA_TOPIC}
"""Topics that hold no user records."""

_INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_SWAP_WAITS: Final = (0.01, 0.05, 0.2, 1.0)
"""Delays between the attempts to list a directory, in seconds."""


class LogNameError(ValueError):
    """Names in a directory that no log can have. The message contains the path and suggests a remedy."""


class SegmentFiles(NamedTuple):
    """The files of a segment.

    The file names contain `base_offset`. `size` and `identity` are those of the `.log` file. `indexes` has the
    suffixes of the existing index files.
    """

    base_offset: int
    size: int
    identity: int
    indexes: frozenset[str]


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The properties of a data directory that apply to all its logs.

    `is_clean` means that the broker closed all logs before it stopped. `is_single` means that the logs were written by
    minibroker, which has no other replicas, so every record of a log counts.
    """

    path: str
    filesystem: FileSystem
    log_starts: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    is_clean: bool = False
    is_single: bool = False


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The files of a partition's log.

    `segments` are in ascending order. A running broker appends to the last segment.
    """

    topic: str
    partition: int
    directory: str
    data: DataDirectory
    segments: tuple[SegmentFiles, ...]
    #: Offsets in the names of the producer snapshots, ascending.
    snapshots: tuple[int, ...]
    #: Names of `.log` files that do not name an offset.
    odd_names: tuple[str, ...]
    _offset_indexes: dict[int, "OffsetEntries"] = field(default_factory=dict[int, "OffsetEntries"], compare=False)

    @property
    def filesystem(self) -> FileSystem:
        """The file system that contains the log."""
        return self.data.filesystem

    @property
    def start_offset(self) -> int:
        """The log start offset: the first offset that retention and DeleteRecords have left for readers."""
        checkpoint = self.data.log_starts.get((self.topic, self.partition), 0)
        return max(checkpoint, self.segments[0].base_offset if self.segments else 0)

    def path(self, segment: SegmentFiles, suffix: str = LOG_SUFFIX) -> str:
        """Return the path of one of the segment's files."""
        return f"{self.directory}/{segment.base_offset:020d}{suffix}"

    def offset_index(self, segment: SegmentFiles) -> "OffsetEntries":
        """Return the entries of a segment's offset index that point into the log file.

        A missing index has no entries.

        Raises:
            OSError: the file cannot be read.
        """
        if segment.base_offset not in self._offset_indexes:
            entries = offset_entries(self.read_index(segment, OFFSET_INDEX_SUFFIX), segment.base_offset)
            count = int(np.searchsorted(entries.positions, segment.size))
            entries = OffsetEntries(entries.offsets[:count], entries.positions[:count])
            self._offset_indexes[segment.base_offset] = entries
        return self._offset_indexes[segment.base_offset]

    def read_index(self, segment: SegmentFiles, suffix: str) -> bytes:
        """Return the contents of a segment's offset index or time index (see `read_index`), or nothing without one."""
        if suffix not in segment.indexes:
            return b""
        return read_index(self.filesystem, self.path(segment, suffix), segment.size) or b""

    def end_of(self, index: int) -> int | None:
        """Return the offset after the end of the segment with this index, or None for the last segment.

        The end of the last segment is known only from its bytes.
        """
        return self.segments[index + 1].base_offset if index + 1 < len(self.segments) else None


class FoundPartition(NamedTuple):
    """A partition whose directory has not been listed yet.

    `is_made` means that the directory exists. minibroker creates it with the first record. Until then, only
    minibroker's topics file names the partition, and the partition is empty.
    """

    topic: str
    partition: int
    directory: str
    data: DataDirectory
    is_made: bool = True


def read_topic_id(partition: FoundPartition) -> str | None:
    """Return the topic's id from `partition.metadata`, or None. Kafka writes that file from release 2.8 on.

    Raises:
        OSError: the file cannot be read.
    """
    content = read_if_there(partition.data.filesystem, f"{partition.directory}/{PARTITION_METADATA}") or b""
    found = re.search(rb"topic_id: (\S+)", content)
    return found[1].decode("latin-1") if found else None


def find_partitions(
    paths: Iterable[str], storage: Mapping[str, Any] | None = None
) -> dict[TopicPartition, FoundPartition]:
    """Return the partitions in data directories, ordered by name. A path can also be the directory of one partition.

    Partitions without a directory are included if minibroker's topics file names them. Directories that a broker is
    deleting or moving are skipped.

    Args:
        paths: the data directories or partition directories.
        storage: arguments for the file systems of remote addresses (see `filesystem_of`).

    Raises:
        FileNotFoundError: a path does not exist.
        NotADirectoryError: a path is not a directory.
        LogNameError: two directories contain the same partition.
        CorruptCheckpointError: a checkpoint is damaged.
        OSError: a directory cannot be read.
    """
    by_key: dict[TopicPartition, FoundPartition] = {}
    for path in paths:
        for partition in _partitions_at(path, storage):
            key = partition.topic, partition.partition
            if key in by_key and by_key[key].directory != partition.directory:
                raise LogNameError(
                    f"{partition.directory} and {by_key[key].directory} are the same partition; name one directory only"
                )
            by_key[key] = partition
    return dict(sorted(by_key.items()))


def _partitions_at(path: str, storage: Mapping[str, Any] | None) -> list[FoundPartition]:
    filesystem, directory = filesystem_of(path, storage)
    parent, _, name = directory.rpartition("/")
    own_name = parse_partition_directory(name)
    fault = (
        "a writer was killed there when it put its work in place; the next write into the directory, or a start of"
        " minibroker on it, completes that"
    )
    entries = _list_settled(filesystem, directory, lambda names: UNFINISHED not in names, fault, LOCK_FILE)
    of_partitions = LOG_SUFFIX, PARTITION_METADATA
    if own_name and any(entry.name.endswith(of_partitions) and not entry.is_directory for entry in entries):
        return [FoundPartition(*own_name, directory, _data_directory(filesystem, parent))]
    names = {entry.name for entry in entries}
    data = _data_directory(filesystem, directory, entries)
    existing = [
        FoundPartition(*key, f"{directory}/{entry.name}", data)
        for entry in entries
        if entry.is_directory and (key := parse_partition_directory(entry.name))
    ]
    absent = partitions_without_directories(filesystem, directory, names)
    return [*existing, *(FoundPartition(*key, f"{directory}/{key[0]}-{key[1]}", data, is_made=False) for key in absent)]


def partitions_without_directories(filesystem: FileSystem, data_dir: str, names: set[str]) -> list[TopicPartition]:
    """Return the partitions that minibroker's topics file lists, but that are not among `names` in the data directory.

    The result is empty if the topics file cannot be parsed.

    Raises:
        OSError: the topics file cannot be read.
    """
    path = f"{data_dir}/{TOPICS_FILE}"
    content = read_if_there(filesystem, path) if TOPICS_FILE in names else None
    if content is None:
        return []
    try:
        counts = {name: int(entry["partitions"]) for name, entry in parse_topics_file(content, path)["topics"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return []  # Ignore the fault here, because a broker that opens the directory reports it.
    return [
        (topic, index) for topic, count in counts.items() for index in range(count) if f"{topic}-{index}" not in names
    ]


def _list_settled(
    filesystem: FileSystem, directory: str, is_settled: Callable[[set[str]], bool], fault: str, sized: str
) -> list[Entry]:
    """List a directory, retrying while a writer or a compaction is replacing files, which takes a few milliseconds.

    Files whose names end with `sized` are listed with their sizes.

    Raises:
        LogNameError: the replacement was interrupted.
    """
    for wait in _SWAP_WAITS:
        entries = filesystem.entries(directory, (sized,))
        if is_settled({entry.name for entry in entries}):
            return entries
        time.sleep(wait)
    raise LogNameError(f"{directory}: {fault}")


def _data_directory(filesystem: FileSystem, path: str, entries: list[Entry] | None = None) -> DataDirectory:
    """Return the properties of a data directory. The directory is listed unless its `entries` are given."""
    if entries is None:
        try:
            entries = filesystem.entries(path, (LOCK_FILE,))
        except (FileNotFoundError, NotADirectoryError):
            entries = []
    sizes = {entry.name: entry.size for entry in entries}

    def checkpoint(name: str) -> dict[TopicPartition, int]:
        data = read_if_there(filesystem, f"{path}/{name}") if name in sizes else None
        return parse_offset_checkpoint(data or b"", f"{path}/{name}")

    starts, high_watermarks = checkpoint(LOG_START_OFFSETS), checkpoint(HIGH_WATERMARKS)
    # Only minibroker writes into the lock file. Kafka leaves the file empty. The size comes from the listing, because
    # opening and closing the file would release the lock of a broker in this process.
    is_single = sizes.get(LOCK_FILE, 0) > 0
    return DataDirectory(path, filesystem, starts, high_watermarks, CLEAN_SHUTDOWN in sizes, is_single)


def cleaner_offsets(logs: Iterable[PartitionLog]) -> dict[TopicPartition, int]:
    """Return the offsets of these logs in cleaner-offset-checkpoint.

    Raises:
        CorruptCheckpointError: a checkpoint is damaged.
        OSError: a checkpoint cannot be read.
    """
    checkpoints: dict[str, dict[TopicPartition, int]] = {}
    offsets: dict[TopicPartition, int] = {}
    for log in logs:
        path = f"{log.data.path}/{CLEANER_OFFSETS}"
        if path not in checkpoints:
            checkpoints[path] = parse_offset_checkpoint(read_if_there(log.filesystem, path) or b"", path)
        key = log.topic, log.partition
        if key in checkpoints[path]:
            offsets[key] = checkpoints[path][key]
    return offsets


def open_partition(partition: FoundPartition) -> PartitionLog:
    """List a partition's directory. A directory that has not been created yet counts as empty.

    Raises:
        FileNotFoundError: the directory was deleted.
        LogNameError: a compaction was interrupted in the directory.
        OSError: the directory cannot be read.
    """
    fault = "a compaction was interrupted there; a broker that opens the directory completes it"
    try:
        entries = _list_settled(partition.data.filesystem, partition.directory, _are_swapped, fault, LOG_SUFFIX)
    except FileNotFoundError:
        if partition.is_made:
            raise
        entries = []
    indexes: dict[int, set[str]] = {}
    logs: list[tuple[int, int, int]] = []
    snapshots: list[int] = []
    odd_names: list[str] = []
    for name, _, size, identity in entries:
        stem, dot, ending = name.rpartition(".")
        suffix = dot + ending
        offset = offset_of(name)
        if offset is None or "." in stem:
            if suffix == LOG_SUFFIX:  # Files that end with .deleted, .cleaned or .swap are not part of the log.
                odd_names.append(name)
        elif suffix == LOG_SUFFIX:
            logs.append((offset, size, identity))
        elif suffix in _INDEX_SUFFIXES:
            indexes.setdefault(offset, set()).add(suffix)
        elif suffix == SNAPSHOT_SUFFIX:
            snapshots.append(offset)
    segments = tuple(SegmentFiles(*log, frozenset(indexes.get(log[0], ()))) for log in sorted(logs))
    return PartitionLog(*partition[:4], segments, tuple(sorted(snapshots)), tuple(sorted(odd_names)))


def _are_swapped(names: set[str]) -> bool:
    """Return whether compaction has finished replacing segments (see `replacement`)."""
    return all(name.removesuffix(SWAP_SUFFIX) in names for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))


def select(
    partitions_by_key: dict[TopicPartition, FoundPartition],
    *,
    topics: Sequence[str] = (),
    pattern: str = "",
    assignment: dict[str, list[int]] | None = None,
    must_exist: bool = True,
) -> list[FoundPartition]:
    """Return the partitions selected by `topics`, by a `pattern` for topic names, or by an `assignment`.

    Without a selection, return all partitions except those of internal topics.

    Raises:
        LogNameError: a named topic or partition is missing, and `must_exist` is set.
    """
    existing_topics = {topic for topic, _ in partitions_by_key}
    missing = [topic for topic in (*topics, *(assignment or {})) if topic not in existing_topics]
    if missing and must_exist:
        topic_list = ", ".join(sorted(existing_topics)[:10]) or "none"
        raise LogNameError(f"there is no topic {missing[0]!r} in the directory; topics: {topic_list}")
    if assignment is not None:
        keys = [(topic, number) for topic, numbers in assignment.items() for number in numbers]
        for topic, number in keys if must_exist else ():
            if (topic, number) not in partitions_by_key:
                raise LogNameError(f"there is no partition {number} of topic {topic!r} in the directory")
        return [partition for key, partition in partitions_by_key.items() if key in keys]
    is_wanted = (
        frozenset(topics).__contains__
        if topics
        else partial(re.fullmatch, pattern)
        if pattern
        else lambda topic: topic not in KAFKAS_TOPICS
    )
    return [partition for partition in partitions_by_key.values() if is_wanted(partition.topic)]


_Ints = NDArray[np.int64]
OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
TXN_ENTRY_BYTES: Final = 34


class OffsetEntries(NamedTuple):
    """The last offset and the start position of some batches of a segment, in ascending order."""

    offsets: _Ints
    positions: _Ints


class TimeEntries(NamedTuple):
    """Timestamps (in milliseconds) and offsets, ascending. All records with a larger timestamp follow the offset."""

    timestamps: _Ints
    offsets: _Ints


_MIN_INDEX_BYTES: Final = 4104
"""The least to read of an index: a multiple of the sizes of both kinds of entries."""


def read_index(filesystem: FileSystem, path: str, log_bytes: int) -> bytes | None:
    """Return an offset index or a time index, or None if the file does not exist.

    Most of the zeros that a broker preallocates after the entries are not read: the file of a live log has 10 MiB.

    Args:
        filesystem: the file system of the index.
        path: the path of the index.
        log_bytes: the size of the segment's log file. By default, Kafka adds at most one entry per 4096 bytes, so the
            first request usually reads all entries.

    Raises:
        OSError: the file cannot be read.
    """
    data, size = b"", _MIN_INDEX_BYTES + log_bytes // 8192 * 24
    try:
        while True:
            chunk = filesystem.read_range(path, len(data), len(data) + size)
            data += chunk
            if len(chunk) < size or not any(chunk[-OFFSET_ENTRY.itemsize :]):
                return data
            size = len(data)
    except (FileNotFoundError, NotADirectoryError):
        return None


def offset_entries(data: bytes, base_offset: int) -> OffsetEntries:
    """Return the ascending entries at the beginning of an `.index` file.

    A file that is being written ends with zeros.
    """
    entries = np.frombuffer(data, OFFSET_ENTRY, count=len(data) // OFFSET_ENTRY.itemsize)
    count = _count_ascending(entries["position"])
    relative = entries["offset"][:count].astype(np.int64)
    count = _count_ascending(relative)
    return OffsetEntries(relative[:count] + base_offset, entries["position"][:count].astype(np.int64))


def time_entries(data: bytes, base_offset: int) -> TimeEntries:
    """Return the ascending entries at the beginning of a `.timeindex` file.

    A file that is being written ends with zeros.
    """
    entries = np.frombuffer(data, TIME_ENTRY, count=len(data) // TIME_ENTRY.itemsize)
    count = _count_ascending(entries["timestamp"])
    return TimeEntries(
        entries["timestamp"][:count].astype(np.int64), entries["offset"][:count].astype(np.int64) + base_offset
    )


def _count_ascending(values: NDArray[np.signedinteger]) -> int:
    """Return the length of the strictly ascending run at the start of the array."""
    stops = np.flatnonzero(values[1:] <= values[:-1])
    return int(stops[0]) + 1 if len(stops) else len(values)


def aborted_transactions(data: bytes, path: str) -> list[AbortedTxn]:
    """Return the entries of a `.txnindex` file. An incomplete last entry is ignored: a broker is still writing it.

    Raises:
        CorruptIndexError: an entry is invalid.
    """
    try:
        return decode_all(data[: len(data) - len(data) % TXN_ENTRY_BYTES])
    except CorruptIndexError as error:
        raise CorruptIndexError(f"{path}: {error}") from None
