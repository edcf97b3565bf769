"""Partition directories: their deletion, also on a full disk, and the adoption of those that no topics file names.

A deletion renames a topic's directories, then writes the topics file without it, then removes the directories. The
first of them gets a name that holds the topic's id. From then on the deletion counts: the next start takes the topic
out of the file, and removes its other directories. Where the disk has no room for the file, the directories are
removed first. If there is no room even then, the first one stays, empty.

Directories that the topics file does not name, such as those of an Apache Kafka, are adopted. They have a topic's name,
id, partitions and leader epochs, but not its configuration.
"""

import contextlib
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from minibroker_protocol.uuids import new_uuid
from minibroker_storage.checkpoints import LeaderEpochCheckpoint, read_partition_metadata
from minibroker_storage.data_directory.names import PARTITION_DIRECTORY, PASSING_DIRECTORY, parse_partition_directory
from minibroker_storage.errors import CorruptCheckpointError
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, LOG_SUFFIX, PARTITION_METADATA, offset_of, purge

_MARKER: Final = re.compile(r"deleted-0\.(?P<id>[0-9a-f]{32})-unnoted-delete\Z")
"""Of the form that Kafka removes at its start."""
_logger = logging.getLogger(__name__)


def purge_logged(directories: Iterable[str]) -> None:
    """Remove directories, in any thread; an error is logged, and the next start tries again.

    Of one that is a symbolic link only the link goes, with a warning.
    """
    for directory in directories:
        try:
            if os.path.islink(directory):
                _logger.warning("%s: its files stay where the link leads: %s", directory, os.readlink(directory))
            purge(directory)
        except OSError as error:
            _logger.warning("%s cannot be removed: %s", directory, error)


def is_leftover(name: str) -> bool:
    """Whether a directory of this name is what a deletion has left behind."""
    match = PASSING_DIRECTORY.fullmatch(name)
    return match is not None and match["state"] == "delete"


def marker_of(data_dir: str, topic_id: bytes) -> str:
    """Return the path of a directory that says that a topic was deleted."""
    return f"{data_dir}/deleted-0.{topic_id.hex()}-unnoted-delete"


def mark(data_dir: str, name: str, topic_id: bytes, directories: Sequence[str]) -> str:
    """Give one of a deleted topic's directories the name that says so; returns its path. An error is logged."""
    marker = marker_of(data_dir, topic_id)
    for directory in directories:
        with contextlib.suppress(OSError):
            os.rename(directory, marker)
            return marker
    try:
        os.mkdir(marker)
    except OSError as error:
        _logger.error("The deletion of %s may not outlast this run: %s", name, error)  # noqa: TRY400 - not ours
    return marker


def marked(data_dir: str) -> dict[bytes, str]:
    """The markers of a data directory: topic id -> path. OSError."""
    with os.scandir(data_dir) as entries:
        return {bytes.fromhex(match["id"]): entry.path for entry in entries if (match := _MARKER.match(entry.name))}


_SMALL_FILES: Final = frozenset({PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT})
MOST_PARTITIONS: Final = 100_000
"""A directory with a larger number is not taken for a partition, but for a name with a date."""
_MOST_NAMED: Final = 5


class Adopted(NamedTuple):
    """A topic that is known by its directories only; `leader_epochs` has one for each partition."""

    name: str
    topic_id: bytes
    leader_epochs: list[int]


def clear_away(data_dir: str) -> None:
    """Remove the leftovers of deletions; one that cannot be removed stays, with a warning. OSError."""
    with os.scandir(data_dir) as entries:
        purge_logged([entry.path for entry in entries if is_leftover(entry.name)])


def find_topics(data_dir: str, known: Mapping[str, int]) -> Iterator[Adopted]:
    """The topics of all partition directories but those of `known` names, which have so many partitions. OSError.

    Directories that only look like partitions are left alone, with a warning. (Kafka 3.9 renames those of topics that
    it does not know to `-stray`.) Empty partitions that a known topic was to get when the machine crashed are removed.
    """
    found: dict[str, int] = {}
    unfinished: list[str] = []
    foreign: dict[str, list[str]] = {}
    with os.scandir(data_dir) as entries:
        for entry in entries:
            match = PARTITION_DIRECTORY.fullmatch(entry.name)
            if match is None or not entry.is_dir():
                continue
            partitions = known.get(match["topic"])
            if partitions is not None:
                beyond = int(match["partition"]) >= partitions and _why_foreign(entry, match["partition"]) is None
                if beyond and is_unfinished(entry.path):
                    unfinished.append(entry.path)
                continue
            reason = _why_foreign(entry, match["partition"])
            if reason is None:
                found[match["topic"]] = max(found.get(match["topic"], 0), int(match["partition"]) + 1)
            else:
                foreign.setdefault(reason, []).append(entry.name)
    for reason, names in foreign.items():
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        _logger.warning("%s: left alone (%s): %s%s", data_dir, reason, ", ".join(sorted(names)[:_MOST_NAMED]), more)
    purge_logged(unfinished)
    for name, partitions in found.items():
        epochs = [_epoch_in(f"{data_dir}/{name}-{index}") for index in range(partitions)]
        yield Adopted(name, _topic_id_in(f"{data_dir}/{name}-{partitions - 1}"), epochs)


def _why_foreign(entry: os.DirEntry[str], number: str) -> str | None:
    """The reason why a directory is not taken for a partition; None if it is one."""
    if entry.is_symlink():
        return "symbolic links are not taken for partitions"
    if len(number) > len(str(MOST_PARTITIONS)) or int(number) >= MOST_PARTITIONS:
        return f"no partition has a number of {MOST_PARTITIONS} or more"
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
    """Whether a partition's directory has nothing but files of a partition, and never held a record.

    The topic id in it is no proof: a crash of the machine may have taken it along, or the topic that had it.
    """
    try:
        with os.scandir(directory) as entries:
            return all(_is_empty_part(entry) for entry in entries)
    except OSError:
        return False


def _is_empty_part(entry: os.DirEntry[str]) -> bool:
    if entry.name in _SMALL_FILES:
        return True
    return offset_of(entry.name) == 0 and not (entry.name.endswith(LOG_SUFFIX) and entry.stat().st_size)


def _topic_id_in(directory: str) -> bytes:
    """The topic id that a partition directory names, or a new one: Kafka before 2.8 had none."""
    try:
        return read_partition_metadata(f"{directory}/{PARTITION_METADATA}")
    except (OSError, CorruptCheckpointError):
        return new_uuid()


def _epoch_in(directory: str) -> int:
    """The last leader epoch that a partition directory knows; 0 if it knows none."""
    epochs = LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    with contextlib.suppress(OSError, CorruptCheckpointError):
        epochs.load()
    return max(epochs.latest_epoch, 0)
