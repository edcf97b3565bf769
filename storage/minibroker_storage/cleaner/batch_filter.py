"""The record filter that the cleaner applies to each log entry, in any format; keys, and aborted transactions."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from minibroker_protocol.errors import CorruptRecordError
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.conversion import pack_batch
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CONTROL_FLAG,
    CONTROL_KEY,
    DELETE_HORIZON_FLAG,
    MAGIC_V2,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    CompressionCodec,
    TimestampType,
)
from minibroker_protocol.records.legacy import LegacyRecordBatch, build_message_set
from minibroker_protocol.records.record import NewRecord, Record
from minibroker_protocol.records.record_loop import NUMBER, RecordLoop, replace_body
from minibroker_protocol.records.varint import CONTINUES, encode_varint, encode_varlong, finish_varlong, wrap_int64
from minibroker_storage.cleaner.offset_map import OffsetMap
from minibroker_storage.cleaner.plan import ActiveProducer
from minibroker_storage.transaction_index import AbortedTxn


class Keys(NamedTuple):
    """The parts of an entry's records that the cleaner needs, as parallel lists with one item per record."""

    offsets: list[int]
    keys: list[bytes | None]
    #: Whether each record's value is null.
    tombstones: list[bool]
    #: The positions of v2 records: record `i` occupies the bytes from `bounds[i]` to `bounds[i + 1]`. The list is empty
    #: for other formats.
    bounds: list[int]


def v2_data(batch: bytes, header: BatchHeader) -> tuple[bytes, int]:
    """Return a buffer with a v2 batch's uncompressed records, and the position of the first record in it."""
    if header.attributes & CODEC_MASK:
        return RecordBatch(memoryview(batch)).records_data(), 0
    return batch, RECORD_BATCH_OVERHEAD


def extract_v2_keys(data: bytes, position: int, header: BatchHeader) -> Keys:
    """Extract the offsets, keys and bounds of the records in `data` from `position` on, in one pass.

    The first call compiles the loop (see `record_loop`).

    Raises:
        InvalidRecordError: the data does not consist of exactly `header.record_count` records.
    """
    replace_body(extract_v2_keys, V2_KEYS)
    return extract_v2_keys(data, position, header)


V2_KEYS: Final = RecordLoop(
    "data, position, header",
    records="header.record_count",
    before="""\
base_offset = header.base_offset
entry_keys = Keys([], [], [], [position])
add_offset, add_key = entry_keys.offsets.append, entry_keys.keys.append
add_tombstone, add_bound = entry_keys.tombstones.append, entry_keys.bounds.append""",
    fields={
        "length": "end = position + (raw >> 1)",
        "offset_delta": f"add_offset(base_offset + ({NUMBER}))",
        "key": "add_key(key)",
    },
    per_record="""\
add_tombstone(data[position] & 1 == 1)  # the sign of the value's length
if position >= end:
    raise InvalidRecordError("its key goes beyond its end")
position = end
add_bound(end)""",
    after="""\
if position != len(data):
    count = header.record_count
    raise InvalidRecordError(f"record count: {count}, but they end at byte {position} of {len(data)}")
return entry_keys""",
    names={"Keys": Keys},
)


def extract_legacy_keys(records: Sequence[Record]) -> Keys:
    """Extract the offsets and keys of v0 and v1 messages, like extract_v2_keys(), but without bounds."""
    return Keys(
        [record.offset for record in records],
        [record.key for record in records],
        [record.value is None for record in records],
        [],
    )


def keys_of(entry: bytes, header: BatchHeader) -> Keys:
    """Extract the keys and offsets of an entry's records, in any format.

    Raises:
        DecodeError: the records cannot be decoded.
    """
    if header.magic == MAGIC_V2:
        return extract_v2_keys(*v2_data(entry, header), header)
    return extract_legacy_keys(list(LegacyRecordBatch(memoryview(entry))))


_ABORT: Final = 0
_COMMIT: Final = 1


class CleanedTransactions:
    """Decides which transactional batches and markers can be removed (Kafka's `CleanedTransactionMetadata`).

    Every batch below the last stable offset must be passed in, in log order. Batches of aborted transactions can
    always be removed. A marker can be removed only when no batch of its transaction precedes it: a first cleaning
    removes the batches and a later one the marker. The aborted transactions whose markers were kept become the
    transaction index of the cleaned segment.
    """

    __slots__ = ("_aborted", "_next", "_ongoing_aborted", "_ongoing_committed", "_retained", "_with_batches")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._aborted = sorted(aborted, key=lambda transaction: transaction.first_offset)
        self._next = 0
        self._ongoing_aborted: dict[int, AbortedTxn] = {}
        self._ongoing_committed: set[int] = set()
        self._with_batches: set[int] = set()
        self._retained: list[AbortedTxn] = []

    def take_retained(self) -> list[AbortedTxn]:
        """Return the aborted transactions whose markers were kept since the last call."""
        retained, self._retained = self._retained, []
        return retained

    def on_batch(self, header: BatchHeader) -> bool:
        """Track a data batch, and return whether it can be removed because its transaction was aborted."""
        self._begin_transactions_up_to(header.last_offset)
        if not header.attributes & TRANSACTIONAL_FLAG:
            return False
        producer_id = header.producer_id
        if producer_id in self._ongoing_aborted:
            self._with_batches.add(producer_id)
            return True
        self._ongoing_committed.add(producer_id)
        return False

    def on_control_batch(self, header: BatchHeader, batch: bytes) -> bool:
        """Track a marker, and return whether its transaction has no batches left.

        Raises:
            DecodeError: the marker cannot be decoded.
        """
        self._begin_transactions_up_to(header.last_offset)
        for record in RecordBatch(memoryview(batch)):
            return self._on_marker(_marker_type(record.key), header.producer_id)
        return True  # The batch is empty, because an earlier pass of the cleaner has removed the marker.

    def _on_marker(self, marker_type: int, producer_id: int) -> bool:
        if marker_type == _ABORT:
            transaction = self._ongoing_aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._with_batches:
                return True
            self._with_batches.remove(producer_id)
            self._retained.append(transaction)
            return False
        if marker_type == _COMMIT:
            if producer_id not in self._ongoing_committed:
                return True
            self._ongoing_committed.remove(producer_id)
        return False

    def _begin_transactions_up_to(self, offset: int) -> None:
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            transaction = self._aborted[self._next]
            self._ongoing_aborted.setdefault(transaction.producer_id, transaction)
            self._next += 1


def _marker_type(key: bytes | None) -> int:
    """Return the marker type in a control record's key, which is an int16 version followed by the int16 type.

    Raises:
        CorruptRecordError: the key is too short.
    """
    if key is None or len(key) < CONTROL_KEY.size:
        raise CorruptRecordError(f"control record: a key of {0 if key is None else len(key)} bytes")
    return int(CONTROL_KEY.unpack_from(key)[1])


RETAINED_ATTRIBUTES: Final = CODEC_MASK | TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
"""Attributes that a batch keeps when it loses records. Each cleaning determines the delete horizon again."""


class RetainedEntry(NamedTuple):
    """An entry after cleaning: its bytes, and the values needed for the indexes."""

    data: bytes | bytearray
    last_offset: int
    max_timestamp: int


class BatchFilter:
    """Decides which records of each entry are retained (Kafka's `Cleaner.cleanInto` and `MemoryRecords.filterTo`).

    `filter()` must be called with every entry of the segments to clean, in log order.

    - The newest record of each key is retained. A tombstone is retained only until its delete horizon. Records
      without a key are removed. Records above the offset map's latest offset are left unchanged.
    - A v2 batch always keeps its base offset, last offset, producer and leader epoch. A batch without a delete
      horizon gets one, `delete.retention.ms` from now, if a tombstone in it is retained or if it is a marker that
      is no longer needed.
    - The last batch of an active producer is retained, or at least its header, which holds the producer's last
      sequence number.
    - Any other entry that loses no records is copied byte for byte.
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
        #: Whether tombstones of formats v0 and v1 are retained. The cleaner sets this for each segment.
        self.retain_legacy_deletes = True
        self.messages_read = 0
        self.messages_written = 0
        self.invalid_messages_read = 0

    def filter(self, entry: bytes, header: BatchHeader) -> RetainedEntry | None:
        """Return an entry without its removed records, or None if nothing remains.

        Args:
            entry: a complete entry whose checksum was verified.
            header: the header of that entry.

        Returns:
            The retained part of the entry. Its `data` is `entry` itself if nothing was removed.

        Raises:
            DecodeError: the records cannot be decoded.
        """
        if header.magic == MAGIC_V2:
            if header.attributes & CONTROL_FLAG:
                retained = self._filter_control_batch(entry, header)
            else:
                retained = self._filter_batch(entry, header)
            # Keep the last batch of a producer, without its records. Otherwise, producer state rebuilt from the log
            # would lack the producer, and a retry of this batch would be accepted as a new batch.
            if retained is None and header.producer_id >= 0 and self._is_last_of_producer(header):
                emptied = build_empty_batch(header) if header.record_count else entry
                return RetainedEntry(emptied, header.last_offset, header.max_timestamp)
            return retained
        self._transactions.on_batch(header)
        return self._filter_legacy(entry, header)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return False
        # For a producer without data batches, the epoch of its marker is compared instead of the offset (Kafka's
        # `isBatchLastRecordOfProducer`).
        if producer.last_data_offset >= 0:
            return producer.last_data_offset == header.last_offset
        return header.is_control and producer.producer_epoch == header.producer_epoch

    def _filter_control_batch(self, batch: bytes, header: BatchHeader) -> RetainedEntry | None:
        is_removable = self._transactions.on_control_batch(header, batch)
        count = header.record_count
        self.messages_read += count
        horizon = header.delete_horizon_ms
        # A marker is removed in two passes (KIP-534). The first pass that finds no records of the transaction sets a
        # delete horizon, and a pass after this time removes the marker. Before that, lagging consumers can still read
        # the marker.
        if not count or (is_removable and horizon is not None and horizon <= self._now_ms):
            return None
        self.messages_written += count
        if not is_removable or horizon is not None:
            return RetainedEntry(batch, header.last_offset, header.max_timestamp)
        data, position = v2_data(batch, header)
        bounds = extract_v2_keys(data, position, header).bounds
        return rebuild_batch(data, header, bounds, range(count), self._delete_horizon_ms)

    def _filter_batch(self, batch: bytes, header: BatchHeader) -> RetainedEntry | None:
        # Remove the batch of an aborted transaction, because consumers with read_committed never see its records.
        if self._transactions.on_batch(header):
            return None
        count = header.record_count
        # An earlier pass kept this empty batch for its sequence numbers. `filter` retains it while it is the producer's
        # last batch.
        if not count:
            return None
        self.messages_read += count
        data, position = v2_data(batch, header)
        keys = extract_v2_keys(data, position, header)
        horizon = header.delete_horizon_ms
        retained, any_tombstone = self._select_retained(keys, retain_deletes=horizon is None or self._now_ms < horizon)
        if not retained:
            return None
        self.messages_written += len(retained)
        # The horizon counts from the first cleaning that keeps the tombstone (KIP-534), not from the record's
        # timestamp. Otherwise a rarely cleaned topic would lose tombstones before consumers could read them.
        if any_tombstone and horizon is None:
            horizon = self._delete_horizon_ms
        elif len(retained) == count:
            return RetainedEntry(batch, header.last_offset, header.max_timestamp)
        return rebuild_batch(data, header, keys.bounds, retained, horizon)

    def _select_retained(self, entry_keys: Keys, *, retain_deletes: bool) -> tuple[Sequence[int], bool]:
        """Return the indexes of the retained records, and whether any of them is a tombstone."""
        offsets, keys, tombstones, _ = entry_keys
        newest = self._map.find_newest(keys)
        latest = self._map.latest_offset
        # Fast path for the common case of a compacted topic: a list comprehension is much faster than the loop below.
        if offsets[-1] <= latest and None not in keys and True not in tombstones:
            return [index for index, offset in enumerate(offsets) if newest[index] <= offset], False
        retained: list[int] = []
        any_tombstone = False
        for index, offset in enumerate(offsets):
            tombstone = tombstones[index]
            if offset <= latest:
                if keys[index] is None:
                    # Producers cannot write records without keys to a compacted topic, so this record was written
                    # before compaction was enabled.
                    self.invalid_messages_read += 1
                    continue
                if newest[index] > offset or (tombstone and not retain_deletes):
                    continue
            any_tombstone |= tombstone
            retained.append(index)
        return retained, any_tombstone

    def _filter_legacy(self, entry: bytes, header: BatchHeader) -> RetainedEntry | None:
        records = list(LegacyRecordBatch(memoryview(entry)))
        keys = extract_legacy_keys(records)
        retained, _ = self._select_retained(keys, retain_deletes=self.retain_legacy_deletes)
        self.messages_read += len(records)
        self.messages_written += len(retained)
        if not retained:
            return None
        if len(retained) == len(records):
            return RetainedEntry(entry, header.base_offset, header.max_timestamp)
        return rebuild_message_set(header, [records[index] for index in retained])


def rebuild_message_set(header: BatchHeader, retained: Sequence[Record]) -> RetainedEntry:
    """Build a v0 or v1 wrapper that contains only the retained records. At least one record must be retained."""
    # With LogAppendTime, only the wrapper's timestamp counts, not the timestamps of its records.
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
    return RetainedEntry(data, retained[-1].offset, timestamp)


def build_empty_batch(header: BatchHeader) -> bytearray:
    """Return a batch without records that preserves the producer's sequence numbers (Kafka's `writeEmptyHeader`)."""
    attributes = header.attributes & RETAINED_ATTRIBUTES & ~CODEC_MASK
    return _build_batch(header, b"", attributes, NO_TIMESTAMP, header.max_timestamp, 0)


def rebuild_batch(
    data: bytes, header: BatchHeader, bounds: Sequence[int], retained: Sequence[int], delete_horizon_ms: int | None
) -> RetainedEntry:
    """Build a batch from the `retained` records (Kafka's `buildRetainedRecordsInto`).

    Timestamp deltas are relative to the delete horizon or, without a delete horizon, to the first retained record. A
    record is copied unchanged unless its timestamp delta changes.

    Args:
        data: the uncompressed records.
        header: the header of the original batch.
        bounds: the start of each record in `data`, and the end of the last record.
        retained: the indexes of the retained records, at least one.
        delete_horizon_ms: the delete horizon, or None.
    """
    log_append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_FLAG else None
    # A v2 batch stores its delete horizon in the base timestamp field; a flag tells the two apart.
    base_timestamp = delete_horizon_ms
    max_timestamp = NO_TIMESTAMP
    parts: list[bytes] = []
    for index in retained:
        start, end = bounds[index], bounds[index + 1]
        body = start
        while data[body] >= CONTINUES:
            body += 1
        body += 1  # Skip the last byte of the length field.
        delta_at = body + 1  # Skip the attributes, which take one byte.
        raw = data[delta_at]
        after_delta = delta_at + 1
        if raw >= CONTINUES:
            raw, after_delta = finish_varlong(data, after_delta, raw)
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
            length = encode_varint(end - after_delta + len(encoded) + 1)
            parts += (length, data[body:delta_at], encoded, data[after_delta:end])
    records = b"".join(parts)
    attributes = header.attributes & RETAINED_ATTRIBUTES
    if attributes & CODEC_MASK:
        # As in Kafka's cleaner, the topic's compression level is not available here, so the codec's default level is
        # used.
        records = compress(CompressionCodec(attributes & CODEC_MASK), records)
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
    batch = _build_batch(header, records, attributes, base_timestamp or 0, max_timestamp, len(retained))
    return RetainedEntry(batch, header.last_offset, max_timestamp)


def _build_batch(
    header: BatchHeader, records: bytes, attributes: int, base_timestamp: int, max_timestamp: int, count: int
) -> bytearray:
    """Build a batch with the offsets, producer and leader epoch from an existing header."""
    header = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=count
    )
    return pack_batch(header, records, CompressionCodec(attributes & CODEC_MASK))[0]
