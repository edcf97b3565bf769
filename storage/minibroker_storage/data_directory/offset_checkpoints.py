"""The files with an offset for every partition that Kafka keeps in a data directory (`OffsetCheckpointFile`)."""

import logging
import os
import threading
from collections.abc import Mapping

from minibroker_storage.checkpoints import CHECKPOINT_VERSION
from minibroker_storage.data_directory.names import TopicPartition
from minibroker_storage.errors import CorruptCheckpointError
from minibroker_storage.files import read_file, write_atomically

Offsets = Mapping[TopicPartition, int]
_logger = logging.getLogger(__name__)


def read_offset_checkpoint(path: str) -> dict[TopicPartition, int]:
    """The entries of a file (`parse_offset_checkpoint`); none without a file. `OSError` when it cannot be read."""
    try:
        return parse_offset_checkpoint(read_file(path), path)
    except FileNotFoundError:
        return {}


def parse_offset_checkpoint(data: bytes, path: str) -> dict[TopicPartition, int]:
    """An offset for each (topic, partition) in the file's bytes (Kafka's `OffsetCheckpointFile`).

    Bytes: text lines: version 0, the number of entries, then "topic partition offset" per entry. An empty file holds
    no entries. `CorruptCheckpointError`, which names `path`.
    """
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"{path}: not an offset checkpoint") from error
    if not lines:
        return {}
    try:
        version, count = int(lines[0]), int(lines[1])
        entries = [(topic, int(partition), int(offset)) for topic, partition, offset in map(str.split, lines[2:])]
    except (ValueError, IndexError) as error:
        raise CorruptCheckpointError(f"{path}: not an offset checkpoint") from error
    if version != CHECKPOINT_VERSION or count != len(entries):
        raise CorruptCheckpointError(f"{path}: version {version}, {count} of {len(entries)} entries")
    return {(topic, partition): offset for topic, partition, offset in entries}


def write_offset_checkpoint(path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = False) -> None:
    """Replace the file; see `write_atomically` for `sync`. `OSError` leaves the old one."""
    lines = [f"{CHECKPOINT_VERSION}\n{len(offsets)}\n"]
    lines += [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    write_atomically(path, "".join(lines).encode(), sync=sync)


class OffsetCheckpoint:
    """One such file: what it should hold, and the writing of it, which another thread may do.

    A damaged file is taken for an empty one, with a warning, as in Kafka.
    """

    __slots__ = ("_path", "_synced", "_written", "lock", "offsets")

    def __init__(self, directory: str, name: str) -> None:
        self._path = os.path.join(directory, name)
        #: Held while the file is written, which another thread may do.
        self.lock = threading.Lock()
        #: What the file should hold; replaced as a whole, never changed in place.
        self.offsets: Offsets = {}
        self._written: Offsets = {}
        self._synced = True
        self.load()

    def load(self) -> None:
        """Read what the file holds."""
        self.offsets = {}
        try:
            self.offsets = read_offset_checkpoint(self._path)
        except (CorruptCheckpointError, OSError) as error:
            _logger.warning("%s; going on without it", error)
        self._written = self.offsets
        self._synced = True

    @property
    def is_behind(self) -> bool:
        """Is there something to be written down?"""
        return not self._synced or self.offsets != self._written

    def save(self, *, sync: bool) -> None:
        """Write what is not written yet; see `write_atomically` for `sync`. In any thread. OSError."""
        with self.lock:
            offsets = self.offsets
            if offsets == self._written and (self._synced or not sync):
                return
            write_offset_checkpoint(self._path, offsets, sync=sync)
            self._written = offsets
            self._synced = sync

    def save_logged(self) -> None:
        """Write it down to the disk, on a thread without a waiting caller: an error is logged."""
        try:
            self.save(sync=True)
        except OSError as error:
            _logger.error("%s cannot be written: %s", self._path, error)  # noqa: TRY400 - the disk's fault, not ours

    def forget(self, topics: frozenset[str]) -> None:
        """Drop what the file holds of topics that were deleted, before new ones take their names. OSError."""
        kept = {key: offset for key, offset in self.offsets.items() if key[0] not in topics}
        if len(kept) < len(self.offsets) or any(topic in topics for topic, _ in self._written):
            self.offsets = kept
            self.save(sync=True)
