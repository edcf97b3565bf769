"""Reads byte ranges of log files into Arrow batches, within a task.

A transaction index has no checksum, and a segment without its index looks as if it had no aborted transactions. A
read_committed query reads the log anyway, so it compares the transaction markers in the log with the index.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from minibroker_pipeline.decode import (
    AbortedRange,
    Damage,
    DamagedLogError,
    DecodeReport,
    coalesce,
    decode,
    scan_headers,
    schema_of,
)
from minibroker_pipeline.filesystem import OpenFile, open_listed
from minibroker_pipeline.log_directories.log_end_offsets import is_abort_marker
from minibroker_pipeline.source.options import DAMAGE_COLUMN, DECODED_COLUMN, UNDECODABLE_COLUMN, SourceOptions
from minibroker_pipeline.source.planning import PERMISSIVE_HINT, LogRange, find_replaced, read_aborted_from_log
from minibroker_protocol.records.header import CONTROL_FLAG, MAGIC_V2, TRANSACTIONAL_FLAG
from minibroker_storage.layout import LOG_SUFFIX, TXN_INDEX_SUFFIX, offset_of

_MIN_BATCH_BYTES: Final = 2 * 1024 * 1024
"""Smaller batches are joined, which copies them."""
_FIRST_ENTRY_BYTES: Final = 64 * 1024
"""A larger first entry is not compared with the file's name."""
_logger = logging.getLogger(__name__)


class DataLossError(Exception):
    """Requested records that no longer exist.

    The message names the records, and mentions that failOnDataLoss=false skips them.
    """

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} (set failOnDataLoss=false to go on with what is left)")
        self._message = message

    def __reduce__(self) -> tuple[type["DataLossError"], tuple[str]]:
        return DataLossError, (self._message,)


def read_ranges(
    ranges: Sequence[LogRange], options: SourceOptions, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the ranges in order.

    If `DAMAGE_COLUMN` is among the columns, each damaged part that is skipped yields a row with the file, the
    position of the first damaged byte, and the reason.

    Raises:
        DamagedLogError: bytes are damaged, in failfast mode.
        DataLossError: a file was deleted, unless failOnDataLoss is false.
        OSError: a file cannot be read.
    """
    batches = (batch for log_range in ranges for batch in _read_range(log_range, options, columns))
    return coalesce(batches, target_bytes=_MIN_BATCH_BYTES)


def _read_range(
    log_range: LogRange, options: SourceOptions, columns: tuple[str, ...], attempts: int = 2
) -> Iterator[pa.RecordBatch]:
    reading: _RangeReading | None = None
    try:
        with open_listed(log_range.filesystem, log_range.path, log_range.identity) as file:
            reading = _RangeReading(file, log_range, options, columns)
            yield from reading.batches()
    except FileNotFoundError:  # an object in a store may also vanish between two reads
        if reading:
            log_range = log_range._replace(low=max(log_range.low, reading.next_offset))
        message = (
            f"{log_range.path} was deleted before it was read: offsets {log_range.low} to"
            f" {log_range.high - 1} of {log_range.topic}-{log_range.partition}"
        )
        if options.fail_on_data_loss:
            raise DataLossError(message) from None
        rows = 0
        with suppress(FileNotFoundError):
            for replaced in find_replaced(log_range) if attempts else ():
                for batch in _read_range(replaced, options, columns, attempts - 1):
                    rows += batch.num_rows
                    yield batch
        _logger.warning("%s; %d records are left", message, rows)


class _RangeReading:
    """Reads one range, a few megabytes at a time."""

    def __init__(self, file: OpenFile, log_range: LogRange, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._file = file
        self._log_range = log_range
        self._options = options
        self._columns = columns
        self._report = DecodeReport()
        self._watch = MarkerWatch(log_range.aborted)
        self._last_offset = -1
        self.next_offset = 0
        """The rows of all offsets before this one have been yielded."""
        self._is_corrected = False
        self._in_log: tuple[int, list[AbortedRange]] | None = None
        decoded = tuple(column for column in columns if column != DAMAGE_COLUMN) or ("offset",)
        self._request = log_range.request(options, decoded)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the range, as described in `read_ranges`."""
        try:
            yield from self._read_rows()
        except DamagedLogError as error:
            damage = error.damage
            raise DamagedLogError(error.file, damage._replace(message=damage.message + PERMISSIVE_HINT)) from None
        report = self._report
        if report.damaged_batches:
            first = report.damage[0]
            _logger.warning(
                "%s: %d damaged pieces, %d bytes, left out; the first at byte %d: %s",
                self._log_range.path,
                report.damaged_batches,
                report.damaged_bytes,
                first.position,
                first.message,
            )
            if DAMAGE_COLUMN in self._columns:
                yield self._damage_rows()

    def _read_rows(self) -> Iterator[pa.RecordBatch]:
        log_range, report = self._log_range, self._report
        position = log_range.position
        self._check_name()
        # Permissive mode reads the whole range in one chunk. An entry cut off at the end of a chunk would count
        # as damage if its bytes contain an apparent entry.
        size = self._file.read_size if self._options.mode == "failfast" else log_range.end_position - position
        while position < log_range.end_position:
            remaining = log_range.end_position - position
            data = memoryview(self._file.read_at(position, min(size, remaining)))
            if len(data) < min(size, remaining):
                self._refuse(position + len(data), remaining - len(data), "the file ends, and was longer a moment ago")
                remaining = len(data)
            consumed_before = report.consumed
            headers = scan_headers(data)
            self._check_order(headers, position)
            contradiction = self._describe_contradiction(data, headers)
            for batch in decode(data, replace(self._request, position=position), report):
                yield self._with_damage_column(batch)
            self.next_offset = self._last_offset + 1
            if contradiction:
                self._refuse(position, 0, contradiction)
            consumed = report.consumed - consumed_before
            position += consumed
            if not consumed and len(data) >= remaining:
                if remaining:
                    self._refuse(position, remaining, "the entry is cut short, but the log continues after it")
                return
            if not consumed:
                size *= 2

    def _check_name(self) -> None:
        """Check that the offset in the file's name is not greater than the offset of the file's first entry.

        Otherwise readers would skip the file's first records.
        """
        log_range = self._log_range
        base = offset_of(log_range.path.rpartition("/")[2])
        if log_range.position or base is None:
            return
        headers = scan_headers(self._file.read_at(0, min(log_range.end_position, _FIRST_ENTRY_BYTES)))
        if len(headers) and int(headers["last_offset"][0]) < base:
            self._refuse(0, 0, f"the file is named by offset {base}, but begins at {int(headers['base_offset'][0])}")

    def _check_order(self, headers: NDArray[Any], position: int) -> None:
        """Check that offsets ascend from entry to entry. Checksums do not cover offsets."""
        if not len(headers):
            return
        lasts = headers["last_offset"]
        previous_lasts = np.concatenate(([self._last_offset], lasts[:-1]))
        wrong = np.flatnonzero(np.minimum(headers["base_offset"], lasts) <= previous_lasts)
        self._last_offset = int(lasts[-1])
        if len(wrong):
            line = wrong[0]
            message = (
                f"offset {headers['base_offset'][line]} follows offset {previous_lasts[line]}; one of the two is wrong"
            )
            self._refuse(position + int(headers["position"][line]), 0, message)

    def _describe_contradiction(self, data: memoryview, headers: NDArray[Any]) -> str:
        """Describe how the transaction index contradicts these entries, or return an empty string.

        After a contradiction, the reader also skips the records of aborted transactions that only the log shows.
        """
        log_range = self._log_range
        if self._options.isolation != "read_committed" or self._is_corrected:
            return ""
        is_inside = (headers["last_offset"] >= log_range.first_offset) & (headers["base_offset"] < log_range.end_offset)
        headers = headers[is_inside]
        if not self._watch.is_doubtful(data, headers):
            return ""
        if self._in_log is None:
            self._in_log = read_aborted_from_log(log_range)
        start, in_log = self._in_log
        in_index = self._request.aborted
        low, high = int(headers["base_offset"].min()), int(headers["last_offset"].max()) + 1
        differing = find_contradictions(in_index, in_log, start=start, low=low, high=high)
        if not differing:
            return ""
        self._is_corrected = True
        self._request = replace(self._request, aborted=(*in_index, *in_log))
        producer, first, last = differing[0]
        index = log_range.path.removesuffix(LOG_SUFFIX) + TXN_INDEX_SUFFIX
        has = "has, other than the log," if differing[0] in in_index else "lacks"
        return f"{index} {has} an aborted transaction of producer {producer}, offsets {first} to {last}"

    def _refuse(self, position: int, size: int, message: str) -> None:
        damage = Damage(position, None, size, message)
        if self._options.mode == "failfast":
            raise DamagedLogError(self._log_range.path, damage)
        self._report.add_damage(damage)

    def _with_damage_column(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with all requested columns."""
        columns = self._columns
        if DAMAGE_COLUMN not in columns:
            return batch
        nothing = pa.nulls(batch.num_rows, pa.string())
        arrays = [nothing if column == DAMAGE_COLUMN else batch.column(column) for column in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=output_schema(columns))

    def _damage_rows(self) -> pa.RecordBatch:
        topic, partition, path = self._log_range.topic, self._log_range.partition, self._log_range.path
        texts = [
            f"{path}: byte {at}: {message} ({size} bytes left out)" for at, _, size, message in self._report.damage
        ]
        rows = [{"topic": topic, "partition": partition, DAMAGE_COLUMN: text} for text in texts]
        return pa.RecordBatch.from_pylist(rows, schema=output_schema(self._columns))


def output_schema(columns: tuple[str, ...], decoder: Any = None) -> pa.Schema:
    """Return the Arrow schema of these columns. `DECODED_COLUMN` has the type that the `schema_decoder.Decoder` says.

    Raises:
        ValueError: a column is unknown.
    """
    others = {DAMAGE_COLUMN: pa.string()}
    if decoder is not None:
        others |= {DECODED_COLUMN: decoder.type, UNDECODABLE_COLUMN: pa.string()}
    decoder_columns = [column for column in columns if column not in others]
    fields = {field.name: field for field in schema_of(decoder_columns)} if decoder_columns else {}
    return pa.schema([fields.get(column) or pa.field(column, others[column]) for column in columns])


_UNSEEN: Final = -1


class _Marker(NamedTuple):
    """The marker that ends a transaction.

    `start` is the first known offset of the transaction's records, or `_UNSEEN` if no record is known.
    """

    producer_id: int
    offset: int
    is_abort: bool
    start: int


class MarkerWatch:
    """Compares the transaction markers in a range of a log with the transaction index, chunk by chunk."""

    def __init__(self, aborted: Iterable[tuple[int, int, int]]) -> None:
        self._open: dict[int, int] = {}
        self._last_markers: dict[int, int] = {}
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        for producer, first, last in sorted(aborted):
            self._ranges.setdefault(producer, []).append((first, last))

    def is_doubtful(self, data: memoryview, headers: NDArray[Any]) -> bool:
        """Return whether a marker of these entries contradicts the index, or might contradict it.

        An abort marker without an index entry can be correct, because its transaction may have no record in this
        log.
        """
        doubtful = False
        for marker in self._find_markers(data, headers):
            span = self._find_span(marker)
            if span is None:
                doubtful |= marker.is_abort
            else:
                first, last = span
                doubtful |= not marker.is_abort or last != marker.offset or 0 <= marker.start < first
                doubtful |= first <= self._last_markers.get(marker.producer_id, -1)
            self._last_markers[marker.producer_id] = marker.offset
        return doubtful

    def _find_span(self, marker: _Marker) -> tuple[int, int] | None:
        ranges = self._ranges.get(marker.producer_id, [])
        slot = bisect_right(ranges, (marker.offset, marker.offset)) - 1
        return ranges[slot] if slot >= 0 and ranges[slot][1] >= marker.offset else None

    def _find_markers(self, data: memoryview, headers: NDArray[Any]) -> list[_Marker]:
        """Return the markers, sorted by producer and then by offset."""
        is_wanted = (headers["attributes"] & TRANSACTIONAL_FLAG != 0) & (headers["magic"] == MAGIC_V2)
        entries = headers[is_wanted]
        if not len(entries):
            return []
        entries = entries[np.lexsort((entries["base_offset"], entries["producer_id"]))]
        producers, offsets = entries["producer_id"], entries["base_offset"]
        is_marker = entries["attributes"] & CONTROL_FLAG != 0
        # A transaction begins at the first entry of each producer, and at its first entry after each marker.
        is_first = np.ones(len(entries), np.bool_)
        is_first[1:] = (producers[1:] != producers[:-1]) | is_marker[:-1]
        firsts = np.maximum.accumulate(np.where(is_first, np.arange(len(entries)), 0))
        lines = np.flatnonzero(is_marker)
        starts = np.where(is_first[lines], _UNSEEN, offsets[firsts[lines]])
        columns = (producers[lines], offsets[lines], entries["position"][lines], starts)
        markers = [
            _Marker(producer, offset, is_abort_marker(data, position), self._open.pop(producer, start))
            for producer, offset, position, start in zip(*(column.tolist() for column in columns), strict=True)
        ]
        is_last = np.append(producers[1:] != producers[:-1], [True])
        for line in np.flatnonzero(is_last & ~is_marker).tolist():
            self._open.setdefault(int(producers[line]), int(offsets[firsts[line]]))
        return markers


def find_contradictions(
    in_index: Iterable[tuple[int, int, int]], in_log: Iterable[tuple[int, int, int]], *, start: int, low: int, high: int
) -> list[tuple[int, int, int]]:
    """Return the aborted transactions that end in [low, high) and are in the index or the log, but not in both.

    They are in ascending order. `start` is the log start offset; the first offset of a transaction that began
    before the log start is unknown.
    """
    indexed, logged = set(in_index), set(in_log)
    older = {(producer, last) for producer, first, last in indexed if first < start}
    differing = [transaction for transaction in logged - indexed if (transaction[0], transaction[2]) not in older]
    differing += [transaction for transaction in indexed - logged if transaction[1] >= start]
    return sorted((transaction for transaction in differing if low <= transaction[2] < high), key=itemgetter(2))
