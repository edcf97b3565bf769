"""Checks a segment and its index files. These are the tasks of `verify`."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode import load_engine
from minibroker_pipeline.filesystem import FileSystem, read_if_there
from minibroker_pipeline.jobs.segment_walk import read_entries
from minibroker_pipeline.jobs.verify.findings import REBUILD, Finding, Findings, Kind
from minibroker_pipeline.jobs.verify.log_scan import EpochChange, LogScan, OffsetGap, TransactionEvent
from minibroker_pipeline.log_directories.partition_logs import OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY_BYTES, read_index
from minibroker_protocol.records.header import MAGIC_V2
from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.layout import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from minibroker_storage.transaction_index import AbortedTxn, decode_all


class SegmentTask(NamedTuple):
    """A segment to check.

    `stem` is the path of its files without suffixes, and `address` is the same path for messages.
    """

    filesystem: FileSystem
    stem: str
    address: str
    base_offset: int
    #: The size of the log file when the directory was listed.
    size: int
    next_base: int | None
    indexes: frozenset[str]
    #: Whether a broker may be writing the segment, or was writing it when it died.
    is_open: bool
    #: Whether the offset index should have an entry per index interval. Compaction makes sparser indexes.
    is_dense: bool
    #: `index.interval.bytes`, or None if unknown.
    interval: int | None


class SegmentFacts(NamedTuple):
    """The findings within a segment, and the facts with which the other segments and the small files must agree."""

    task: SegmentTask
    findings: list[Finding]
    size: int
    batches: int
    records: int
    #: `end_offset` is the offset after the last record. `ends_in_damage` is set if damage or an incomplete entry
    #: follows.
    end_offset: int
    ends_in_damage: bool
    gaps: list[OffsetGap]
    epochs: list[EpochChange]
    transactions: list[TransactionEvent]
    #: The entries of the transaction index, or None if the index cannot be read.
    aborted: list[AbortedTxn] | None


def check_segment(task: SegmentTask) -> SegmentFacts | None:
    """Check a segment with its indexes. The result is None if the log file was deleted.

    Raises:
        OSError: a file cannot be read.
    """
    engine, filesystem, stem = load_engine(), task.filesystem, task.stem
    scan = LogScan(Findings(task.address + LOG_SUFFIX), engine, task.base_offset, task.next_base, task.is_open)
    # A broker writes the log before the indexes. Reading in the reverse order finds the batch of every index entry.
    is_last = task.next_base is None
    indexes = {
        suffix: read_index(filesystem, stem + suffix, task.size)
        if is_last
        else read_if_there(filesystem, stem + suffix)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    }
    size = _current_size(filesystem, stem, task.size) if task.is_open else task.size
    try:
        with filesystem.open(stem + LOG_SUFFIX) as file:
            for piece in read_entries(file, size, engine):
                scan.add(piece)
    except FileNotFoundError:
        return None  # The log file was deleted during the check.
    scan.finish()
    all_findings = [*scan.findings]
    for suffix, data in indexes.items():
        findings = Findings(task.address + suffix)
        if data is None:
            if size:
                index = Kind.OFFSET_INDEX if suffix == INDEX_SUFFIX else Kind.TIME_INDEX
                findings.add(Kind.MISSING, None, f"the segment has no {index}", _REBUILT_BY_BROKER)
        elif suffix == INDEX_SUFFIX:
            check_offset_index(data, scan.entries, task.base_offset, findings, has_room=is_last)
            if task.is_dense:
                check_reach(data, scan.entries, task.interval, findings)
        else:
            check_time_index(data, scan.entries, task.base_offset, findings, has_room=is_last, is_open=task.is_open)
        all_findings += findings
    index_findings = Findings(task.address + TXN_INDEX_SUFFIX)
    aborted = _read_aborted(task, index_findings)
    all_findings += index_findings
    return SegmentFacts(
        task,
        all_findings,
        size,
        len(scan.entries),
        scan.records,
        scan.end_offset,
        scan.ends_in_damage,
        scan.find_gaps(),
        scan.epochs,
        scan.transactions,
        aborted,
    )


_REBUILT_BY_BROKER: Final = "nothing: a broker makes it again when it opens the log"


def _read_aborted(task: SegmentTask, findings: Findings) -> list[AbortedTxn] | None:
    """Return the entries of the transaction index, or None if the index cannot be read."""
    data = read_if_there(task.filesystem, task.stem + TXN_INDEX_SUFFIX) or b""
    extra_bytes = len(data) % TXN_ENTRY_BYTES
    if extra_bytes and not task.is_open:
        message = f"{extra_bytes} of an entry's {TXN_ENTRY_BYTES} bytes at the end"
        findings.add(Kind.TRANSACTION_INDEX, len(data) - extra_bytes, message, REBUILD)
    try:
        return decode_all(data[: len(data) - extra_bytes])
    except CorruptIndexError as error:
        findings.add(Kind.TRANSACTION_INDEX, None, str(error), REBUILD)
        return None


def _current_size(filesystem: FileSystem, stem: str, size: int) -> int:
    directory, _, name = stem.rpartition("/")
    try:
        entries = filesystem.entries(directory, (LOG_SUFFIX,))
    except FileNotFoundError:
        return size
    return next((entry.size for entry in entries if entry.name == name + LOG_SUFFIX), size)


INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's default for `index.interval.bytes`."""
_REPLICA_FETCH_BYTES: Final = 1024 * 1024
"""Kafka's default for `replica.fetch.max.bytes`."""


def check_offset_index(data: bytes, log: NDArray[Any], base_offset: int, findings: Findings, *, has_room: bool) -> None:
    """Check that each index entry has the last offset of a batch and the position where that batch begins.

    In the index of a replica, the offset may belong to a later batch, because a replica copies several batches
    together.

    Args:
        data: the contents of the index file.
        log: the entries of a `LogScan`.
        base_offset: the base offset of the segment.
        findings: receives the faults.
        has_room: whether zeros may follow the entries, as in the newest segment of a broker.
    """
    entries = _read_entries(data, OFFSET_ENTRY, findings, Kind.OFFSET_INDEX, has_room=has_room)
    offsets = entries["offset"].astype(np.int64) + base_offset
    positions = entries["position"].astype(np.int64)
    _check_rising(offsets, positions, OFFSET_ENTRY.itemsize, findings)
    lines = np.searchsorted(log["position"], positions)
    is_entry = np.isin(positions, log["position"])
    for slot in np.flatnonzero(~is_entry).tolist():
        message = f"offset {offsets[slot]} points to byte {positions[slot]}, where no entry of the log begins"
        findings.add(Kind.OFFSET_INDEX, slot * OFFSET_ENTRY.itemsize, message, REBUILD)
    later = 0
    next_positions = np.append(positions[1:], np.iinfo(np.int64).max)
    for slot in np.flatnonzero(is_entry).tolist():
        line = int(lines[slot])
        if log["is_bad"][line] or log["last"][line] == offsets[slot]:
            continue
        next_line = int(np.searchsorted(log["position"], next_positions[slot]))
        if offsets[slot] in log["last"][line:next_line]:
            later += 1
            continue
        message = f"offset {offsets[slot]} points to byte {positions[slot]}, whose batch ends at {log['last'][line]}"
        findings.add(Kind.OFFSET_INDEX, slot * OFFSET_ENTRY.itemsize, message, REBUILD)
    if later and not (log["magic"] < MAGIC_V2).any():
        message = f"{later} entries name the end of a later batch, as in the log of a replica; look-ups find the same"
        findings.add(Kind.OFFSET_INDEX, None, message, "nothing", is_damage=False)


def _check_rising(offsets: NDArray[np.int64], positions: NDArray[np.int64], size: int, findings: Findings) -> None:
    falls = (offsets[1:] <= offsets[:-1]) | (positions[1:] <= positions[:-1])
    for slot in (np.flatnonzero(falls) + 1).tolist():
        message = f"offset {offsets[slot]} at byte {positions[slot]} does not follow the entry before it"
        findings.add(Kind.OFFSET_INDEX, slot * size, message, REBUILD)


def check_reach(data: bytes, log: NDArray[Any], interval: int | None, findings: Findings) -> None:
    """Check that no entries are missing at the end of an offset index.

    An append of several batches gets a single index entry. This applies to message sets in old formats, and to the
    batches that a replica copies together, which have at most `replica.fetch.max.bytes`. A short index is therefore
    not always damaged, and only makes look-ups slower. Compacted segments have sparser indexes: the
    larger the cleaner's buffer was, the sparser.

    Args:
        data: the contents of the index file.
        log: the entries of a `LogScan`.
        interval: `index.interval.bytes`, or None if unknown.
        findings: receives the faults.
    """
    if not len(log) or (log["magic"] < MAGIC_V2).any():
        return
    positions = _trim_zero_entries(data, OFFSET_ENTRY)["position"]
    last = int(positions[-1]) if len(positions) else 0
    usual = interval or max(INDEX_INTERVAL_BYTES, 2 * last // len(positions) if len(positions) else 0)
    unindexed = int(log["position"][-1]) - last
    if unindexed > usual:
        message = f"the last entry points to byte {last}, and {unindexed:,} bytes of batches follow without any"
        position = len(positions) * OFFSET_ENTRY.itemsize
        is_damage = unindexed > usual + _REPLICA_FETCH_BYTES
        findings.add(Kind.OFFSET_INDEX, position, message, REBUILD, is_damage=is_damage)


def check_time_index(
    data: bytes, log: NDArray[Any], base_offset: int, findings: Findings, *, has_room: bool, is_open: bool
) -> None:
    """Check that each index entry has the largest timestamp up to its offset.

    The offset of an entry must be in the batch that has the timestamp. Unless the log is being written, the last
    entry must have the largest timestamp of the segment.
    """
    entries = _read_entries(data, TIME_ENTRY, findings, Kind.TIME_INDEX, has_room=has_room)
    timestamps = entries["timestamp"].astype(np.int64)
    offsets = entries["offset"].astype(np.int64) + base_offset
    size = TIME_ENTRY.itemsize
    for slot in (np.flatnonzero((timestamps[1:] <= timestamps[:-1]) | (offsets[1:] < offsets[:-1])) + 1).tolist():
        message = f"time {timestamps[slot]} at offset {offsets[slot]} does not follow the entry before it"
        findings.add(Kind.TIME_INDEX, slot * size, message, REBUILD)
    if not len(log):
        if len(entries):
            findings.add(Kind.TIME_INDEX, 0, f"offset {offsets[0]} is in no batch", REBUILD)
        return
    largest = np.maximum.accumulate(np.where(log["is_bad"], -1, log["max_timestamp"]))
    lines = np.minimum(np.searchsorted(np.maximum.accumulate(log["last"]), offsets), len(log) - 1)
    for slot, line in enumerate(lines.tolist()):
        entry = log[line]
        if entry["is_bad"]:
            continue
        if not entry["first"] <= offsets[slot] <= entry["last"]:
            message = f"offset {offsets[slot]} is in no batch"
        elif entry["max_timestamp"] != timestamps[slot]:
            message = f"time {timestamps[slot]} at offset {offsets[slot]}, whose batch has {entry['max_timestamp']}"
        elif largest[line] > timestamps[slot]:
            message = f"time {timestamps[slot]} at offset {offsets[slot]}, but {largest[line]} comes before it"
        else:
            continue
        findings.add(Kind.TIME_INDEX, slot * size, message, REBUILD)
    end = int(timestamps[-1]) if len(timestamps) else -1
    if not is_open and not log["is_bad"].any() and largest[-1] > max(end, 0):
        message = f"the last entry has time {end}, but {largest[-1]} is in the log"
        findings.add(Kind.TIME_INDEX, len(entries) * size, message, REBUILD)


def _read_entries(
    data: bytes, layout: np.dtype[Any], findings: Findings, kind: Kind, *, has_room: bool
) -> NDArray[Any]:
    """Return the index entries before the zeros at the end of the file.

    Report faults in the bytes after the entries.
    """
    size = layout.itemsize
    if extra_bytes := len(data) % size:
        message = f"{extra_bytes} of an entry's {size} bytes at the end"
        findings.add(kind, len(data) - extra_bytes, message, REBUILD)
    entries, slots = _trim_zero_entries(data, layout), len(data) // size
    empty = slots - len(entries)
    if empty and not has_room and not (kind is Kind.TIME_INDEX and slots == 1):
        message = f"{empty} empty entries at the end, though nothing is written here any more"
        findings.add(kind, len(entries) * size, message, REBUILD)
    return entries


def _trim_zero_entries(data: bytes, layout: np.dtype[Any]) -> NDArray[Any]:
    """Return the entries before the zeros at the end."""
    entries = np.frombuffer(data, layout, count=len(data) // layout.itemsize)
    used = np.flatnonzero(entries != np.zeros((), layout))
    return entries[: int(used[-1]) + 1 if len(used) else 0]
