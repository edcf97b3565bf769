"""Producer snapshot files in Kafka's format."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from struct import Struct, error
from typing import Any, Final, NamedTuple, cast

from minibroker_protocol.records.header import NO_OFFSET, crc32c
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.errors import CorruptSnapshotError

NUM_BATCHES_TO_RETAIN: Final = 5
NO_SEQUENCE: Final = -1
NO_COORDINATOR_EPOCH: Final = -1

_VERSION: Final = 1
_HEAD: Final = Struct(">hIi")
_CRC_COVERS_FROM: Final = 6
_ENTRY: Final = Struct(">qhiqiqiq")
_ID: Final = Struct(">q38x")
"""The producer id at the start of an entry."""
_COUNT: Final = Struct(">i")


class BatchMetadata(NamedTuple):
    """One of a producer's last batches, with the data needed to answer a duplicate of it (Kafka's `BatchMetadata`)."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        """The offset of the batch's first record."""
        return self.last_offset - self.offset_delta


class ProducerStateEntry(NamedTuple):
    """The immutable state of one producer in the log (Kafka's `ProducerStateEntry`).

    `batches` holds at most five batches, the newest ones of `producer_epoch`, oldest first. `last_timestamp` is in
    ms. `current_txn_first_offset` is -1 outside a transaction.
    """

    producer_epoch: int
    batches: tuple[BatchMetadata, ...]
    last_timestamp: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_first_offset: int = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        """The last sequence number of the newest batch, or -1 if there is no batch of this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


# Calling `tuple.__new__` takes half the time of calling the classes, and every update creates one object of each class.
new_batch: Final[Callable[[tuple[int, ...]], BatchMetadata]] = partial(cast("Any", tuple).__new__, BatchMetadata)
new_entry: Final[Callable[[tuple[Any, ...]], ProducerStateEntry]] = partial(
    cast("Any", tuple).__new__, ProducerStateEntry
)
_NO_BATCH: Final = BatchMetadata(NO_SEQUENCE, NO_SEQUENCE, NO_OFFSET, 0, -1)


class SnapshotEncoder:
    """Encodes producer snapshots, packing only the producers that changed since the previous snapshot.

    A file contains: version int16 (1), CRC-32C uint32 of all following bytes, count int32; then for each producer
    id int64, epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64, coordinator
    epoch int32, first offset of the open transaction int64 (-1: none). As in Kafka, only the newest batch of each
    producer is stored.

    Args:
        snapshot: the content of the file from which the producers were read, or empty bytes.
    """

    def __init__(self, snapshot: bytes = b"") -> None:
        self._entries = bytearray(snapshot[_HEAD.size :])
        self._slots = {producer_id: slot for slot, (producer_id,) in enumerate(_ID.iter_unpack(self._entries))}

    def encode(self, producers: Mapping[int, ProducerStateEntry], changed: Iterable[int]) -> bytes:
        """Encode a snapshot of these producers by id. Only those in `changed` may differ from the last call."""
        for producer_id in changed:
            entry = producers.get(producer_id)
            slot = self._slots.get(producer_id)
            if entry is None:
                if slot is not None:
                    self._remove_entry(producer_id, slot)
                continue
            if slot is None:
                slot = self._slots[producer_id] = len(self._slots)
                self._entries += bytes(_ENTRY.size)
            last = entry.batches[-1] if entry.batches else _NO_BATCH
            _ENTRY.pack_into(
                self._entries,
                slot * _ENTRY.size,
                producer_id,
                entry.producer_epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
        count = _COUNT.pack(len(self._slots))
        crc = crc32c(self._entries, crc32c(count))
        return b"".join((_HEAD.pack(_VERSION, crc, 0)[:_CRC_COVERS_FROM], count, self._entries))

    def _remove_entry(self, producer_id: int, slot: int) -> None:
        """Remove a producer and move the last entry into its slot."""
        del self._slots[producer_id]
        last = len(self._entries) - _ENTRY.size
        if slot * _ENTRY.size != last:
            self._entries[slot * _ENTRY.size : (slot + 1) * _ENTRY.size] = self._entries[last:]
            self._slots[_ID.unpack_from(self._entries, last)[0]] = slot
        del self._entries[last:]


def encode_snapshot(producers: Mapping[int, ProducerStateEntry]) -> bytes:
    """Encode a snapshot file with these producers by id."""
    return SnapshotEncoder().encode(producers, producers)


def decode_snapshot(data: bytes) -> dict[int, ProducerStateEntry]:
    """Return the producers in a file written by `SnapshotEncoder` or Kafka.

    Raises:
        CorruptSnapshotError: the version, length or checksum is wrong.
    """
    try:
        version, crc, count = _HEAD.unpack_from(data)
    except error as cause:
        raise CorruptSnapshotError(f"producer snapshot: {len(data)} bytes") from cause
    if version != _VERSION:
        raise CorruptSnapshotError(f"producer snapshot: unknown version {version}")
    if crc32c(memoryview(data)[_CRC_COVERS_FROM:]) != crc:
        raise CorruptSnapshotError("producer snapshot: wrong checksum")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"producer snapshot: {len(data)} bytes for {count} producers")
    producers: dict[int, ProducerStateEntry] = {}
    for fields in _ENTRY.iter_unpack(data[_HEAD.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
        batches: tuple[BatchMetadata, ...] = ()
        if offset >= 0:
            first = (sequence - delta) & INT32_MAX  # Sequence numbers wrap from 2**31 - 1 to 0.
            batches = (new_batch((first, sequence, offset, delta, timestamp)),)
        producers[producer_id] = new_entry((epoch, batches, timestamp, coordinator_epoch, txn_first_offset))
    return producers
