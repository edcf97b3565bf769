"""The filter of a cleaning for one log entry, of any format."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.conversion import pack_batch
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    MAGIC_V2,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    CompressionCodec,
    TimestampType,
)
from minibroker_protocol.records.legacy import LegacyRecordBatch, build_message_set
from minibroker_protocol.records.record import NewRecord, Record
from minibroker_protocol.records.varint import (
    CONTINUES,
    encode_varint,
    encode_varlong,
    finish_varlong,
    wrap_int64,
)
from minibroker_storage.cleaner.entry_keys import Keys, legacy_keys, v2_data, v2_keys
from minibroker_storage.cleaner.offset_map import OffsetMap
from minibroker_storage.cleaner.plan import ActiveProducer
from minibroker_storage.cleaner.transactions import CleanedTransactions

KEPT_ATTRIBUTES: Final = CODEC_MASK | TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
"""The attributes that a batch keeps, even if records go. The delete horizon is decided again."""


class KeptEntry(NamedTuple):
    """The rest of an entry after cleaning: its bytes, and the facts that the indexes need."""

    data: bytes | bytearray
    last_offset: int
    max_timestamp: int


class BatchFilter:
    """Says what stays of each entry (Kafka's `Cleaner.cleanInto` and `MemoryRecords.filterTo`).

    Wants every entry of the segments that are cleaned, in order.

    - A record stays when it is the newest of its key, a tombstone among them only until its delete horizon; records
      without a key go. Records behind the offset map's latest offset stay as they are.
    - A v2 batch keeps base offset, last offset, producer and leader epoch, whatever goes. When it gets its first
      tombstone, or its marker is not needed any more, it gets a delete horizon: `delete.retention.ms` from now.
    - An active producer's last batch stays, if only its header, which has the producer's last sequence number.
    - An entry that loses nothing stays to the byte.
    """

    __slots__ = (
        "_delete_horizon_ms",
        "_map",
        "_now_ms",
        "_producers",
        "_transactions",
        "invalid_messages_read",
        "messages_read",
        "messages_written",
        "retain_legacy_deletes",
    )

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        producers: Iterable[ActiveProducer],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._map = offset_map
        self._transactions = transactions
        self._producers = {producer.producer_id: producer for producer in producers}
        self._now_ms = now_ms
        self._delete_horizon_ms = now_ms + delete_retention_ms
        #: Whether tombstones of v0 and v1 stay; the owner decides it for each segment.
        self.retain_legacy_deletes = True
        self.messages_read = 0
        self.messages_written = 0
        self.invalid_messages_read = 0

    def filter(self, entry: bytes, header: BatchHeader) -> KeptEntry | None:
        """The rest of a whole entry whose checksum is right, None for nothing. `DecodeError`.

        An entry of which all stays comes back as the same object.
        """
        if header.magic == MAGIC_V2:
            if header.attributes & CONTROL_FLAG:
                kept = self._filter_control_batch(entry, header)
            else:
                kept = self._filter_batch(entry, header)
            # A state that is rebuilt from the log would not know the producer, and take its repeated batch for a new
            # one.
            if kept is None and header.producer_id >= 0 and self._is_last_of_producer(header):
                emptied = empty_batch(header) if header.record_count else entry
                return KeptEntry(emptied, header.last_offset, header.max_timestamp)
            return kept
        self._transactions.on_batch(header)
        return self._filter_legacy(entry, header)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return False
        # A producer that has only written markers is known by its marker's epoch (Kafka's
        # `isBatchLastRecordOfProducer`).
        if producer.last_data_offset >= 0:
            return producer.last_data_offset == header.last_offset
        return header.is_control and producer.producer_epoch == header.producer_epoch

    def _filter_control_batch(self, batch: bytes, header: BatchHeader) -> KeptEntry | None:
        needless = self._transactions.on_control_batch(header, batch)
        count = header.record_count
        self.messages_read += count
        horizon = header.delete_horizon_ms
        # Two passes (KIP-534): the first one, when no record of the transaction is left, sets a horizon. A consumer
        # that is still behind has until then to see the marker.
        if not count or (needless and horizon is not None and horizon <= self._now_ms):
            return None
        self.messages_written += count
        if not needless or horizon is not None:
            return KeptEntry(batch, header.last_offset, header.max_timestamp)
        data, position = v2_data(batch, header)
        bounds = v2_keys(data, position, header).bounds
        return rebuild_batch(data, header, bounds, range(count), self._delete_horizon_ms)

    def _filter_batch(self, batch: bytes, header: BatchHeader) -> KeptEntry | None:
        # Records of an aborted transaction: no reader of committed records has ever seen them.
        if self._transactions.on_batch(header):
            return None
        count = header.record_count
        # Emptied by a pass before, for its sequence number. `filter` decides whether it is still needed.
        if not count:
            return None
        self.messages_read += count
        data, position = v2_data(batch, header)
        found = v2_keys(data, position, header)
        horizon = header.delete_horizon_ms
        kept, any_tombstone = self._retained(found, retain_deletes=horizon is None or self._now_ms < horizon)
        if not kept:
            return None
        self.messages_written += len(kept)
        # The horizon counts from the first cleaning that keeps the tombstone (KIP-534), not from the time of its
        # record: a topic that is cleaned rarely would else lose tombstones that no consumer has seen.
        if any_tombstone and horizon is None:
            horizon = self._delete_horizon_ms
        elif len(kept) == count:
            return KeptEntry(batch, header.last_offset, header.max_timestamp)
        return rebuild_batch(data, header, found.bounds, kept, horizon)

    def _retained(self, found: Keys, *, retain_deletes: bool) -> tuple[Sequence[int], bool]:
        """The numbers of the records that stay, and whether a tombstone is among them."""
        offsets, keys, tombstones, _ = found
        newest = self._map.newest_of(keys)
        latest = self._map.latest_offset
        # The plain case of a compacted topic, at the speed of a list comprehension.
        if offsets[-1] <= latest and None not in keys and True not in tombstones:
            return [index for index, offset in enumerate(offsets) if newest[index] <= offset], False
        kept: list[int] = []
        any_tombstone = False
        for index, offset in enumerate(offsets):
            tombstone = tombstones[index]
            if offset <= latest:
                if keys[index] is None:
                    # Records without keys are refused at produce; these came before the topic was compacted.
                    self.invalid_messages_read += 1
                    continue
                if newest[index] > offset or (tombstone and not retain_deletes):
                    continue
            any_tombstone |= tombstone
            kept.append(index)
        return kept, any_tombstone

    def _filter_legacy(self, entry: bytes, header: BatchHeader) -> KeptEntry | None:
        records = list(LegacyRecordBatch(memoryview(entry)))
        found = legacy_keys(records)
        kept, _ = self._retained(found, retain_deletes=self.retain_legacy_deletes)
        self.messages_read += len(records)
        self.messages_written += len(kept)
        if not kept:
            return None
        if len(kept) == len(records):
            return KeptEntry(entry, header.base_offset, header.max_timestamp)
        return rebuild_message_set(header, [records[index] for index in kept])


def rebuild_message_set(header: BatchHeader, retained: Sequence[Record]) -> KeptEntry:
    """A v0 or v1 wrapper with these of its records only, at least one."""
    # Records of a wrapper with the broker's time have no timestamp of their own that counts.
    by_broker = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    timestamp = header.max_timestamp if by_broker else max(record.timestamp for record in retained)
    data = build_message_set(
        [NewRecord(record.key, record.value, max(record.timestamp, NO_TIMESTAMP)) for record in retained],
        magic=header.magic,
        base_offset=retained[0].offset,
        offsets=[record.offset for record in retained],
        codec=header.codec,
        timestamp_type=TimestampType.LOG_APPEND_TIME if by_broker else TimestampType.CREATE_TIME,
        log_append_time=timestamp if by_broker else None,
    )
    return KeptEntry(data, retained[-1].offset, timestamp)


def empty_batch(header: BatchHeader) -> bytearray:
    """A batch without records that has the producer's sequence numbers (Kafka's `writeEmptyHeader`)."""
    attributes = header.attributes & KEPT_ATTRIBUTES & ~CODEC_MASK
    return _batch(header, b"", attributes, NO_TIMESTAMP, header.max_timestamp, 0)


def rebuild_batch(
    data: bytes, header: BatchHeader, bounds: Sequence[int], kept: Sequence[int], delete_horizon_ms: int | None
) -> KeptEntry:
    """The batch with the records number `kept` only, at least one (Kafka's `buildRetainedRecordsInto`).

    Timestamps are counted from the delete horizon, without one from the first record. Records are copied as they stand
    unless that changes their timestamp delta.
    """
    log_append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_FLAG else None
    # A v2 batch keeps its delete horizon in the field of the base timestamp; the flag says which of the two it is.
    base_timestamp = delete_horizon_ms
    max_timestamp = NO_TIMESTAMP
    parts: list[bytes] = []
    for index in kept:
        start, end = bounds[index], bounds[index + 1]
        body = start
        while data[body] >= CONTINUES:
            body += 1
        body += 1  # behind the length
        delta_at = body + 1  # behind the attributes
        raw = data[delta_at]
        rest = delta_at + 1
        if raw >= CONTINUES:
            raw, rest = finish_varlong(data, rest, raw)
        delta = (raw >> 1) ^ -(raw & 1)
        timestamp = wrap_int64(header.base_timestamp + delta) if log_append_time is None else log_append_time
        if base_timestamp is None:
            base_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        new_delta = wrap_int64(timestamp - base_timestamp)
        if new_delta == delta:
            parts.append(data[start:end])
        else:
            encoded = encode_varlong(new_delta)
            parts += (encode_varint(end - rest + len(encoded) + 1), data[body:delta_at], encoded, data[rest:end])
    records = b"".join(parts)
    attributes = header.attributes & KEPT_ATTRIBUTES
    if attributes & CODEC_MASK:
        # The level of the topic is not known to the cleaner, as it is not to Kafka's: the codec's default.
        records = compress(CompressionCodec(attributes & CODEC_MASK), records)
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
    batch = _batch(header, records, attributes, base_timestamp or 0, max_timestamp, len(kept))
    return KeptEntry(batch, header.last_offset, max_timestamp)


def _batch(
    header: BatchHeader, records: bytes, attributes: int, base_timestamp: int, max_timestamp: int, count: int
) -> bytearray:
    """Make a batch with the place, the producer and the leader epoch of another one."""
    header = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=count
    )
    return pack_batch(header, records, CompressionCodec(attributes & CODEC_MASK))[0]
