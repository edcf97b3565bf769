"""Leader epochs and metadata of a partition, as text files (`LeaderEpochFileCache`, `PartitionMetadataFile`)."""

from bisect import bisect_right
from typing import Any, Final, NamedTuple

from minibroker_protocol.primitives import parse_uuid, uuid_text
from minibroker_storage.errors import CorruptCheckpointError
from minibroker_storage.files import read_file, write_atomically

CHECKPOINT_VERSION: Final = 0
UNDEFINED_EPOCH: Final = -1


def partition_metadata(topic_id: bytes) -> bytes:
    """Return the content of `partition.metadata` for a 16-byte topic id (Kafka's `PartitionMetadataFile`)."""
    return b"version: %d\ntopic_id: %b" % (CHECKPOINT_VERSION, uuid_text(topic_id).encode())


def read_partition_metadata(path: str) -> bytes:
    """Read the topic id from a `partition.metadata` file and return its 16 bytes.

    Raises:
        CorruptCheckpointError: the file has no valid topic id.
        OSError: the file cannot be read.
    """
    fields = dict(line.split(b": ", 1) for line in read_file(path).splitlines() if b": " in line)
    try:
        if int(fields[b"version"]) != CHECKPOINT_VERSION:
            raise CorruptCheckpointError(f"{path}: unknown version {fields[b'version']!r}")
        return parse_uuid(fields[b"topic_id"].strip().decode())
    except (KeyError, ValueError) as error:
        raise CorruptCheckpointError(f"{path}: no partition metadata") from error


def parse_checkpoint(data: bytes, path: str, kind: str, types: tuple[type[int | str], ...]) -> list[tuple[Any, ...]]:
    """Parse a checkpoint file: a line with version 0, a line with the number of entries, then one line per entry.

    Args:
        data: the content of the file. An empty file has no entries.
        path: the file's path, for error messages.
        kind: the expected kind of file, for error messages.
        types: the type of each word in an entry.

    Raises:
        CorruptCheckpointError: the content is invalid.
    """
    if not data:
        return []
    try:
        version, count, *lines = data.decode().splitlines()
        entries = [tuple(as_type(word) for as_type, word in zip(types, line.split(), strict=True)) for line in lines]
        is_complete = int(version) == CHECKPOINT_VERSION and int(count) == len(entries)
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: not {kind}") from error
    if not is_complete:
        raise CorruptCheckpointError(f"{path}: version {version}, {count} of {len(entries)} entries")
    return entries


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first batch."""

    epoch: int
    start_offset: int


class LeaderEpochCheckpoint:
    """The start offset of each leader epoch (KIP-101; Kafka's `LeaderEpochFileCache` and its checkpoint file).

    The file is text: a line with version 0, a line with the number of entries, then one line "epoch startoffset"
    per entry. Epochs and start offsets both ascend. An empty or missing file has no entries. The file is always
    replaced as a whole. After a crash it can contain an entry whose first batch was never written, so loading a log
    drops entries at or above the log end offset.
    """

    __slots__ = ("entries", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.entries: tuple[EpochEntry, ...] = ()

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, or -1 if there are no entries."""
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def load(self) -> None:
        """Read the file. A missing file has no entries.

        Raises:
            CorruptCheckpointError: the file is invalid. No entries remain in memory.
        """
        self.entries = ()
        try:
            data = read_file(self.path)
        except FileNotFoundError:
            return
        rows = parse_checkpoint(data, self.path, "a leader epoch checkpoint", (int, int))
        entries = [EpochEntry(*row) for row in rows]
        if entries != sorted(set(entries)):
            raise CorruptCheckpointError(f"{self.path}: the entries do not ascend")
        self.entries = tuple(entries)

    def write(self) -> None:
        """Replace the file.

        Raises:
            OSError: the file cannot be written; the old file is unchanged.
        """
        lines = [b"%d\n%d\n" % (CHECKPOINT_VERSION, len(self.entries))]
        lines += [b"%d %d\n" % entry for entry in self.entries]
        write_atomically(self.path, b"".join(lines))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record in memory that `epoch` begins at `start_offset`, and return whether the entries changed.

        As in Kafka, an older entry is kept only if its epoch and its start offset are both lower than the new ones.
        """
        if epoch < 0 or (self.entries and self.latest_epoch == epoch and self.entries[-1].start_offset <= start_offset):
            return False
        older = tuple(entry for entry in self.entries if entry.epoch < epoch and entry.start_offset < start_offset)
        self.entries = (*older, EpochEntry(epoch, start_offset))
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the entries in memory that begin at or above `end_offset`, and return whether any were dropped."""
        before = self.entries
        self.entries = tuple(entry for entry in before if entry.start_offset < end_offset)
        return self.entries != before

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop the epochs that end at or below `start_offset`, and let the first remaining epoch begin there.

        Returns:
            Whether the entries changed.
        """
        below = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset)
        if not below or self.entries[below - 1].start_offset == start_offset == self.entries[0].start_offset:
            return False
        self.entries = (EpochEntry(self.entries[below - 1].epoch, start_offset), *self.entries[below:])
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """Return the largest known epoch up to `epoch` and its end offset (OffsetForLeaderEpoch, KIP-320).

        The result is (-1, -1) if `epoch` is undefined or newer than every known epoch.
        """
        if epoch == UNDEFINED_EPOCH or not self.entries or epoch > self.latest_epoch:
            return EpochEntry(UNDEFINED_EPOCH, -1)
        if epoch == self.latest_epoch:
            return EpochEntry(epoch, log_end_offset)
        higher = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        floor = self.entries[higher - 1].epoch if higher else epoch
        return EpochEntry(floor, self.entries[higher].start_offset)

    def epoch_for(self, offset: int) -> int:
        """Return the leader epoch of the batch at `offset`, or -1 if unknown."""
        below = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[below - 1].epoch if below else UNDEFINED_EPOCH
