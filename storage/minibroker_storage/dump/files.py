"""Files to dump: the kind of each by its name, and the files that a directory stands for."""

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
"""The suffix of Kafka 0.7's log files."""


class FileKind(Enum):
    """The kind of a file; the values are the names that the JSON output uses."""

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
    """One file to dump. `base_offset` is what its name begins with, None where it begins with no number.

    `listed` says that the file was found in a directory, so that it may have gone by the time it is opened.
    """

    path: str
    kind: FileKind
    base_offset: int | None
    listed: bool = False

    def sibling(self, suffix: str) -> str:
        """The path of another file of the same segment; also of one that is cleaned, swapped in or deleted."""
        directory, name = os.path.split(self.path)
        stem, state = os.path.splitext(name)
        return os.path.join(directory, stem.partition(".")[0] + suffix + (state if state in _ON_THEIR_WAY else ""))


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
_ON_THEIR_WAY: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
_ORDER: Final = list(FileKind)


def dump_file(path: str, *, listed: bool = False) -> DumpFile:
    """The file at `path`, its kind judged by its name alone. Standard input is a log."""
    if path == STANDARD_INPUT:
        return DumpFile(path, FileKind.LOG, None)
    name = os.path.basename(path)
    if name in _BY_NAME:
        return DumpFile(path, _BY_NAME[name], None, listed)
    for suffix in _ON_THEIR_WAY:
        name = name.removesuffix(suffix)
    digits = name.partition(".")[0]
    base_offset = int(digits) if digits.isdecimal() and digits.isascii() else None
    return DumpFile(path, _BY_SUFFIX.get(os.path.splitext(name)[1], FileKind.UNKNOWN), base_offset, listed)


def expand(paths: Iterable[str]) -> Iterator[DumpFile]:
    """The files that `paths` stand for, in order.

    A directory stands for what it holds: of a partition, the files segment by segment, then its checkpoint and its
    metadata; of a data directory, its checkpoints and then its partitions. Files of no known kind are passed over
    there. `OSError` for a directory that cannot be read.
    """
    for path in paths:
        if os.path.isdir(path):
            yield from _directory(path, deep=True)
        else:
            yield dump_file(path)


def _directory(path: str, *, deep: bool) -> list[DumpFile]:
    with os.scandir(path) as entries:
        found = [(entry.path, entry.is_dir()) for entry in entries]
    files = [dump_file(name, listed=True) for name, is_directory in found if not is_directory]
    files = sorted((file for file in files if file.kind is not FileKind.UNKNOWN), key=_place)
    for directory in sorted((name for name, is_directory in found if is_directory and deep), key=_partition_place):
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            files += _directory(directory, deep=False)
    return files


def _place(file: DumpFile) -> tuple[bool, int, int, str]:
    return file.base_offset is None, file.base_offset or 0, _ORDER.index(file.kind), file.path


def _partition_place(directory: str) -> tuple[str, int, str]:
    name = os.path.basename(directory)
    topic, partition = parse_partition_directory(name) or (name, -1)
    return topic, partition, directory


class DumpOptions(NamedTuple):
    """The options of Kafka's DumpLogSegments that matter here, under its names.

    `deep_iteration` finds records and not only batches; `max_bytes` is the part of each log that is read, None for
    all; `index_sanity_check` judges indexes as a starting broker does and reads no entries; `verify_index_only` checks
    the entries against the log without yielding them; `is_07` says that logs are Kafka 0.7's, whatever they look like.
    """

    deep_iteration: bool = False
    max_bytes: int | None = None
    index_sanity_check: bool = False
    verify_index_only: bool = False
    is_07: bool = False
