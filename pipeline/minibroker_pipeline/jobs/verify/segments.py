"""One segment with its indexes: what a task of `verify` does."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker_pipeline.decode import load_engine
from minibroker_pipeline.decode.blocks import RecordEngine
from minibroker_pipeline.filesystem import FileSystem, read_if_there
from minibroker_pipeline.jobs.segment_walk import NoEntries, Piece, cut, read_entries
from minibroker_pipeline.jobs.verify.findings import REBUILD, Finding, Findings, What
from minibroker_pipeline.jobs.verify.indexes import check_offset_index, check_reach, check_time_index
from minibroker_pipeline.jobs.verify.log_scan import EpochChange, LogScan, OffsetGap, TransactionEvent
from minibroker_pipeline.log_directories.index_files import TXN_ENTRY_BYTES
from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.layout import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from minibroker_storage.transaction_index import AbortedTxn, decode_all


class SegmentTask(NamedTuple):
    """A segment to look at. `stem` is the path of its files without their suffixes, `address` the same for messages."""

    filesystem: FileSystem
    stem: str
    address: str
    base_offset: int
    #: Of the log file when the directory was listed.
    size: int
    next_base: int | None
    indexes: frozenset[str]
    #: Whether a broker may be writing it, or was when it died.
    is_open: bool
    #: Whether the offset index has an entry for each so many bytes: compaction makes sparser ones.
    is_dense: bool
    #: `index.interval.bytes`, None if unknown.
    interval: int | None


class SegmentFacts(NamedTuple):
    """The facts that the other segments and the small files have to agree with, and the findings within the segment."""

    task: SegmentTask
    findings: list[Finding]
    size: int
    batches: int
    records: int
    #: Behind the last record, and whether damage or a torn entry follows.
    end_offset: int
    ends_in_damage: bool
    is_torn: bool
    gaps: list[OffsetGap]
    epochs: list[EpochChange]
    transactions: list[TransactionEvent]
    aborted: list[AbortedTxn]
    #: Whether the transaction index could be read.
    has_transaction_index: bool


class PieceTask(NamedTuple):
    """A piece of a segment that is shared out: its number, and which bytes."""

    of: SegmentTask
    number: int
    piece: Piece


class PieceScan(NamedTuple):
    """The facts about a piece. None if anything at all was found: then the segment has to be looked at as a whole."""

    task: PieceTask
    scan: LogScan | None


Task = SegmentTask | PieceTask


def share(task: SegmentTask) -> list[Task]:
    """The segment, or its pieces. One that is being written has none: its indexes have to be read before its end."""
    pieces = [] if task.is_open else cut(task.filesystem, task.stem, task.base_offset, task.size)
    return [PieceTask(task, *numbered) for numbered in enumerate(pieces)] if len(pieces) > 1 else [task]


def check_task(task: Task) -> SegmentFacts | PieceScan | None:
    """Check a segment or scan a piece of one. A segment whose log has gone meanwhile has no facts. `OSError`."""
    engine = load_engine()
    return PieceScan(task, _scan_piece(task, engine)) if isinstance(task, PieceTask) else _check_segment(task, engine)


def put_together(pieces: Sequence[PieceScan]) -> SegmentFacts | None:
    """The result of `check_task` for the segment of all these pieces; None where it has to be asked.

    `OSError`.
    """
    task = pieces[0].task.of
    whole = _scan_of(task, load_engine())
    for piece in sorted(pieces, key=lambda piece: piece.task.number):
        if piece.scan is None:
            return None
        whole.join(piece.scan)
    return _check_segment(task, whole.engine, whole)


def _scan_of(task: SegmentTask, engine: RecordEngine) -> LogScan:
    return LogScan(Findings(task.address + LOG_SUFFIX), engine, task.base_offset, task.next_base, task.is_open)


def _scan_piece(task: PieceTask, engine: RecordEngine) -> LogScan | None:
    segment, (position, end) = task.of, task.piece
    scan = _scan_of(segment, engine)
    try:
        with segment.filesystem.open(segment.stem + LOG_SUFFIX) as file:
            for piece in read_entries(file, end, engine, position):
                if isinstance(piece, NoEntries):
                    return None
                scan.add(piece)
                position = piece.position + len(piece.data)
    except FileNotFoundError:
        return None
    return scan if position == end and not any(scan.findings) else None


def _check_segment(task: SegmentTask, engine: RecordEngine, scanned: LogScan | None = None) -> SegmentFacts | None:
    filesystem, stem = task.filesystem, task.stem
    scan = scanned or _scan_of(task, engine)
    # A broker writes to the log, then to the indexes. Read in this order, each entry of an index finds its batch.
    indexes = {suffix: read_if_there(filesystem, stem + suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)}
    size = _size_now(filesystem, stem, task.size) if task.is_open else task.size
    if scanned is None:
        try:
            with filesystem.open(stem + LOG_SUFFIX) as file:
                for piece in read_entries(file, size, engine):
                    scan.add(piece)
        except FileNotFoundError:
            return None  # deleted meanwhile
    scan.finish()
    found = [*scan.findings]
    is_last = task.next_base is None
    for suffix, data in indexes.items():
        findings = Findings(task.address + suffix)
        if data is None:
            if size:
                index = "offset index" if suffix == INDEX_SUFFIX else "time index"
                findings.add(What.MISSING, None, f"the segment has no {index}", _MADE_ANEW)
        elif suffix == INDEX_SUFFIX:
            check_offset_index(data, scan.entries, task.base_offset, findings, has_room=is_last)
            if task.is_dense:
                check_reach(data, scan.entries, task.interval, findings)
        else:
            is_open = task.is_open
            check_time_index(data, scan.entries, task.base_offset, findings, has_room=is_last, is_open=is_open)
        found += findings
    aborted, has_index = _aborted(filesystem, stem, task, found)
    return SegmentFacts(
        task,
        found,
        size,
        len(scan.entries),
        scan.records,
        scan.end_offset,
        scan.ends_in_damage,
        scan.is_torn,
        scan.gaps(),
        scan.epochs,
        scan.transactions,
        aborted,
        has_index,
    )


_MADE_ANEW: Final = "nothing: a broker makes it again when it opens the log"


def _aborted(
    filesystem: FileSystem, stem: str, task: SegmentTask, found: list[Finding]
) -> tuple[list[AbortedTxn], bool]:
    data = read_if_there(filesystem, stem + TXN_INDEX_SUFFIX) or b""
    findings = Findings(task.address + TXN_INDEX_SUFFIX)
    left = len(data) % TXN_ENTRY_BYTES
    if left and not task.is_open:
        message = f"{left} of an entry's {TXN_ENTRY_BYTES} bytes at the end"
        findings.add(What.TRANSACTION_INDEX, len(data) - left, message, REBUILD)
    try:
        entries = decode_all(data[: len(data) - left])
    except CorruptIndexError as error:
        findings.add(What.TRANSACTION_INDEX, None, str(error), REBUILD)
        found += findings
        return [], False
    found += findings
    return entries, True


def _size_now(filesystem: FileSystem, stem: str, size: int) -> int:
    directory, _, name = stem.rpartition("/")
    try:
        entries = filesystem.entries(directory, (LOG_SUFFIX,))
    except FileNotFoundError:
        return size
    return next((entry.size for entry in entries if entry.name == name + LOG_SUFFIX), size)
