"""The aborted transactions of a segment, needed by read_committed consumers (Kafka's `TransactionIndex`)."""

import contextlib
from bisect import bisect_left
from struct import Struct
from typing import Final, NamedTuple

from minibroker_storage.errors import CorruptIndexError, LogClosedError
from minibroker_storage.files import FileHandle, pwrite_all
from minibroker_storage.portability import os

_VERSION: Final = 0
ENTRY: Final = Struct(">hqqqq")
_WINDOW_ENTRIES: Final = 240
"""Number of entries read at a time, about 8 KB. Most indexes fit into one read."""


class AbortedTxn(NamedTuple):
    """A transaction that ended with an abort marker (Kafka's `AbortedTxn`).

    `first_offset` is the offset of the transaction's first record, and `last_offset` that of its marker.
    `last_stable_offset` is the log's last stable offset after the marker. An aborted transaction that begins below
    that offset is in this entry or an earlier one.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted_txn(transaction: AbortedTxn) -> bytes:
    """Encode an index entry of 34 bytes."""
    return ENTRY.pack(_VERSION, *transaction)


def decode_all(data: bytes) -> list[AbortedTxn]:
    """Decode all entries of an index file.

    Raises:
        CorruptIndexError: an entry has an unsupported version, or the file's length is wrong.
    """
    if len(data) % ENTRY.size:
        raise CorruptIndexError(f"transaction index: {len(data)} bytes are not a multiple of {ENTRY.size}")
    entries: list[AbortedTxn] = []
    for version, *fields in ENTRY.iter_unpack(data):
        if version != _VERSION:
            raise CorruptIndexError(f"transaction index: an entry of version {version}")
        entries.append(AbortedTxn(*fields))
    return entries


class TransactionIndex:
    """The aborted transactions whose markers are in one segment (Kafka's `TransactionIndex`).

    Each entry has 34 bytes, big-endian: version int16 (0), then producer id, first offset, last offset and last
    stable offset as int64. Last offsets ascend. The file is created with its first entry, so most segments have no
    such file.

    An entry is written after its marker's batch and before the segment's index entries. After a process crash, only
    the last entry can be torn or missing. After a machine crash, any entry that was not flushed can be torn or
    missing. Missing entries above the trusted part of an index are restored by replaying the log's markers.
    """

    __slots__ = ("_staged", "base_offset", "entries", "file", "last_offset")

    def __init__(self, file: FileHandle, base_offset: int) -> None:
        self.file = file
        self.base_offset = base_offset
        #: The number of written entries.
        self.entries = 0
        #: Last offset of the newest entry, including staged ones, or -1 without entries.
        self.last_offset = -1
        self._staged = bytearray()

    def load(self, next_base_offset: int | None) -> None:
        """Load an existing file completely, as Kafka does.

        A torn last entry is ignored, and the next entry overwrites it.

        Args:
            next_base_offset: base offset of the following segment, or None.

        Raises:
            CorruptIndexError: entries cannot belong to this segment.
        """
        size = os.fstat(self.file.fd()).st_size
        self.entries, self.last_offset = 0, -1
        last = self.base_offset - 1
        data = os.pread(self.file.fd(), size - size % ENTRY.size, 0)
        for transaction in decode_all(data):
            _, first_offset, last_offset, _ = transaction
            if last_offset <= last or first_offset > last_offset:
                raise CorruptIndexError(f"{self.file.path}: {transaction} behind offset {last}")
            last = last_offset
        if next_base_offset is not None and last >= next_base_offset:
            raise CorruptIndexError(f"{self.file.path}: last offset {last} is outside the segment")
        self.entries = len(data) // ENTRY.size
        self.last_offset = last if self.entries else -1

    def stage(self, transaction: AbortedTxn) -> None:
        """Stage an entry for `commit()`."""
        self._staged += encode_aborted_txn(transaction)
        self.last_offset = transaction.last_offset

    def commit(self) -> None:
        """Write the staged entries.

        Raises:
            OSError: the write failed. The entries stay staged until `rollback()`.
        """
        staged = self._staged
        if staged:
            pwrite_all(self.file.fd(), staged, self.entries * ENTRY.size)
            self.entries += len(staged) // ENTRY.size
            self._staged = bytearray()

    @property
    def state(self) -> tuple[int, int]:
        """The number of written entries and the last offset, for `rollback`. Valid only while no entries are staged."""
        return self.entries, self.last_offset

    def rollback(self, state: tuple[int, int]) -> None:
        """Restore an earlier `state`, and truncate the file if possible. Never raises."""
        if not self._staged and state == self.state:
            return
        self._staged = bytearray()
        self.entries, self.last_offset = state
        with contextlib.suppress(OSError, LogClosedError):
            os.ftruncate(self.file.fd(), self.entries * ENTRY.size)

    def truncate_to(self, offset: int) -> None:
        """Remove all entries whose markers are at or above `offset`.

        Raises:
            OSError: the file cannot be truncated.
        """
        if not self.entries:
            return
        self.entries = self._find_first_reaching(offset)
        os.ftruncate(self.file.fd(), self.entries * ENTRY.size)
        self.last_offset = self._read_entries(self.entries - 1, 1)[0].last_offset if self.entries else -1

    def clear(self) -> None:
        """Remove all entries. A missing file is not created.

        Raises:
            OSError: the file cannot be truncated.
        """
        self._staged = bytearray()
        self.entries, self.last_offset = 0, -1
        with contextlib.suppress(FileNotFoundError):
            os.truncate(self.file.path, 0)

    def since(self, offset: int) -> list[AbortedTxn]:
        """Return the written entries whose markers are at or above `offset`.

        Raises:
            OSError: the file cannot be read.
            CorruptIndexError: an entry is invalid.
        """
        slot = self._find_first_reaching(offset) if self.entries else 0
        transactions: list[AbortedTxn] = []
        while slot + len(transactions) < self.entries:
            next_slot = slot + len(transactions)
            transactions += self._read_entries(next_slot, min(_WINDOW_ENTRIES, self.entries - next_slot))
        return transactions

    def _find_first_reaching(self, offset: int) -> int:
        """Return the first slot whose entry has a last offset at or above `offset`."""
        if offset <= self.base_offset:
            return 0
        return bisect_left(range(self.entries), offset, key=lambda slot: self._read_entries(slot, 1)[0].last_offset)

    def _read_entries(self, slot: int, count: int) -> list[AbortedTxn]:
        transactions = decode_all(os.pread(self.file.fd(), count * ENTRY.size, slot * ENTRY.size))
        if not transactions:
            raise CorruptIndexError(f"{self.file.path}: no entry {slot}")
        return transactions
