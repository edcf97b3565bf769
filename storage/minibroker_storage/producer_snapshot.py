"""Producer state on disk, in Kafka's own format."""

from struct import Struct, error
from typing import Final, NamedTuple

from minibroker_protocol.records.checksum import crc32c
from minibroker_protocol.records.header import NO_OFFSET
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.errors import CorruptSnapshotError

NUM_BATCHES_TO_RETAIN: Final = 5
NO_SEQUENCE: Final = -1
NO_COORDINATOR_EPOCH: Final = -1

_VERSION: Final = 1
_HEAD: Final = Struct(">hIi")
_CRC_COVERS_FROM: Final = 6
_ENTRY: Final = Struct(">qhiqiqiq")
_COUNT: Final = Struct(">i")


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer, enough to answer a duplicate of it (Kafka's `BatchMetadata`)."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        """Offset of the batch's first record."""
        return self.last_offset - self.offset_delta


class ProducerStateEntry(NamedTuple):
    """The state of one producer in the log; never changed, only replaced (Kafka's `ProducerStateEntry`).

    `batches` holds the newest batches of `producer_epoch`, oldest first, at most five; `last_timestamp` is in ms;
    `current_txn_first_offset` is -1 outside a transaction.
    """

    producer_epoch: int
    batches: tuple[BatchMetadata, ...]
    last_timestamp: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_first_offset: int = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        """The last sequence number of the newest batch, -1 when no batch of this epoch is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


def encode_snapshot(producers: dict[int, ProducerStateEntry]) -> bytes:
    """The file for these producers by id.

    Bytes: version int16 (1), CRC-32C uint32 of all that follows it, count int32; per producer id int64, epoch int16,
    last sequence int32, last offset int64, offset delta int32, timestamp int64, coordinator epoch int32, first offset
    of the open transaction int64 (-1: none). Of the batches only the newest is kept, as in Kafka.
    """
    body = bytearray(_COUNT.pack(len(producers)))
    for producer_id, entry in producers.items():
        last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, NO_SEQUENCE, NO_OFFSET, 0, -1)
        body += _ENTRY.pack(
            producer_id,
            entry.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
    return _HEAD.pack(_VERSION, crc32c(body), 0)[:_CRC_COVERS_FROM] + bytes(body)


def decode_snapshot(data: bytes) -> dict[int, ProducerStateEntry]:
    """The producers of a file that `encode_snapshot` or Kafka wrote. `CorruptSnapshotError`."""
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
    return dict(_entry(fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :]))


def _entry(fields: tuple[int, ...]) -> tuple[int, ProducerStateEntry]:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
    batches: tuple[BatchMetadata, ...] = ()
    if offset >= 0:
        batches = (BatchMetadata(first_sequence(sequence, delta), sequence, offset, delta, timestamp),)
    return producer_id, ProducerStateEntry(epoch, batches, timestamp, coordinator_epoch, txn_first_offset)


def first_sequence(last_sequence: int, offset_delta: int) -> int:
    """The first sequence number of a batch by its last one; below 0 lies 2**31 - 1."""
    return (last_sequence - offset_delta) & INT32_MAX
