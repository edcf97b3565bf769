"""The first round: what each segment holds, as far as others have to know it. Keys go into files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode import AbortedRange
from minibroker_pipeline.decode.field_positions import RecordEngine
from minibroker_pipeline.jobs.compact.key_files import BYTES_PER_ROW, Rows, Run, write_run
from minibroker_pipeline.jobs.compact.keys import Hashes, Secret, hash_keys, load_kernel, mark_newest
from minibroker_pipeline.jobs.compact.reading import SegmentSource, data_lines, pieces_of, slices_of, walk
from minibroker_pipeline.jobs.segment_walk import Entries, record_engine
from minibroker_protocol.records import NO_TIMESTAMP, RECORD_BATCH_OVERHEAD
from minibroker_protocol.records.header import CONTROL_FLAG, MAGIC_V2

_LEAST_ROWS: Final = 64


class KeyPlan(NamedTuple):
    """The rule by which a segment's keys are noted. Records from `first_dirty` on take the place of older ones.

    `stem` is what the names of the runs begin with.
    """

    stem: str
    secret: Secret
    first_dirty: int
    buckets: int
    memory_bytes: int

    @property
    def most_rows(self) -> int:
        """The most records of a run."""
        return max(self.memory_bytes // BYTES_PER_ROW, _LEAST_ROWS)


class ScanTask(NamedTuple):
    """A segment of the log number `log`. Without `keys` only what its headers say is wanted."""

    log: int
    source: SegmentSource
    aborted: tuple[AbortedRange, ...]
    keys: KeyPlan | None


@dataclass(slots=True)
class SegmentFacts:
    """The facts about a segment.

    `events` are the heads of batches of producers (whole batches where they are markers), in their order: of each
    producer the first and the last batch between two of its markers. Of more the others need not know.
    """

    log: int
    base_offset: int
    end_offset: int
    max_timestamp: int = NO_TIMESTAMP
    events: list[bytes] = field(default_factory=list[bytes])
    #: First offset of each leader epoch that is higher than those before it.
    epochs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    runs: list[Run] = field(default_factory=list[Run])


def scan(tasks: Sequence[ScanTask]) -> list[SegmentFacts]:
    """The task: look through some segments. `DamagedLogError`, `LogChangedError`, `OSError`."""
    engine = record_engine()
    return [_scan_segment(task, engine) for task in tasks]


def _scan_segment(task: ScanTask, engine: RecordEngine) -> SegmentFacts:
    base_offset = task.source.base_offset
    facts = SegmentFacts(task.log, base_offset, base_offset)
    keys = None if task.keys is None else _KeyWriter(task.keys, task.source, engine)
    for piece in pieces_of(task.source, engine):
        headers = piece.headers
        lines = data_lines(headers, task.aborted)
        facts.end_offset = max(facts.end_offset, int(headers["last_offset"].max()) + 1)
        facts.max_timestamp = max(facts.max_timestamp, int(headers["max_timestamp"].max()))
        facts.events += events_of(piece, lines)
        _note_epochs(headers, facts.epochs)
        if keys is not None:
            keys.note(piece, lines)
    if keys is not None:
        keys.flush(facts.end_offset - 1)
        facts.runs = keys.runs
    return facts


def events_of(piece: Entries, data: NDArray[np.int64]) -> Iterator[bytes]:
    """See `SegmentFacts.events`; `data` are the lines of entries that are neither markers nor aborted."""
    headers = piece.headers
    lines = np.flatnonzero((headers["producer_id"] >= 0) & (headers["magic"] == MAGIC_V2))
    if not len(lines):
        return
    is_data = np.zeros(len(headers), np.bool_)
    is_data[data] = True
    kinds = np.where(headers["attributes"] & CONTROL_FLAG != 0, 2, is_data)[lines]
    producers = headers["producer_id"][lines]
    order = np.argsort(producers, kind="stable")
    kinds, producers = kinds[order], producers[order]
    begins = np.r_[True, (producers[1:] != producers[:-1]) | (kinds[1:] != kinds[:-1]) | (kinds[1:] == 2)]  # noqa: PLR2004 - a marker
    ends = np.r_[begins[1:], True]
    changes = lines[np.sort(order[np.logical_or(begins, ends)])]
    some = headers[changes]
    is_marker = some["attributes"] & CONTROL_FLAG != 0
    sizes = np.where(is_marker, some["size"], RECORD_BATCH_OVERHEAD)
    for position, size in zip(some["position"].tolist(), sizes.tolist(), strict=True):
        yield bytes(piece.data[position : position + size])


def _note_epochs(headers: NDArray[Any], epochs: list[tuple[int, int]]) -> None:
    latest = epochs[-1][0] if epochs else -1
    rising = np.maximum.accumulate(headers["leader_epoch"])
    for line in np.flatnonzero(np.diff(rising, prepend=latest) > 0).tolist():
        if rising[line] > latest:
            latest = int(rising[line])
            epochs.append((latest, int(headers["base_offset"][line])))


class _KeyWriter:
    """Gathers keys until a run is full."""

    def __init__(self, plan: KeyPlan, source: SegmentSource, engine: RecordEngine) -> None:
        self._plan = plan
        self._source = source
        self._engine = engine
        self._kernel = load_kernel()
        self._waiting: list[Rows] = []
        self._count = 0
        self.runs: list[Run] = []

    def note(self, piece: Entries, lines: NDArray[np.int64]) -> None:
        """The keys of these entries."""
        half = self._plan.most_rows // 2
        for some in slices_of(piece.headers, lines, half):
            for walked in walk(self._source, piece, some, self._engine):
                table = walked.table
                hashes = hash_keys(table, self._plan.secret, self._kernel)
                kept = table.key_size[: table.rows] >= 0
                offsets = table.offsets[: table.rows][kept]
                self._waiting.append(Rows(Hashes(hashes.high[kept], hashes.low[kept]), offsets))
                self._count += len(offsets)
            if self._count >= half:
                self.flush(int(piece.headers["last_offset"][some[-1]]))

    def flush(self, last_offset: int) -> None:
        """Write the keys collected up to this offset, without those that are replaced within the run."""
        if not self._waiting:
            return
        high, low = (np.concatenate([rows.hashes[half] for rows in self._waiting]) for half in (0, 1))
        offsets = np.concatenate([rows.offsets for rows in self._waiting])
        self._waiting, self._count = [], 0
        newest = mark_newest(Hashes(high, low), offsets, self._plan.first_dirty, self._kernel)
        rows = Rows(Hashes(high[newest], low[newest]), offsets[newest])
        path = f"{self._plan.stem}{self._source.base_offset:020d}-{len(self.runs)}.keys"
        self.runs.append(write_run(path, rows, self._plan.buckets, last_offset))
