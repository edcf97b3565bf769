"""Leader epochs and metadata of a partition, as text files (`LeaderEpochFileCache`, `PartitionMetadataFile`)."""

from bisect import bisect_right
from typing import Final, NamedTuple, Self

from minibroker_protocol.uuids import parse_uuid, uuid_text
from minibroker_storage.errors import CorruptCheckpointError
from minibroker_storage.files import read_file, write_atomically

CHECKPOINT_VERSION: Final = 0
UNDEFINED_EPOCH: Final = -1
UNDEFINED_EPOCH_OFFSET: Final = -1


def partition_metadata(topic_id: bytes) -> bytes:
    """The content of `partition.metadata` for a topic id of 16 bytes (Kafka's `PartitionMetadataFile`)."""
    return b"version: %d\ntopic_id: %b" % (CHECKPOINT_VERSION, uuid_text(topic_id).encode())


def read_partition_metadata(path: str) -> bytes:
    """The topic id, 16 bytes. `CorruptCheckpointError`, or `OSError` when it cannot be read."""
    fields = dict(line.split(b": ", 1) for line in read_file(path).splitlines() if b": " in line)
    try:
        if int(fields[b"version"]) != CHECKPOINT_VERSION:
            raise CorruptCheckpointError(f"{path}: unknown version {fields[b'version']!r}")
        return parse_uuid(fields[b"topic_id"].strip().decode())
    except (KeyError, ValueError) as error:
        raise CorruptCheckpointError(f"{path}: no partition metadata") from error


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first batch."""

    epoch: int
    start_offset: int


class LeaderEpochCheckpoint:
    """Which leader epoch began at which offset (KIP-101; Kafka's `LeaderEpochFileCache` and its checkpoint file).

    Bytes: text lines: version 0, the number of entries, then "epoch startoffset" per entry, both ascending. An empty
    file, or none, holds no entries. Crash rule: replaced as a whole; an entry may be on disk before its first batch
    is, so that loading a log drops entries at or behind its end.
    """

    __slots__ = ("_path", "entries")

    def __init__(self, path: str) -> None:
        self._path = path
        self.entries: tuple[EpochEntry, ...] = ()

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, -1 when there is none."""
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def copy(self) -> Self:
        """The same entries for the same file, to be changed on trial."""
        twin = type(self)(self._path)
        twin.entries = self.entries
        return twin

    def move(self, path: str) -> None:
        """The file was renamed with its directory."""
        self._path = path

    def load(self) -> None:
        """Read the file; a missing one is empty. `CorruptCheckpointError` leaves no entries."""
        self.entries = ()
        try:
            lines = read_file(self._path).splitlines()
        except FileNotFoundError:
            return
        if not lines:
            return
        try:
            version, count = int(lines[0]), int(lines[1])
            entries = tuple(EpochEntry(int(epoch), int(start)) for epoch, start in map(bytes.split, lines[2:]))
        except (ValueError, IndexError) as error:
            raise CorruptCheckpointError(f"{self._path}: not a leader epoch checkpoint") from error
        if version != CHECKPOINT_VERSION or count != len(entries) or list(entries) != sorted(set(entries)):
            raise CorruptCheckpointError(f"{self._path}: version {version}, {count} of {len(entries)} entries")
        self.entries = entries

    def write(self) -> None:
        """Replace the file. `OSError` leaves the old one."""
        lines = [b"%d\n%d\n" % (CHECKPOINT_VERSION, len(self.entries))]
        lines += [b"%d %d\n" % entry for entry in self.entries]
        write_atomically(self._path, b"".join(lines))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`, in memory; says whether anything changed.

        Entries that do not lie below the new one in both epoch and offset go, as in Kafka.
        """
        if epoch < 0 or (self.entries and self.latest_epoch == epoch and self.entries[-1].start_offset <= start_offset):
            return False
        kept = tuple(entry for entry in self.entries if entry.epoch < epoch and entry.start_offset < start_offset)
        self.entries = (*kept, EpochEntry(epoch, start_offset))
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop entries that begin at or behind `end_offset`, in memory; says whether anything changed."""
        kept = tuple(entry for entry in self.entries if entry.start_offset < end_offset)
        changed = len(kept) != len(self.entries)
        self.entries = kept
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Let the epoch that holds `start_offset` begin there and drop older ones; says whether anything changed."""
        below = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset)
        if not below or self.entries[below - 1].start_offset == start_offset == self.entries[0].start_offset:
            return False
        self.entries = (EpochEntry(self.entries[below - 1].epoch, start_offset), *self.entries[below:])
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """The largest known epoch <= `epoch` and the offset at which it ends (OffsetForLeaderEpoch, KIP-320).

        (-1, -1) for an undefined epoch and for one newer than every known one.
        """
        if epoch == UNDEFINED_EPOCH or not self.entries or epoch > self.latest_epoch:
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if epoch == self.latest_epoch:
            return EpochEntry(epoch, log_end_offset)
        higher = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        floor = self.entries[higher - 1].epoch if higher else epoch
        return EpochEntry(floor, self.entries[higher].start_offset)

    def epoch_for(self, offset: int) -> int:
        """The leader epoch of the batch at `offset`, -1 when unknown."""
        below = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[below - 1].epoch if below else UNDEFINED_EPOCH
