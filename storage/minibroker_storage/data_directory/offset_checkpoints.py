"""Kafka's checkpoint files in a data directory, with one offset per partition (`OffsetCheckpointFile`)."""

import logging
import os
import threading
from collections.abc import Mapping

from minibroker_storage.checkpoints import CHECKPOINT_VERSION, parse_checkpoint
from minibroker_storage.data_directory.names import TopicPartition
from minibroker_storage.errors import CorruptCheckpointError
from minibroker_storage.files import read_file, write_atomically

Offsets = Mapping[TopicPartition, int]
_logger = logging.getLogger(__name__)


def read_offset_checkpoint(path: str) -> dict[TopicPartition, int]:
    """Read the offsets from a checkpoint file. A missing file has no entries.

    Raises:
        CorruptCheckpointError: the file is not a checkpoint.
        OSError: the file cannot be read.
    """
    try:
        return parse_offset_checkpoint(read_file(path), path)
    except FileNotFoundError:
        return {}


def parse_offset_checkpoint(data: bytes, path: str) -> dict[TopicPartition, int]:
    """Parse a checkpoint file with one offset per partition (Kafka's `OffsetCheckpointFile`).

    The file is text: a line with version 0, a line with the number of entries, then one line "topic partition
    offset" per entry. An empty file has no entries.

    Raises:
        CorruptCheckpointError: the content is not a checkpoint; the message names `path`.
    """
    entries = parse_checkpoint(data, path, "an offset checkpoint", (str, int, int))
    return {(topic, partition): offset for topic, partition, offset in entries}


def write_offset_checkpoint(path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = False) -> None:
    """Replace a checkpoint file. See `write_atomically` for `sync`.

    Raises:
        OSError: the file cannot be written; the old file is unchanged.
    """
    lines = [f"{CHECKPOINT_VERSION}\n{len(offsets)}\n"]
    lines += [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    write_atomically(path, "".join(lines).encode(), sync=sync)


class OffsetCheckpoint:
    """The offsets of one checkpoint file. Any thread can write the file.

    As in Kafka, a corrupt file is treated as empty, with a warning.
    """

    __slots__ = ("_path", "_synced", "_written", "lock", "offsets")

    def __init__(self, directory: str, name: str) -> None:
        self._path = os.path.join(directory, name)
        #: Held while a thread writes the file.
        self.lock = threading.Lock()
        #: The current offsets, which may not be written yet. The dict is replaced as a whole, and never changed in
        #: place.
        self.offsets: Offsets = {}
        self.load()

    def load(self) -> None:
        """Read the offsets from the file."""
        self.offsets = {}
        try:
            self.offsets = read_offset_checkpoint(self._path)
        except (CorruptCheckpointError, OSError) as error:
            _logger.warning("%s; going on without it", error)
        self._written: Offsets = self.offsets
        self._synced = True

    @property
    def is_behind(self) -> bool:
        """Whether the file must still be written or synced."""
        return not self._synced or self.offsets != self._written

    def save(self, *, sync: bool) -> None:
        """Write the file if the offsets have changed or a sync is still due. See `write_atomically` for `sync`.

        Any thread can call this method.

        Raises:
            OSError: the file cannot be written.
        """
        with self.lock:
            offsets = self.offsets
            if offsets == self._written and (self._synced or not sync):
                return
            write_offset_checkpoint(self._path, offsets, sync=sync)
            self._written = offsets
            self._synced = sync

    def save_logged(self) -> None:
        """Write and sync the file. Log any error, because no caller waits for the thread that runs this method."""
        try:
            self.save(sync=True)
        except OSError as error:
            _logger.error("%s cannot be written: %s", self._path, error)  # noqa: TRY400 - the disk's fault, not ours

    def forget(self, topics: frozenset[str]) -> None:
        """Remove the offsets of deleted topics and sync the file, before new topics can reuse their names.

        Raises:
            OSError: the file cannot be written.
        """
        remaining = {key: offset for key, offset in self.offsets.items() if key[0] not in topics}
        if len(remaining) < len(self.offsets) or any(topic in topics for topic, _ in self._written):
            self.offsets = remaining
            self.save(sync=True)
