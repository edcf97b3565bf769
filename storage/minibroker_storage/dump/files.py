"""Selects the files to dump: derives each file's kind from its name, and expands directories."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from minibroker_storage.data_directory.names import OFFSET_CHECKPOINTS, parse_partition_directory
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
)

STANDARD_INPUT: Final = "-"
LOG_07_SUFFIX: Final = ".kafka"
"""File name suffix of Kafka 0.7's logs."""


class FileKind(Enum):
    """The kind of a file. The values are the names used in JSON output."""

    LOG = "log"
    LOG_07 = "log-0.7"
    OFFSET_INDEX = "index"
    TIME_INDEX = "timeindex"
    TXN_INDEX = "txnindex"
    SNAPSHOT = "snapshot"
    LEADER_EPOCHS = "leader-epoch-checkpoint"
    OFFSET_CHECKPOINT = "offset-checkpoint"
    PARTITION_METADATA = "partition-metadata"
    UNKNOWN = "unknown"


class DumpFile(NamedTuple):
    """A file to dump.

    `base_offset` is the number at the start of the file's name, or None. `listed` is set if the file was found in a
    directory, in which case it may disappear before it is opened.
    """

    path: str
    kind: FileKind
    base_offset: int | None
    listed: bool = False

    def sibling(self, suffix: str) -> str:
        """Return the path of the segment's file with this suffix, keeping a state such as `.deleted` or `.swap`."""
        directory, name = os.path.split(self.path)
        stem, state = os.path.splitext(name)
        return os.path.join(directory, stem.partition(".")[0] + suffix + (state if state in _STATE_SUFFIXES else ""))


_BY_SUFFIX: Final = {
    LOG_SUFFIX: FileKind.LOG,
    INDEX_SUFFIX: FileKind.OFFSET_INDEX,
    TIME_INDEX_SUFFIX: FileKind.TIME_INDEX,
    TXN_INDEX_SUFFIX: FileKind.TXN_INDEX,
    SNAPSHOT_SUFFIX: FileKind.SNAPSHOT,
    LOG_07_SUFFIX: FileKind.LOG_07,
}
_BY_NAME: Final = {
    LEADER_EPOCH_CHECKPOINT: FileKind.LEADER_EPOCHS,
    PARTITION_METADATA: FileKind.PARTITION_METADATA,
    **dict.fromkeys(OFFSET_CHECKPOINTS, FileKind.OFFSET_CHECKPOINT),
}
_STATE_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
_ORDER: Final = list(FileKind)


def dump_file(path: str, *, listed: bool = False) -> DumpFile:
    """Return a `DumpFile` for `path`. Its kind depends only on its name, and standard input is read as a log."""
    if path == STANDARD_INPUT:
        return DumpFile(path, FileKind.LOG, None)
    name = os.path.basename(path)
    if name in _BY_NAME:
        return DumpFile(path, _BY_NAME[name], None, listed)
    for suffix in _STATE_SUFFIXES:
        name = name.removesuffix(suffix)
    digits = name.partition(".")[0]
    base_offset = int(digits) if digits.isdecimal() and digits.isascii() else None
    return DumpFile(path, _BY_SUFFIX.get(os.path.splitext(name)[1], FileKind.UNKNOWN), base_offset, listed)


def expand(paths: Iterable[str]) -> Iterator[DumpFile]:
    """Yield the files in `paths`, in order, replacing directories with their content.

    A partition directory yields the files of each segment, then its checkpoint and metadata. A data directory
    yields its checkpoints, then the files of its partitions. Files of unknown kinds in directories are skipped.

    Raises:
        OSError: a directory cannot be read.
    """
    for path in paths:
        if os.path.isdir(path):
            yield from _list_directory(path, deep=True)
        else:
            yield dump_file(path)


def _list_directory(path: str, *, deep: bool) -> list[DumpFile]:
    with os.scandir(path) as entries:
        children = [(entry.path, entry.is_dir()) for entry in entries]
    files = [dump_file(name, listed=True) for name, is_directory in children if not is_directory]
    files = sorted((file for file in files if file.kind is not FileKind.UNKNOWN), key=_sort_key)
    for directory in sorted((name for name, is_directory in children if is_directory and deep), key=_partition_key):
        with contextlib.suppress(FileNotFoundError):  # The directory may have been deleted since its parent was listed.
            files += _list_directory(directory, deep=False)
    return files


def _sort_key(file: DumpFile) -> tuple[bool, int, int, str]:
    return file.base_offset is None, file.base_offset or 0, _ORDER.index(file.kind), file.path


def _partition_key(directory: str) -> tuple[str, int, str]:
    name = os.path.basename(directory)
    topic, partition = parse_partition_directory(name) or (name, -1)
    return topic, partition, directory


class DumpOptions(NamedTuple):
    """The supported options of Kafka's DumpLogSegments, with Kafka's names.

    Attributes:
        deep_iteration: whether to yield records in addition to batches.
        max_bytes: the number of bytes to read from each log, or None to read it completely.
        index_sanity_check: whether to check indexes only as a broker does at start-up, without reading all entries.
        verify_index_only: whether to check index entries against the log without yielding them.
        is_07: whether to read every log in the format of Kafka 0.7, even if it looks different.
    """

    deep_iteration: bool = False
    max_bytes: int | None = None
    index_sanity_check: bool = False
    verify_index_only: bool = False
    is_07: bool = False
