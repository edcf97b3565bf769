"""Finds the log end offset, high watermark and last stable offset of a log from the log's files.

A log ends after its last whole entry. A read_committed query ends before the first open transaction.

A log to which a broker is writing has no mark at its end. The offset index names a batch near the end, and the entries
from that batch on are examined one by one. Open transactions are found in the newest producer snapshot and in the
headers of the batches after the snapshot. A `LogTail` remembers its position, so the cost of an update is proportional
to the growth of the log.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode import AbortedRange, Damage, find_wrong_crcs, scan_headers
from minibroker_pipeline.decode.headers import next_entry, offset_at, stop_fault
from minibroker_pipeline.filesystem import OpenFile
from minibroker_pipeline.log_directories.partition_logs import PartitionLog, SegmentFiles
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.header import (
    CONTROL_FLAG,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_FLAG,
)
from minibroker_protocol.records.varint import INT64_MAX
from minibroker_storage.errors import CorruptSnapshotError
from minibroker_storage.layout import SNAPSHOT_SUFFIX, file_name
from minibroker_storage.producer_snapshot import decode_snapshot

_CHUNK_BYTES: Final = 4 * 1024 * 1024
_UNINDEXED_BYTES: Final = 64 * 1024
"""A log of this size is read in the time that it takes to open its index."""
_MAX_MARKS: Final = 8
_ABORT: Final = b"\0\0"
_KEY_SIZE_AT: Final = RECORD_BATCH_OVERHEAD + 4
_KEY_SIZE: Final = 8
"""The length 4 as a zigzag varint."""
_TYPE_AT: Final = RECORD_BATCH_OVERHEAD + 7

HighWatermark = Literal["auto", "checkpoint", "logEnd"]


def read_entry_offset(file: OpenFile, position: int, size: int, offset: int, base_offset: int) -> int:
    """Return the first offset of the log entry at a position, or -1 if no index entry with `offset` can point to it.

    `size` is the size of the log file. Wrappers in old formats have the offset of their last record.
    """
    head = file.read_at(position, min(RECORD_BATCH_OVERHEAD, size - position))
    if len(head) <= MAGIC_AT or head[MAGIC_AT] > MAGIC_V2:
        return -1
    length = int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True)
    first = int.from_bytes(head[:8], "big", signed=True)
    return first if MAGIC_AT < length + LOG_OVERHEAD <= size - position and base_offset <= first <= offset else -1


def is_abort_marker(data: memoryview, position: int) -> bool:
    """Return whether the marker at this position is an abort marker.

    An unreadable marker does not count as one, because the decoder reports it.
    """
    # Fast path: in the markers that brokers write, the type is at a fixed position.
    if len(data) > position + _TYPE_AT + 2 and data[position + _KEY_SIZE_AT] == _KEY_SIZE:
        return bytes(data[position + _TYPE_AT : position + _TYPE_AT + 2]) == _ABORT
    try:
        marker = next(iter(RecordBatch(data[position:])), None)
    except DecodeError:
        return False
    return marker is not None and marker.key is not None and bytes(marker.key[2:4]) == _ABORT


@dataclass(slots=True)
class Transactions:
    """The transactions in a log's batches up to some offset."""

    #: The first offset of each open transaction, by producer id.
    open: dict[int, int] = field(default_factory=dict[int, int])
    #: The first offset and the marker's offset of each completed transaction.
    ended: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    aborted: list[AbortedRange] = field(default_factory=list[AbortedRange])

    def note(self, data: memoryview, headers: NDArray[Any], from_offset: int) -> None:
        """Process the next entries, which `data` contains, by their headers."""
        selected = (headers["attributes"] & TRANSACTIONAL_FLAG != 0) & (headers["last_offset"] >= from_offset)
        for header in headers[selected & (headers["magic"] == MAGIC_V2)]:
            producer, first = int(header["producer_id"]), int(header["base_offset"])
            if not header["attributes"] & CONTROL_FLAG:
                self.open.setdefault(producer, first)
                continue
            start = self.open.pop(producer, None)
            if start is None:
                continue
            self.ended.append((start, first))
            if is_abort_marker(data, int(header["position"])):
                self.aborted.append(AbortedRange(producer, start, first))

    def last_stable_offset(self, end: int, high_watermark: int) -> int:
        """Return the last stable offset: all transactions that began below it were decided below the high watermark."""
        unstable = [first for first, marker in self.ended if marker >= high_watermark]
        self.ended = [ended for ended in self.ended if ended[1] >= high_watermark]
        return min([end, high_watermark, *self.open.values(), *unstable])

    def forget(self, offset: int) -> None:
        """Forget the aborted transactions that end below an offset. Records below it will not be read again."""
        self.aborted = [aborted for aborted in self.aborted if aborted.last_offset >= offset]


class LogTail:
    """The end of a log, refreshed by each `update`.

    Args:
        transactions: whether to track open transactions, too.
        verify_crc: whether a wrong checksum ends the log.
        permissive: whether the log continues after damage if more entries follow.
        high_watermark: "checkpoint" hides records above the last high watermark that the broker checkpointed.
            "auto" does the same, except after a clean stop and in minibroker's directories: there, all records of a
            log are visible. "logEnd" never hides records.
    """

    def __init__(
        self,
        *,
        transactions: bool = False,
        verify_crc: bool = True,
        permissive: bool = False,
        high_watermark: HighWatermark = "auto",
    ) -> None:
        self._verify_crc = verify_crc
        self.is_permissive = permissive
        self._high_watermark = high_watermark
        self._segment: SegmentFiles | None = None
        self._position = 0
        self._replay_from = 0
        #: Base offset and identity of the segment, log end offset and end position after the last updates.
        self._marks = deque[tuple[int, int, int, int]](maxlen=_MAX_MARKS)
        self.transactions = Transactions() if transactions else None
        #: The offset after the last whole entry.
        self.log_end_offset = 0
        #: Readers can read the records below this offset.
        self.end_offset = 0
        #: The size of the last segment, excluding an incomplete entry at its end.
        self.end_position = 0
        #: The damage at the end of the log, or None. An incomplete entry is not damage. `damaged_file` is the path of
        #: the damaged segment's file.
        self.damage: Damage | None = None
        self.damaged_file = ""

    def update(self, log: PartitionLog) -> None:
        """Advance to the current log end.

        Raises:
            FileNotFoundError: a file was deleted.
            OSError: a file cannot be read.
        """
        self.damage = None
        if not log.segments:
            self.log_end_offset = self.end_offset = log.start_offset
            return
        index, search_offset = self._resume(log) or self._find_start(log)
        for segment in log.segments[index:]:
            if segment != log.segments[index]:
                self._position = 0
            self._segment = segment
            self.log_end_offset = max(self.log_end_offset, segment.base_offset)
            if self._position < segment.size:
                with log.filesystem.open(log.path(segment)) as file:
                    if search_offset is not None and segment == log.segments[index]:
                        self._position = self._find_indexed_position(log, segment, file, search_offset)
                    self._walk(log, segment, file)
        self.end_position = self._position
        self.end_offset = self._find_visible_end(log)
        last = log.segments[-1]
        mark = last.base_offset, last.identity, self.log_end_offset, self.end_position
        if mark not in self._marks:
            self._marks.append(mark)

    def position_before(self, segment: SegmentFiles, offset: int) -> int:
        """Return a known position in a segment before the entries from this offset on, or 0."""
        file = segment.base_offset, segment.identity
        return max((mark[3] for mark in self._marks if mark[:2] == file and mark[2] <= offset), default=0)

    def _find_visible_end(self, log: PartitionLog) -> int:
        end = self.log_end_offset
        everything_counts = log.data.is_clean or log.data.is_single
        if self._high_watermark == "logEnd" or (self._high_watermark == "auto" and everything_counts):
            visible = end
        else:
            visible = min(end, log.data.high_watermarks.get((log.topic, log.partition), end))
        if self.transactions is not None:
            visible = self.transactions.last_stable_offset(end, visible)
        return max(visible, min(log.start_offset, end))

    def _resume(self, log: PartitionLog) -> tuple[int, None] | None:
        """Return the index of the segment where the last update ended, or None if that segment was replaced."""
        last = self._segment
        for index, segment in enumerate(log.segments):
            if last is not None and segment.base_offset == last.base_offset:
                is_same = segment.identity == last.identity and segment.size >= self._position
                return (index, None) if is_same else None
        return None

    def _find_start(self, log: PartitionLog) -> tuple[int, int]:
        """Choose a start as near to the end as possible. Return the index of a segment, and an offset in it."""
        self._position, self.log_end_offset = 0, log.segments[0].base_offset
        self._marks.clear()
        if self.transactions is None:
            return len(log.segments) - 1, INT64_MAX
        self.transactions = Transactions()
        self._replay_from = log.segments[0].base_offset
        for offset in reversed(log.snapshots):
            try:
                data = log.filesystem.read(f"{log.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}")
                producers = decode_snapshot(data)
            except (CorruptSnapshotError, FileNotFoundError):
                continue
            index = max(sum(segment.base_offset <= offset for segment in log.segments) - 1, 0)
            self._replay_from = offset
            for producer, entry in producers.items():
                if entry.current_txn_first_offset >= 0:
                    self.transactions.open[producer] = entry.current_txn_first_offset
            return index, offset
        return 0, 0

    def _find_indexed_position(self, log: PartitionLog, segment: SegmentFiles, file: OpenFile, offset: int) -> int:
        """Return the position of the last indexed batch that is whole and ends at or below `offset`.

        Incomplete batches and wrong index entries are skipped.
        """
        if segment.size <= _UNINDEXED_BYTES or not offset:
            return 0
        offsets, positions = log.offset_index(segment)
        for slot in reversed(range(int(np.searchsorted(offsets, offset, side="right")))):
            position = int(positions[slot])
            if read_entry_offset(file, position, segment.size, int(offsets[slot]), segment.base_offset) >= 0:
                size = int.from_bytes(file.read_at(position + LENGTH_AT, 4), "big") + LOG_OVERHEAD
                entry = memoryview(file.read_at(position, size))
                headers = scan_headers(entry)
                if len(headers) and not (self._verify_crc and find_wrong_crcs(entry, headers)):
                    return position
        return 0

    def _walk(self, log: PartitionLog, segment: SegmentFiles, file: OpenFile) -> None:
        path = log.path(segment)
        for data, headers in self._read_chunks(file, segment, path):
            last = int(headers["last_offset"][-1])
            if last < segment.base_offset:
                message = f"the file is named by offset {segment.base_offset}, but holds {last}"
                self._set_damage(path, Damage(0, last, 0, message))
            self.log_end_offset = max(self.log_end_offset, last + 1)
            if self.transactions is not None:
                self.transactions.note(data, headers, self._replay_from)

    def _read_chunks(
        self, file: OpenFile, segment: SegmentFiles, path: str
    ) -> Iterator[tuple[memoryview, NDArray[Any]]]:
        """Yield chunks of whole entries, advance the position after each chunk, and set `damage`."""
        window = _CHUNK_BYTES
        while self._position < segment.size:
            remaining = segment.size - self._position
            data = memoryview(file.read_at(self._position, min(window, remaining)))
            if len(data) < min(window, remaining):
                return  # If fewer bytes were read than requested, another process has truncated the file.
            headers = scan_headers(data)
            wrong = find_wrong_crcs(data, headers) if self._verify_crc else []
            if wrong:
                headers = headers[: wrong[0]]
            if len(headers):
                entries_end = int(headers["position"][-1] + headers["size"][-1])
                yield data, headers
                self._position += entries_end
                window = _CHUNK_BYTES
            elif not wrong and len(data) < remaining and stop_fault(data, 0) is None:
                window = max(window * 2, int.from_bytes(data[8:LOG_OVERHEAD], "big") + LOG_OVERHEAD)
            elif not self._skip_damage(file, remaining, path, is_wrong=bool(wrong)):
                return

    def _skip_damage(self, file: OpenFile, remaining: int, path: str, *, is_wrong: bool) -> bool:
        """Skip bytes that are not a whole entry although the file continues. Return whether the log continues too."""
        remainder = memoryview(file.read_at(self._position, remaining))
        if not np.frombuffer(remainder, np.uint8).any():
            return False  # Zeros are preallocated space or were left by a machine crash, so the log ends here.
        fault = "wrong checksum" if is_wrong else stop_fault(remainder, 0)
        next_position = next_entry(remainder, 0)
        if next_position is not None and (offset_at(remainder, next_position) or 0) < self.log_end_offset:
            # An entry with a lower offset is not part of this log: a record can contain the bytes of another log.
            next_position = None
        if fault is None and next_position is None:
            return False  # The entry is incomplete: the broker is writing it, or died while writing it.
        damaged_bytes = remaining if next_position is None else next_position
        reason = fault or "batch length: it reaches beyond entries that follow"
        self._set_damage(path, Damage(self._position, self.log_end_offset, damaged_bytes, reason))
        if not self.is_permissive:
            return False
        self._position += damaged_bytes
        return next_position is not None

    def _set_damage(self, path: str, damage: Damage) -> None:
        if self.damage is None:
            self.damage, self.damaged_file = damage, path


def find_aborted_in(log: PartitionLog, index: int) -> list[AbortedRange]:
    """Return the aborted transactions that end in the segment with this index, found in the log itself.

    The markers in the log end the transactions. If a transaction began in an earlier segment, its beginning is in
    the producer snapshot, or else in the log after the newest earlier snapshot. Damage is skipped.

    Raises:
        OSError: a file cannot be read.
    """
    segments = log.segments[: index + 1]
    snapshots = tuple(offset for offset in log.snapshots if offset <= segments[-1].base_offset)
    tail = LogTail(transactions=True, permissive=True, high_watermark="logEnd")
    tail.update(replace(log, segments=segments, snapshots=snapshots))
    assert tail.transactions is not None
    return tail.transactions.aborted
