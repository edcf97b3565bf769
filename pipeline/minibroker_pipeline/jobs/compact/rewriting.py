"""The third round: segments as they are without what is not needed any more, or copied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode import AbortedRange, scan_headers
from minibroker_pipeline.decode.blocks import ENTRY, KIND, ROWS, V2
from minibroker_pipeline.decode.field_positions import RecordEngine
from minibroker_pipeline.jobs.compact.batches import rebuild_batches, rebuild_wrapper
from minibroker_pipeline.jobs.compact.key_files import Run, read_verdicts
from minibroker_pipeline.jobs.compact.keys import load_kernel
from minibroker_pipeline.jobs.compact.plan import Group, PlannedSegment
from minibroker_pipeline.jobs.compact.reading import control_lines, data_lines, pieces_of, slices_of, walk
from minibroker_pipeline.jobs.compact.settings import CompactSettings
from minibroker_pipeline.jobs.segment_walk import Entries, Walked, record_engine
from minibroker_pipeline.log_directories.segment_writer import LogFileSettings, PartitionWriter, WrittenSegment
from minibroker_protocol.records import BatchHeader, read_entry_header
from minibroker_protocol.records.header import DELETE_HORIZON_FLAG, MAGIC_V2
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.cleaner.batch_filter import BatchFilter, empty_batch
from minibroker_storage.cleaner.offset_map import OffsetMap
from minibroker_storage.cleaner.plan import ActiveProducer
from minibroker_storage.cleaner.transactions import CleanedTransactions

_DROP: Final = 0
_KEEP: Final = 1
_CHANGE: Final = 2


class RewriteTask(NamedTuple):
    """A group of the log number `log`. `verdicts` are the files of all buckets; `directory` is the new partition's."""

    log: int
    directory: str
    group: Group
    aborted: tuple[AbortedRange, ...]
    producers: tuple[ActiveProducer, ...]
    verdicts: tuple[str, ...]
    most_rows: int
    now_ms: int
    settings: CompactSettings


@dataclass(slots=True)
class Tally:
    """Counts of cleaned segments. Records are those with data."""

    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    #: Of those that went: records without a key, and of aborted transactions' batches all.
    without_key: int = 0
    aborted: int = 0
    tombstones_after: int = 0

    def add(self, other: "Tally") -> None:
        """Add the counts of another one."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Rewritten(NamedTuple):
    """The segment that a group has become."""

    log: int
    segment: WrittenSegment
    is_cleaned: bool
    tally: Tally


def rewrite(tasks: Sequence[RewriteTask]) -> list[Rewritten]:
    """The task: write some segments, all on disk on return. `DamagedLogError`, `LogChangedError`, `OSError`."""
    engine = record_engine()
    return [_rewrite_group(task, engine) for task in tasks]


def _rewrite_group(task: RewriteTask, engine: RecordEngine) -> Rewritten:
    group, settings = task.group, task.settings
    tally = Tally()
    files = LogFileSettings(
        segment_bytes=INT32_MAX,  # the group is one segment, whatever comes of it
        segment_index_bytes=INT32_MAX,
        index_interval_bytes=settings.index_interval_bytes,
    )
    with PartitionWriter(task.directory, files, base_offset=group.base_offset, track_transactions=False) as writer:
        for planned in group.segments:
            cleaning = _Cleaning(task, planned, tally, engine) if group.is_cleaned else None
            for piece in pieces_of(planned.source, engine):
                if cleaning is None:
                    _append(writer, piece.data, piece.headers)
                else:
                    cleaning.clean(piece, writer)
        writer.note_aborted(group.aborted)
        writer.modified_ns = group.segments[-1].source.modified_ns if group.segments else None
        (segment,) = writer.close()
    if group.is_cleaned:
        tally.bytes_before = sum(planned.source.size for planned in group.segments)
        tally.bytes_after = segment.size
    return Rewritten(task.log, segment, group.is_cleaned, tally)


def _append(writer: PartitionWriter, data: memoryview | bytes, headers: NDArray[Any]) -> None:
    anonymous = headers.copy()
    anonymous["producer_id"] = -1  # what is known of producers was found out before; the writer need not
    writer.append(data, anonymous)


class _KnownTransactions(CleanedTransactions):
    """The facts about markers that the plan has found."""

    def __init__(self, needless: frozenset[int]) -> None:
        super().__init__(())
        self._needless = needless

    def on_control_batch(self, header: BatchHeader, batch: bytes) -> bool:  # noqa: ARG002 - the plan has looked into it
        return header.last_offset in self._needless


class _Staying:
    """The offsets of the records that stay, of the runs that are being passed."""

    def __init__(self, runs: Sequence[Run], first_run: int, verdicts: Sequence[str]) -> None:
        self._ends = np.array([run.last_offset for run in runs], np.int64)
        self._first_run = first_run
        self._verdicts = verdicts
        self._read: dict[int, NDArray[np.int64]] = {}

    def among(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these stay."""
        if not len(offsets):
            return np.zeros(0, np.bool_)
        first, last = np.searchsorted(self._ends, (np.min(offsets), np.max(offsets))).tolist()
        numbers = range(first, min(last + 1, len(self._ends)))
        self._read = {
            number: self._read[number]
            if number in self._read
            else read_verdicts(self._verdicts, self._first_run + number)
            for number in numbers
        }
        staying = np.concatenate([np.empty(0, np.int64), *self._read.values()])
        if not len(staying):
            return np.zeros(len(offsets), np.bool_)
        places = np.minimum(np.searchsorted(staying, offsets), len(staying) - 1)
        found: NDArray[np.bool_] = staying[places] == offsets
        return found


class _Cleaning:
    """One segment being cleaned. What stays, and when batches change, is `BatchFilter`'s rule, for many at once."""

    def __init__(self, task: RewriteTask, planned: PlannedSegment, tally: Tally, engine: RecordEngine) -> None:
        self._task = task
        self._planned = planned
        self._tally = tally
        self._engine = engine
        self._kernel = load_kernel()
        self._staying = _Staying(planned.runs, planned.first_run, task.verdicts)
        self._new_horizon = task.now_ms + task.settings.delete_retention_ms
        self._producers: Mapping[int, int] = {one.producer_id: one.last_data_offset for one in task.producers}
        self._last_offsets = np.array(sorted(self._producers.values()), np.int64)
        self._markers = BatchFilter(
            OffsetMap(1),
            _KnownTransactions(planned.needless),
            task.producers,
            now_ms=task.now_ms,
            delete_retention_ms=task.settings.delete_retention_ms,
        )
        self._fate = np.empty(0, np.uint8)
        self._changed: dict[int, bytes | bytearray | memoryview] = {}

    def clean(self, piece: Entries, writer: PartitionWriter) -> None:
        """Write what stays of these entries."""
        headers = piece.headers
        self._fate = np.zeros(len(headers), np.uint8)
        self._changed = {}
        lines = data_lines(headers, self._task.aborted)
        self._count_aborted(headers, lines)
        for some in slices_of(headers, lines, self._task.most_rows // 2):
            for walked in walk(self._planned.source, piece, some, self._engine):
                self._judge(piece, walked)
        for line in control_lines(headers).tolist():
            self._judge_marker(piece, line)
        self._keep_last_of_producers(piece)
        self._write(piece, writer)

    def _count_aborted(self, headers: NDArray[Any], lines: NDArray[np.int64]) -> None:
        gone = np.ones(len(headers), np.bool_)
        gone[lines] = False
        gone[control_lines(headers)] = False
        count = int(headers["record_count"][gone].sum())
        self._tally.aborted += count
        self._tally.records_before += count

    def _judge(self, piece: Entries, walked: Walked) -> None:
        """Decide for the entries whose records these are."""
        table, blocks = walked
        rows, headers = table.rows, piece.headers
        entries = blocks[:, ENTRY]
        counts = blocks[:, ROWS]
        is_v2 = blocks[:, KIND] == V2
        has_horizon = is_v2 & (headers["attributes"][entries] & DELETE_HORIZON_FLAG != 0)
        retain = np.where(
            is_v2,
            ~has_horizon | (headers["base_timestamp"][entries] > self._task.now_ms),
            self._planned.retain_legacy_deletes,
        )
        block_of = np.repeat(np.arange(len(blocks)), counts)
        has_key = table.key_size[:rows] >= 0
        is_tombstone = table.value_size[:rows] < 0
        keep = has_key & (~is_tombstone | retain[block_of]) & self._staying.among(table.offsets[:rows])
        kept = np.bincount(block_of[keep], minlength=len(blocks))
        with_tombstone = np.bincount(block_of[keep & is_tombstone], minlength=len(blocks)) > 0
        gets_horizon = is_v2 & with_tombstone & ~has_horizon
        stays = (kept > 0) & (kept == counts) & ~gets_horizon
        self._fate[entries[stays]] = _KEEP
        self._tally.records_before += rows
        self._tally.records_after += int(kept.sum())
        self._tally.without_key += int(rows - np.count_nonzero(has_key))
        self._tally.tombstones_after += int(np.count_nonzero(keep & is_tombstone))
        changes = np.flatnonzero((kept > 0) & ~stays)
        if not len(changes):
            return
        self._fate[entries[changes]] = _CHANGE
        old = headers["base_timestamp"][entries]
        horizons = np.where(gets_horizon, self._new_horizon, old)
        v2 = changes[is_v2[changes]]
        self._changed.update(
            rebuild_batches(piece, walked, v2, keep, (gets_horizon | has_horizon, horizons), self._kernel)
        )
        first_rows = np.cumsum(counts) - counts
        for block in changes[~is_v2[changes]].tolist():
            first = int(first_rows[block])
            numbers = np.flatnonzero(keep[first : first + int(counts[block])]).tolist()
            self._changed[int(entries[block])] = rebuild_wrapper(piece, int(entries[block]), numbers)

    def _judge_marker(self, piece: Entries, line: int) -> None:
        entry = _bytes_of(piece, line)
        kept = self._markers.filter(entry, read_entry_header(entry))
        if kept is None:
            return
        self._fate[line] = _KEEP if kept.data is entry else _CHANGE
        if kept.data is not entry:
            self._changed[line] = kept.data

    def _keep_last_of_producers(self, piece: Entries) -> None:
        """Of data that all went, the header of each active producer's last batch stays."""
        headers = piece.headers
        gone = (self._fate == _DROP) & (headers["producer_id"] >= 0) & (headers["magic"] == MAGIC_V2)
        gone[control_lines(headers)] = False
        gone &= np.isin(headers["last_offset"], self._last_offsets)
        for line in np.flatnonzero(gone).tolist():
            header = headers[line]
            if self._producers.get(int(header["producer_id"]), -1) != int(header["last_offset"]):
                continue
            self._fate[line] = _KEEP
            if header["record_count"]:
                self._fate[line] = _CHANGE
                self._changed[line] = empty_batch(read_entry_header(_bytes_of(piece, line)))

    def _write(self, piece: Entries, writer: PartitionWriter) -> None:
        headers, fate = piece.headers, self._fate
        if (fate == _KEEP).all():
            _append(writer, piece.data, headers)
            return
        if not self._changed:
            stays = fate == _KEEP
            if stays.any():
                _append(writer, piece.data, headers[stays])
            return
        parts: list[bytes | bytearray | memoryview] = []
        for first, end in _stretches(fate):
            if fate[first] == _CHANGE:
                parts += (self._changed[line] for line in range(first, end))
            elif fate[first] == _KEEP:
                start = int(headers["position"][first])
                parts.append(piece.data[start : int(headers["position"][end - 1] + headers["size"][end - 1])])
        data = b"".join(parts)
        _append(writer, data, scan_headers(data))


def _stretches(fate: NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Neighboring lines of one fate: first line and the one behind the last."""
    bounds = [0, *(np.flatnonzero(fate[1:] != fate[:-1]) + 1).tolist(), len(fate)]
    return list(pairwise(bounds))


def _bytes_of(piece: Entries, line: int) -> bytes:
    header = piece.headers[line]
    position = int(header["position"])
    return bytes(piece.data[position : position + int(header["size"])])
