"""One record of a log: its position, the index entries that lead to it, and the marker that ended its transaction."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields.record_places import RecordPlace, find_record_in_batch
from minibroker_protocol.records.batch import Batch, iter_batches
from minibroker_protocol.records.header import MAGIC_V2, MARKER_TYPES, BatchHeader
from minibroker_storage.errors import LogClosedError
from minibroker_storage.log import Log
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.segment import LogSegment
from minibroker_storage.time_index import TimeIndex
from minibroker_storage.views.snapshot import BatchView, batch_page, file_of, find_segment, read_control_type

_MAX_HEADERS: Final = 50_000
"""Maximum number of batches skipped while searching for a transaction marker."""
_MAX_BYTES: Final = 1 << 23
_MAX_RECORDS: Final = 30_000
"""Maximum bytes and records read while searching for a newer record with the same key, about 100 ms of work."""


@dataclass(frozen=True, slots=True)
class IndexEntryView:
    """The index entry at which a look-up of the record begins.

    Attributes:
        file: the name of the index file.
        slot: the number of the entry.
        entries: the number of entries in the index.
        start: the position of the entry's first byte in the file.
        end: the position after the entry's last byte.
        key: the entry's offset, or its time in ms.
        target: a position in the log file or, for a time index, an offset.
    """

    file: str
    slot: int
    entries: int
    start: int
    end: int
    key: int
    target: int


@dataclass(frozen=True, slots=True)
class MarkerView:
    """The control record that ended a transaction. `kind` is COMMIT or ABORT."""

    offset: int
    segment: int
    position: int
    kind: str


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record, or the place where it would be.

    Attributes:
        state: "here"; "below" the log start offset; "ahead", at or above the log end offset; or "gap" if the offset
            is in the log but no record has it.
        batch: the batch that contains the offset, or the next one after a gap.
        crc: the checksum of that batch.
        file: the name of the log file that contains that batch.
        place: the record within that batch, or None if the record does not exist or cannot be read.
        fault: the reason why the batch cannot be decoded, or an empty string.
        offset_entry: the offset index entry, or None if the search begins at the start of the file.
        time_entry: like `offset_entry`, for a search by the record's time.
        scanned: the number of batches that a look-up reads between the index entry and the batch.
        scanned_bytes: the number of bytes in these batches.
        marker: the marker that ended the record's transaction.
        open_transaction: whether the record's transaction is still open.
        newer: in a compacted log, the newest offset with the same key (possibly the record's own), or None if the
            record has no key.
        newer_is_certain: whether `newer` is final. It is not if the log is too long to be read to its end.
    """

    state: str
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    is_compacted: bool
    index_interval_bytes: int
    batch: BatchView | None = None
    crc: int = 0
    file: str = ""
    place: RecordPlace | None = None
    fault: str = ""
    offset_entry: IndexEntryView | None = None
    time_entry: IndexEntryView | None = None
    scanned: int = 0
    scanned_bytes: int = 0
    marker: MarkerView | None = None
    open_transaction: bool = False
    newer: int | None = None
    newer_is_certain: bool = True


def record_view(log: Log, offset: int) -> RecordView:
    """Return a view of the record at an offset.

    Raises:
        OSError: a file cannot be read.
        StorageError, DecodeError: the log contains bytes that are not batches.
    """
    view = RecordView(
        "ahead",
        log.log_start_offset,
        log.last_stable_offset,
        log.high_watermark,
        log.log_end_offset,
        log.config.compact,
        log.config.index_interval_bytes,
    )
    if offset >= log.log_end_offset:
        return view
    page = batch_page(log, max(offset, log.log_start_offset), 1)
    batch = page.batches[0] if page.batches else None
    segment = None if batch is None else find_segment(log, batch.segment)
    if batch is None or segment is None:
        return replace(view, state="below" if offset < log.log_start_offset else "gap")
    crc = segment.header_at(batch.position).crc
    view = replace(view, state="below", batch=batch, crc=crc, file=file_of(segment))
    if offset < log.log_start_offset:
        return view
    place, fault = None, ""
    if batch.last_offset >= offset:
        try:
            place = find_record_in_batch(segment.batch_at(batch.position), offset)
        except DecodeError as error:
            fault = str(error)
    if place is None and not fault:
        return replace(view, state="gap")
    offset_entry = _find_index_entry(segment.offset_index, offset)
    scanned, scanned_bytes = _count_scanned(segment, offset_entry, batch)
    marker, is_open = _find_marker(log, batch)
    newer, is_certain = (
        find_newest_with_key(log, place.key, offset)
        if log.config.compact and place is not None and place.key is not None and not batch.is_control
        else (None, True)
    )
    return replace(
        view,
        state="here",
        place=place,
        fault=fault,
        offset_entry=offset_entry,
        time_entry=None if place is None else _find_index_entry(segment.time_index, place.timestamp),
        scanned=scanned,
        scanned_bytes=scanned_bytes,
        marker=marker,
        open_transaction=is_open,
        newer=newer,
        newer_is_certain=is_certain,
    )


def _find_index_entry(index: OffsetIndex | TimeIndex, key: int) -> IndexEntryView | None:
    """Return the last entry whose offset or time is at or below `key`."""
    slot = bisect_right(range(index.entries), key, key=lambda slot: index.entry(slot)[0]) - 1
    if slot < 0:
        return None
    size = index.ENTRY.size
    name = index.file.path.rpartition("/")[2]
    return IndexEntryView(name, slot, index.entries, slot * size, (slot + 1) * size, *index.entry(slot))


def _count_scanned(segment: LogSegment, entry: IndexEntryView | None, batch: BatchView) -> tuple[int, int]:
    begin = 0 if entry is None else entry.target
    positions = (position for position, _ in segment.headers_from(begin, end=segment.size))
    count = sum(1 for _ in takewhile(lambda position: position < batch.position, positions))
    return count, max(batch.position - begin, 0)


def _find_marker(log: Log, batch: BatchView) -> tuple[MarkerView | None, bool]:
    """Return the marker of a batch's transaction, and whether the transaction is still open."""
    if not batch.is_transactional or batch.is_control:
        return None, False
    producer = log.producers.active.get(batch.producer_id)
    first = -1 if producer is None else producer.current_txn_first_offset
    if 0 <= first <= batch.base_offset:
        return None, True
    for count, (segment, position, header) in enumerate(_iter_headers(log, batch.last_offset + 1)):
        if header.magic == MAGIC_V2 and header.is_control and header.producer_id == batch.producer_id:
            kind = read_control_type(segment, position)
            if kind in MARKER_TYPES:
                return MarkerView(header.base_offset, segment.base_offset, position, kind), False
        if count == _MAX_HEADERS:
            break
    return None, False


def _iter_headers(log: Log, offset: int) -> Iterator[tuple[LogSegment, int, BatchHeader]]:
    """Yield the batches from `offset` on. Segments removed in the meantime are skipped."""
    for segment in log.segments[log.segment_index(offset) :]:
        try:
            entry = segment.translate(offset) if segment.size else None
            if entry is None:
                continue
            for position, header in segment.headers_from(entry.position, end=segment.size):
                yield segment, position, header
        except (LogClosedError, FileNotFoundError):
            if segment in log.segments:
                raise


def batches_from(log: Log, offset: int) -> Iterator[tuple[LogSegment, int, Batch]]:
    """Yield the batches from the one that contains `offset` on, with their segments and positions."""
    for segment, position, _ in _iter_headers(log, offset):
        yield segment, position, next(iter_batches(segment.batch_at(position)))


def find_newest_with_key(log: Log, key: bytes, offset: int) -> tuple[int | None, bool]:
    """Search from `offset` on for the newest record with this key.

    Records of aborted transactions count as well, because only the cleaner can recognize them.

    Returns:
        The record's offset, or None if not found, and whether the log was read to its end.
    """
    newest, read, count = None, 0, 0
    for _, _, batch in batches_from(log, offset):
        read += batch.header.size_in_bytes
        if batch.header.magic == MAGIC_V2 and batch.header.is_control:
            continue
        count += batch.header.record_count
        for record in batch:
            if record.key == key and record.offset >= offset:
                newest = record.offset
        if read > _MAX_BYTES or count > _MAX_RECORDS:
            return newest, False
    return newest, True
