"""Partitions' logs in log directories: topics, partitions, segments, and the checkpoints beside them.

Directories of minibroker and of Apache Kafka are alike. Nothing is written, locked or repaired here. Index files are
read whole, as arrays: planning needs many entries at once, of files that may be far away.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
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
"""Topics whose records are no user's."""

_INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_SWAP_WAITS: Final = (0.01, 0.05, 0.2, 1.0)
"""Seconds."""


class LogNameError(ValueError):
    """Names in a directory that no log has. Names the place, and says what to do."""


class SegmentFiles(NamedTuple):
    """A segment: the offset that names its files, the `.log` file's size and identity, and which indexes there are."""

    base_offset: int
    size: int
    identity: int
    indexes: frozenset[str]


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The facts that a data directory holds about all its logs.

    `is_clean`: the broker has stopped and had closed them. `is_single`: minibroker, of which there is only one, writes
    or wrote them, so that all that is in a log counts.
    """

    path: str
    filesystem: FileSystem
    log_starts: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    is_clean: bool = False
    is_single: bool = False


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The files of one partition's log. `segments` ascend; the last one is what a running broker appends to."""

    topic: str
    partition: int
    directory: str
    data: DataDirectory
    segments: tuple[SegmentFiles, ...]
    #: Offsets that producer snapshots are named by, ascending.
    snapshots: tuple[int, ...]
    #: Names of log files that are none.
    odd_names: tuple[str, ...]

    @property
    def filesystem(self) -> FileSystem:
        """Where it is."""
        return self.data.filesystem

    @property
    def start_offset(self) -> int:
        """The first offset that readers may see: what retention and DeleteRecords have left."""
        checkpoint = self.data.log_starts.get((self.topic, self.partition), 0)
        return max(checkpoint, self.segments[0].base_offset if self.segments else 0)

    def path(self, segment: SegmentFiles, suffix: str = LOG_SUFFIX) -> str:
        """Of one of the segment's files."""
        return f"{self.directory}/{segment.base_offset:020d}{suffix}"

    def end_of(self, number: int) -> int | None:
        """The offset that the segment of this number ends before; None for the last one, which only its bytes show."""
        return self.segments[number + 1].base_offset if number + 1 < len(self.segments) else None


class FoundPartition(NamedTuple):
    """A partition's directory, not looked into yet.

    `is_made`: it is there. minibroker makes it with the first record; until then only its topics file has the
    partition, which is empty.
    """

    topic: str
    partition: int
    directory: str
    data: DataDirectory
    is_made: bool = True


def find_partitions(
    paths: Iterable[str], storage: Mapping[str, Any] | None = None
) -> dict[TopicPartition, FoundPartition]:
    """The partitions in data directories, or the directory of a partition itself, in the order of their names.

    Those that have no directory yet are among them, if minibroker's topics file names them.
    `storage` is for directories behind addresses, see `filesystem_of`. Directories that a broker is deleting, or
    moving, are passed over. `FileNotFoundError`, `NotADirectoryError`, `OSError`; `LogNameError` when two directories
    have the same partition; `CorruptCheckpointError`.
    """
    found: dict[TopicPartition, FoundPartition] = {}
    for path in paths:
        for partition in _partitions_at(path, storage):
            key = partition.topic, partition.partition
            if key in found and found[key].directory != partition.directory:
                raise LogNameError(
                    f"{partition.directory} and {found[key].directory} are the same partition; name one directory only"
                )
            found[key] = partition
    return dict(sorted(found.items()))


def _partitions_at(path: str, storage: Mapping[str, Any] | None) -> list[FoundPartition]:
    filesystem, directory = filesystem_of(path, storage)
    parent, _, name = directory.rpartition("/")
    own_name = parse_partition_directory(name)
    entries = _entries_between_writes(filesystem, directory)
    of_partitions = LOG_SUFFIX, PARTITION_METADATA
    if own_name and any(entry.name.endswith(of_partitions) and not entry.is_directory for entry in entries):
        return [FoundPartition(*own_name, directory, _data_directory(filesystem, parent))]
    names = {entry.name for entry in entries}
    data = _data_directory(filesystem, directory, names)
    made = [
        FoundPartition(*named, f"{directory}/{entry.name}", data)
        for entry in entries
        if entry.is_directory and (named := parse_partition_directory(entry.name))
    ]
    not_made = partitions_without_directories(filesystem, directory, names)
    return [*made, *(FoundPartition(*key, f"{directory}/{key[0]}-{key[1]}", data, is_made=False) for key in not_made)]


def partitions_without_directories(filesystem: FileSystem, data_dir: str, names: set[str]) -> list[TopicPartition]:
    """The partitions of a data directory that minibroker's topics file names, but none of the `names` in it.

    None where the file cannot be read. `OSError`.
    """
    path = f"{data_dir}/{TOPICS_FILE}"
    content = _read_if_there(filesystem, path, names)
    if content is None:
        return []
    try:
        counts = {name: int(entry["partitions"]) for name, entry in parse_topics_file(content, path)["topics"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return []  # a broker that opens the directory says what is wrong
    return [
        (topic, index) for topic, count in counts.items() for index in range(count) if f"{topic}-{index}" not in names
    ]


def _entries_between_writes(filesystem: FileSystem, directory: str) -> list[Entry]:
    """A listing from outside the few milliseconds in which a writer puts its work in place (see `staged_write`)."""
    for wait in _SWAP_WAITS:
        entries = filesystem.entries(directory)
        if all(entry.name != UNFINISHED for entry in entries):
            return entries
        time.sleep(wait)
    raise LogNameError(
        f"{directory}: a writer was killed there when it put its work in place; the next write into the directory, or"
        " a start of minibroker on it, completes that"
    )


def _data_directory(filesystem: FileSystem, path: str, names: set[str] | None = None) -> DataDirectory:
    def checkpoint(name: str) -> dict[TopicPartition, int]:
        data = _read_if_there(filesystem, f"{path}/{name}", names)
        return parse_offset_checkpoint(data, f"{path}/{name}") if data else {}

    is_clean = _read_if_there(filesystem, f"{path}/{CLEAN_SHUTDOWN}", names) is not None
    # Kafka leaves the lock file empty.
    is_single = (names is None or LOCK_FILE in names) and _size_of_lock(filesystem, path) > 0
    starts, high_watermarks = checkpoint(LOG_START_OFFSETS), checkpoint(HIGH_WATERMARKS)
    return DataDirectory(path, filesystem, starts, high_watermarks, is_clean, is_single)


def _size_of_lock(filesystem: FileSystem, path: str) -> int:
    """Bytes of `.lock`, 0 without one. Opens nothing: closing the file would end the lock of a broker of this process.

    `OSError`.
    """
    try:
        entries = filesystem.entries(path, (LOCK_FILE,))
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return next((entry.size for entry in entries if entry.name == LOCK_FILE), 0)


def _read_if_there(filesystem: FileSystem, path: str, names: set[str] | None) -> bytes | None:
    return read_if_there(filesystem, path) if names is None or path.rpartition("/")[2] in names else None


def cleaner_offsets(logs: Iterable[PartitionLog]) -> dict[TopicPartition, int]:
    """Return the offsets that the logs have in cleaner-offset-checkpoint. `CorruptCheckpointError`, `OSError`."""
    checkpoints: dict[str, dict[TopicPartition, int]] = {}
    offsets: dict[TopicPartition, int] = {}
    for log in logs:
        path = f"{log.data.path}/{CLEANER_OFFSETS}"
        if path not in checkpoints:
            content = read_if_there(log.filesystem, path)
            checkpoints[path] = {} if content is None else parse_offset_checkpoint(content, path)
        key = log.topic, log.partition
        if key in checkpoints[path]:
            offsets[key] = checkpoints[path][key]
    return offsets


def open_partition(found: FoundPartition) -> PartitionLog:
    """List a partition's directory, if it is made. `FileNotFoundError` when it has been deleted; `LogNameError`.

    `OSError`.
    """
    entries = _settled_entries(found)
    indexes: dict[int, set[str]] = {}
    logs: list[tuple[int, int, int]] = []
    snapshots: list[int] = []
    odd: list[str] = []
    for name, _, size, identity in entries:
        stem, dot, ending = name.rpartition(".")
        suffix = dot + ending
        offset = offset_of(name)
        if suffix == LOG_SUFFIX and (offset is None or "." in stem):
            odd.append(name)
        elif offset is None or "." in stem:
            continue  # .deleted, .cleaned, .swap: not, or no longer, part of the log
        elif suffix == LOG_SUFFIX:
            logs.append((offset, size, identity))
        elif suffix in _INDEX_SUFFIXES:
            indexes.setdefault(offset, set()).add(suffix)
        elif suffix == SNAPSHOT_SUFFIX:
            snapshots.append(offset)
    none = frozenset[str]()
    kinds = {frozenset(names): frozenset(names) for names in indexes.values()}
    known = {offset: kinds[frozenset(names)] for offset, names in indexes.items()}
    segments = [SegmentFiles(*log, known.get(log[0], none)) for log in sorted(logs)]
    return PartitionLog(
        found.topic,
        found.partition,
        found.directory,
        found.data,
        tuple(segments),
        tuple(sorted(snapshots)),
        tuple(sorted(odd)),
    )


def _settled_entries(found: FoundPartition) -> list[Entry]:
    """A listing from outside the few milliseconds in which compaction replaces segments (see `replacement`)."""
    for wait in _SWAP_WAITS:
        try:
            entries = found.data.filesystem.entries(found.directory, (LOG_SUFFIX,))
        except FileNotFoundError:
            if found.is_made:
                raise
            return []
        names = {entry.name for entry in entries}
        swapped = [name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
        if all(name.removesuffix(SWAP_SUFFIX) in names for name in swapped):
            return entries
        time.sleep(wait)
    raise LogNameError(
        f"{found.directory}: a compaction was interrupted there; a broker that opens the directory completes it"
    )


def select(
    found: dict[TopicPartition, FoundPartition],
    *,
    topics: Sequence[str] = (),
    pattern: str = "",
    assignment: dict[str, list[int]] | None = None,
    must_exist: bool = True,
) -> list[FoundPartition]:
    """Those of these topics, or whose topic matches the pattern, or these partitions; else all but internal topics'.

    `LogNameError` for topics and partitions that are named but not there, if they `must_exist`.
    """
    there = {topic for topic, _ in found}
    missing = [topic for topic in (*topics, *(assignment or {})) if topic not in there]
    if missing and must_exist:
        known = ", ".join(sorted(there)[:10]) or "none"
        raise LogNameError(f"there is no topic {missing[0]!r} in the directory; topics: {known}")
    if assignment is not None:
        for topic, partitions in assignment.items():
            for number in partitions:
                if must_exist and (topic, number) not in found:
                    raise LogNameError(f"there is no partition {number} of topic {topic!r} in the directory")
        return [one for one in found.values() if one.partition in assignment.get(one.topic, ())]
    is_wanted = (
        frozenset(topics).__contains__
        if topics
        else partial(re.fullmatch, pattern)
        if pattern
        else lambda topic: topic not in KAFKAS_TOPICS
    )
    return [one for one in found.values() if is_wanted(one.topic)]


_Ints = NDArray[np.int64]
OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
TXN_ENTRY_BYTES: Final = 34


class OffsetEntries(NamedTuple):
    """Of some batches of a segment, ascending: the last offset, and the byte that the batch begins at."""

    offsets: _Ints
    positions: _Ints


class TimeEntries(NamedTuple):
    """Times (ms) and offsets, ascending: all records with a larger timestamp lie behind the offset."""

    timestamps: _Ints
    offsets: _Ints


def offset_entries(data: bytes, base_offset: int) -> OffsetEntries:
    """The entries of an `.index` file, as far as they ascend: a file that is still written to ends with zeros."""
    entries = np.frombuffer(data, OFFSET_ENTRY, count=len(data) // OFFSET_ENTRY.itemsize)
    count = _ascending(entries["position"])
    relative = entries["offset"][:count].astype(np.int64)
    count = _ascending(relative)
    return OffsetEntries(relative[:count] + base_offset, entries["position"][:count].astype(np.int64))


def time_entries(data: bytes, base_offset: int) -> TimeEntries:
    """The entries of a `.timeindex` file, likewise."""
    entries = np.frombuffer(data, TIME_ENTRY, count=len(data) // TIME_ENTRY.itemsize)
    count = _ascending(entries["timestamp"])
    return TimeEntries(
        entries["timestamp"][:count].astype(np.int64), entries["offset"][:count].astype(np.int64) + base_offset
    )


def _ascending(values: NDArray[np.signedinteger]) -> int:
    """The number of entries, from the first on, that ascend."""
    stops = np.flatnonzero(values[1:] <= values[:-1])
    return int(stops[0]) + 1 if len(stops) else len(values)


def aborted_transactions(data: bytes, path: str) -> list[AbortedTxn]:
    """The entries of a `.txnindex` file. A last entry that is cut short is still being written. `CorruptIndexError`."""
    try:
        return decode_all(data[: len(data) - len(data) % TXN_ENTRY_BYTES])
    except CorruptIndexError as error:
        raise CorruptIndexError(f"{path}: {error}") from None
