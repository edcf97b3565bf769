"""Partition directories: deletion, even on a full disk, and adoption of directories missing from the topics file.

A deletion renames the topic's directories, writes the topics file without the topic, then removes the directories. The
first directory gets a name with the topic's id. Once it has that name, the deletion is final: the next start removes
the topic from the file and deletes the topic's other directories. If the disk has no room for the file, the directories
are removed first. If there is still no room, the empty first directory stays.

Directories missing from the topics file, such as those of an Apache Kafka broker, are adopted. They provide a topic's
name, id, partitions and leader epochs, but not its configuration.
"""

import contextlib
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from minibroker_protocol.primitives import new_uuid
from minibroker_storage.checkpoints import LeaderEpochCheckpoint, read_partition_metadata
from minibroker_storage.data_directory.names import PARTITION_DIRECTORY, TEMPORARY_DIRECTORY, parse_partition_directory
from minibroker_storage.errors import CorruptCheckpointError
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, LOG_SUFFIX, PARTITION_METADATA, offset_of, purge

_MARKER: Final = re.compile(r"deleted-0\.(?P<id>[0-9a-f]{32})-unnoted-delete\Z")
"""The name of a deletion marker. Kafka also removes such directories when it starts."""
_logger = logging.getLogger(__name__)


def purge_and_log_errors(directories: Iterable[str]) -> None:
    """Remove directories. May be called on any thread. Errors are logged, and the removal is retried at the next start.

    If a directory is a symbolic link, only the link is removed, with a warning.
    """
    for directory in directories:
        try:
            if os.path.islink(directory):
                _logger.warning("%s: its files stay where the link leads: %s", directory, os.readlink(directory))
            purge(directory)
        except OSError as error:
            _logger.warning("%s cannot be removed: %s", directory, error)


def marker_path(data_dir: str, topic_id: bytes) -> str:
    """Return the path of the directory that marks a topic as deleted."""
    return f"{data_dir}/deleted-0.{topic_id.hex()}-unnoted-delete"


def mark(data_dir: str, name: str, topic_id: bytes, directories: Sequence[str]) -> str:
    """Rename one of a deleted topic's directories to the deletion marker, and return its path. Errors are logged."""
    marker = marker_path(data_dir, topic_id)
    for directory in directories:
        with contextlib.suppress(OSError):
            os.rename(directory, marker)
            return marker
    try:
        os.mkdir(marker)
    except OSError as error:
        _logger.error("The deletion of %s may not outlast this run: %s", name, error)  # noqa: TRY400 - no traceback
    return marker


def find_markers(data_dir: str) -> dict[bytes, str]:
    """Return the deletion markers in a data directory as topic id -> path.

    Raises:
        OSError: The directory cannot be read.
    """
    with os.scandir(data_dir) as entries:
        return {bytes.fromhex(match["id"]): entry.path for entry in entries if (match := _MARKER.match(entry.name))}


_SMALL_FILES: Final = frozenset({PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT})
PARTITION_NUMBER_LIMIT: Final = 100_000
"""A larger number in a directory name is not a partition number, but probably a date."""
_MAX_NAMED: Final = 5


class AdoptedTopic(NamedTuple):
    """A topic that is known only from its directories. `leader_epochs` has one entry per partition."""

    name: str
    topic_id: bytes
    leader_epochs: list[int]


def remove_leftovers(data_dir: str) -> None:
    """Remove the leftovers of deletions. A leftover that cannot be removed stays, with a warning.

    Raises:
        OSError: The data directory cannot be read.
    """
    with os.scandir(data_dir) as entries:
        matches = [(TEMPORARY_DIRECTORY.fullmatch(entry.name), entry.path) for entry in entries]
    purge_and_log_errors([path for match, path in matches if match is not None and match["state"] == "delete"])


def find_orphans(data_dir: str, known_topics: Mapping[str, int]) -> Iterator[AdoptedTopic]:
    """Yield the topics of partition directories that do not belong to a known topic.

    Directories that only look like partitions are left alone, with a warning. (Kafka 3.9 renames directories of
    unknown topics to `-stray`.) Empty partitions that were being added to a known topic when the machine crashed
    are removed.

    Args:
        data_dir: The data directory.
        known_topics: The number of partitions of each known topic.

    Raises:
        OSError: The data directory cannot be read.
    """
    counts: dict[str, int] = {}
    unfinished: list[str] = []
    foreign: dict[str, list[str]] = {}
    with os.scandir(data_dir) as entries:
        for entry in entries:
            match = PARTITION_DIRECTORY.fullmatch(entry.name)
            if match is None or not entry.is_dir():
                continue
            topic, number = match["topic"], match["partition"]
            if topic in known_topics:
                is_surplus = int(number) >= known_topics[topic] and _explain_foreign(entry, number) is None
                if is_surplus and is_unfinished(entry.path):
                    unfinished.append(entry.path)
            elif (reason := _explain_foreign(entry, number)) is None:
                counts[topic] = max(counts.get(topic, 0), int(number) + 1)
            else:
                foreign.setdefault(reason, []).append(entry.name)
    for reason, names in foreign.items():
        remainder = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        _logger.warning("%s: left alone (%s): %s%s", data_dir, reason, ", ".join(sorted(names)[:_MAX_NAMED]), remainder)
    purge_and_log_errors(unfinished)
    for name, partitions in counts.items():
        epochs = [_read_last_epoch(f"{data_dir}/{name}-{index}") for index in range(partitions)]
        yield AdoptedTopic(name, _read_topic_id(f"{data_dir}/{name}-{partitions - 1}"), epochs)


def _explain_foreign(entry: os.DirEntry[str], number: str) -> str | None:
    """Return the reason why a directory is not treated as a partition, or None if it is one."""
    if entry.is_symlink():
        return "symbolic links are not taken for partitions"
    if len(number) > len(str(PARTITION_NUMBER_LIMIT)) or int(number) >= PARTITION_NUMBER_LIMIT:
        return f"no partition has a number of {PARTITION_NUMBER_LIMIT} or more"
    if parse_partition_directory(entry.name) is None:
        return "brokers never name a partition so"
    try:
        names = os.listdir(entry.path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if PARTITION_METADATA in names or any(offset_of(name) is not None for name in names):
        return None
    return "no files of a partition are in them"


def is_unfinished(directory: str) -> bool:
    """Return whether a partition directory contains only partition files and has never held a record.

    The topic id in the directory is not considered, because a machine crash may have lost the id or its topic.
    """
    try:
        with os.scandir(directory) as entries:
            return all(_is_empty_file(entry) for entry in entries)
    except OSError:
        return False


def _is_empty_file(entry: os.DirEntry[str]) -> bool:
    if entry.name in _SMALL_FILES:
        return True
    return offset_of(entry.name) == 0 and not (entry.name.endswith(LOG_SUFFIX) and entry.stat().st_size)


def _read_topic_id(directory: str) -> bytes:
    """Return the topic id recorded in a partition directory, or a new one. Kafka before 2.8 had no topic ids."""
    try:
        return read_partition_metadata(f"{directory}/{PARTITION_METADATA}")
    except (OSError, CorruptCheckpointError):
        return new_uuid()


def _read_last_epoch(directory: str) -> int:
    """Return the last leader epoch recorded in a partition directory, or 0 if there is none."""
    epochs = LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    with contextlib.suppress(OSError, CorruptCheckpointError):
        epochs.load()
    return max(epochs.latest_epoch, 0)
