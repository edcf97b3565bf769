"""Creates views of a log at one moment, and of its parts on demand.

All results are dataclasses of plain values. Positions and sizes are in bytes, times in ms.
"""

from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.header import (
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_V2,
    TIMESTAMP_TYPES,
    BatchHeader,
    codec_name,
    control_type,
)
from minibroker_storage.log import Log
from minibroker_storage.portability import os
from minibroker_storage.segment import LogSegment

MAX_ELEMENTS: Final = 1_000
"""Maximum number of elements on a page."""
MAX_BATCH_BYTES: Final = 1 << 20
"""Maximum number of bytes of a batch."""
_WINDOW: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class SegmentView:
    """One segment.

    Attributes:
        file: the name of the segment's log file.
        end_offset: the base offset of the next segment or, for the active segment, the log end offset.
        first_timestamp: the largest timestamp of the first batch, or None for an empty segment.
        largest_timestamp: the largest timestamp of all batches, or -1 without timestamps.
        offset_of_largest: the last offset of the batch with that timestamp.
        offset_entries: the number of entries in the offset index.
        time_entries: the number of entries in the time index.
        aborted: the number of entries in the transaction index.
    """

    base_offset: int
    end_offset: int
    file: str
    size: int
    is_active: bool
    created_ms: int
    first_timestamp: int | None
    largest_timestamp: int
    offset_of_largest: int
    offset_entries: int
    time_entries: int
    aborted: int


@dataclass(frozen=True, slots=True)
class EpochView:
    """A leader epoch and the offset of its first record."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class LogView:
    """A log at one moment.

    Attributes:
        last_stable_offset: the offset below which all transactions have ended (KIP-98).
        recovery_point: the offset below which everything is on disk.
        segment_count: the total number of segments.
        first_segment: the index in the log of the first segment in `segments`.
        segments: the requested segments.
        producer_snapshots: the offsets of the snapshot files.
    """

    directory: str
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    recovery_point: int
    size: int
    segment_count: int
    first_segment: int
    segments: tuple[SegmentView, ...]
    leader_epochs: tuple[EpochView, ...]
    producers: int
    producer_snapshots: tuple[int, ...]
    index_interval_bytes: int
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class BatchView:
    """A batch, or a message of format v0 or v1.

    Attributes:
        segment: the base offset of the batch's segment.
        position: the position of the batch in the segment's log file.
        base_offset: for a compressed v0 or v1 message, the offset of the last message in it.
        control_type: "COMMIT" or "ABORT" for a transaction marker, another name for other control batches, or None
            for a batch of records.
        records: the number of records, or None if only the compressed bytes contain that number.
        is_indexed: whether the offset index has an entry for the batch.
    """

    segment: int
    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int
    codec: str
    timestamp_type: str
    first_timestamp: int
    max_timestamp: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_transactional: bool
    is_control: bool
    control_type: str | None
    records: int | None
    is_indexed: bool


@dataclass(frozen=True, slots=True)
class BatchPage:
    """A page of consecutive batches. `next_offset` is the start of the next page, or None at the end of the log."""

    batches: tuple[BatchView, ...]
    next_offset: int | None


@dataclass(frozen=True, slots=True)
class OffsetEntryView:
    """An offset index entry: the last offset of a batch and the position of that batch."""

    slot: int
    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class TimeEntryView:
    """A time index entry. All records with a larger timestamp come after the entry's offset."""

    slot: int
    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True)
class SequenceView:
    """One of the newest batches of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class ProducerView:
    """A producer that has written to the log. Its last five batches are used to detect duplicates (KIP-98).

    `transaction_begins` is the first offset of the producer's open transaction, or None outside a transaction.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp: int
    transaction_begins: int | None
    batches: tuple[SequenceView, ...]


@dataclass(frozen=True, slots=True)
class AbortedView:
    """An aborted transaction in the transaction index of a segment."""

    segment: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def log_view(log: Log, first_segment: int = 0, limit: int = MAX_ELEMENTS) -> LogView:
    """Return a view of the log with at most `limit` segments, starting with the segment at index `first_segment`.

    Raises:
        OSError: a file cannot be read.
    """
    first = max(first_segment, 0)
    views = [_segment_view(log, index) for index in range(first, min(first + limit, len(log.segments)))]
    return LogView(
        directory=log.directory,
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        recovery_point=log.recovery_point,
        size=log.size,
        segment_count=len(log.segments),
        first_segment=first,
        segments=tuple(views),
        leader_epochs=tuple(EpochView(*entry) for entry in log.epochs.entries[-MAX_ELEMENTS:]),
        producers=len(log.producers.active),
        producer_snapshots=tuple(log.producers.snapshots[-MAX_ELEMENTS:]),
        index_interval_bytes=log.config.index_interval_bytes,
        segment_bytes=log.config.segment_bytes,
    )


def _segment_view(log: Log, index: int) -> SegmentView:
    segment, segments = log.segments[index], log.segments
    is_active = index == len(segments) - 1
    largest = segment.largest_timestamp
    return SegmentView(
        base_offset=segment.base_offset,
        end_offset=log.log_end_offset if is_active else segments[index + 1].base_offset,
        file=file_of(segment),
        size=segment.size,
        is_active=is_active,
        created_ms=segment.created_ms,
        first_timestamp=segment.read_first_timestamp(),
        largest_timestamp=largest.timestamp,
        offset_of_largest=largest.offset,
        offset_entries=segment.offset_index.entries,
        time_entries=segment.time_index.entries,
        aborted=segment.transaction_index.entries,
    )


def file_of(segment: LogSegment) -> str:
    """Return the name of a segment's log file."""
    return segment.log.path.rpartition("/")[2]


def find_segment(log: Log, base_offset: int) -> LogSegment | None:
    """Return the segment with this base offset, or None if it no longer exists."""
    return next((segment for segment in log.segments if segment.base_offset == base_offset), None)


def batch_page(log: Log, offset: int, limit: int = MAX_ELEMENTS) -> BatchPage:
    """Return a page of batches from the one that contains `offset` on or, after a gap, from the next one on.

    Raises:
        OSError: a file cannot be read.
        StorageError: the log contains bytes that are not batches.
    """
    batches: list[BatchView] = []
    while offset < log.log_end_offset and len(batches) < limit:
        index = log.segment_index(offset)
        segment = log.segments[index]
        end = segment.size
        entry = segment.translate(offset) if segment.size else None
        if entry is not None:
            for position, header in segment.headers_from(entry.position, _WINDOW, end=end):
                batches.append(batch_view(segment, position, header))
                offset = header.last_offset + 1
                if len(batches) >= limit:
                    break
        if len(batches) < limit:
            bases = (later.base_offset for later in log.segments)
            following = next((base for base in bases if base > segment.base_offset), None)
            if following is None:
                return BatchPage(tuple(batches), None)
            offset = max(following, offset)
    return BatchPage(tuple(batches), offset if offset < log.log_end_offset else None)


def batch_view(segment: LogSegment, position: int, header: BatchHeader) -> BatchView:
    """Return a view of a batch from its header."""
    is_control = header.magic == MAGIC_V2 and header.is_control
    return BatchView(
        segment=segment.base_offset,
        position=position,
        size=header.size_in_bytes,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        magic=header.magic,
        codec=codec_name(header),
        timestamp_type=TIMESTAMP_TYPES[header.timestamp_type],
        first_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
        is_transactional=header.magic == MAGIC_V2 and header.is_transactional,
        is_control=is_control,
        control_type=read_control_type(segment, position) if is_control else None,
        records=header.record_count if header.record_count >= 0 else None,
        is_indexed=segment.offset_index.entry_at_or_below(position).position == position > 0,
    )


def read_control_type(segment: LogSegment, position: int) -> str:
    """Return the type of the control batch at `position`, such as "COMMIT".

    Raises:
        OSError: the file cannot be read.
        DecodeError: the batch cannot be decoded.
    """
    record = next(iter(RecordBatch(segment.batch_at(position))), None)
    return control_type(None if record is None else record.key)[0]


def read_batch(log: Log, base_offset: int, position: int, limit: int = MAX_BATCH_BYTES) -> bytes | None:
    """Return at most `limit` bytes from a position in a segment, or None if there is no such segment.

    The bytes need not be a batch, since `minibroker_protocol.fields.batches.record_set_tree` accepts any bytes.

    Raises:
        OSError: the file cannot be read.
    """
    segment = find_segment(log, base_offset)
    if segment is None:
        return None
    if not 0 <= position < segment.size:
        return b""
    with segment.log as fd:
        head = os.pread(fd, LOG_OVERHEAD, position)
        size = LOG_OVERHEAD + int.from_bytes(head[LENGTH_AT:], "big", signed=True)
        return os.pread(fd, max(min(size, limit, segment.size - position), 0), position)


def offset_entries(
    segment: LogSegment, first: int = 0, stride: int = 1, limit: int = MAX_ELEMENTS
) -> list[OffsetEntryView]:
    """Return at most `limit` entries of the offset index: every `stride`-th one from slot `first` on.

    Raises:
        OSError: the file cannot be read.
    """
    index = segment.offset_index
    slots = _clamp_slots(first, stride, limit, index.entries)
    return [OffsetEntryView(slot, *index.entry(slot)) for slot in slots]


def time_entries(
    segment: LogSegment, first: int = 0, stride: int = 1, limit: int = MAX_ELEMENTS
) -> list[TimeEntryView]:
    """Return at most `limit` entries of the time index: every `stride`-th one from slot `first` on.

    Raises:
        OSError: the file cannot be read.
    """
    index = segment.time_index
    slots = _clamp_slots(first, stride, limit, index.entries)
    return [TimeEntryView(slot, *index.entry(slot)) for slot in slots]


def _clamp_slots(first: int, stride: int, limit: int, entries: int) -> range:
    first, stride = max(first, 0), max(stride, 1)
    return range(first, min(entries, first + stride * max(limit, 0)), stride)


def producers(log: Log, after: int = -1, limit: int = MAX_ELEMENTS) -> list[ProducerView]:
    """Return at most `limit` producers with ids above `after`, ascending."""
    active = log.producers.active
    views: list[ProducerView] = []
    for producer_id in nsmallest(limit, (producer_id for producer_id in active if producer_id > after)):
        entry = active[producer_id]
        begins = entry.current_txn_first_offset
        views.append(
            ProducerView(
                producer_id,
                entry.producer_epoch,
                entry.coordinator_epoch,
                entry.last_timestamp,
                begins if begins >= 0 else None,
                tuple(
                    SequenceView(
                        batch.first_sequence, batch.last_sequence, batch.base_offset, batch.last_offset, batch.timestamp
                    )
                    for batch in entry.batches
                ),
            )
        )
    return views


def aborted_transactions(log: Log, offset: int = 0, limit: int = MAX_ELEMENTS) -> list[AbortedView]:
    """Return at most `limit` aborted transactions whose markers are at or above `offset`.

    Raises:
        OSError: an index cannot be read.
        CorruptIndexError: an index is invalid.
    """
    views: list[AbortedView] = []
    for segment in log.segments[log.segment_index(offset) :]:
        if not segment.transaction_index.entries:
            continue
        for transaction in segment.transaction_index.since(offset):
            if len(views) == limit:
                return views
            views.append(AbortedView(segment.base_offset, *transaction))
    return views
