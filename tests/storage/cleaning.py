"""Helpers for the cleaner's tests: segments as files, plans for them, markers, and the contents of the files."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import BatchHeader, read_entry_header
from minibroker_protocol.records.record import NewRecord, Record
from minibroker_storage.cleaner import CleaningPlan, CleaningResult
from minibroker_storage.cleaner.plan import SegmentToClean
from minibroker_storage.layout import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, file_name
from tests.storage.helpers import NOW

Pair = tuple[bytes | None, bytes | None]
DAY_MS: Final = 86_400_000
_MARKER_KEY: Final = Struct(">hh")
_MARKER_VALUE: Final = Struct(">hi")


class Entry(NamedTuple):
    """A log entry and its header."""

    data: bytes
    header: BatchHeader


def entry(data: bytes | bytearray) -> Entry:
    return Entry(bytes(data), read_entry_header(data))


def batch(base_offset: int, *pairs: Pair, timestamps: Sequence[int] = (), **fields: Any) -> Entry:
    """Return a v2 batch of keys and values, with timestamps NOW, NOW + 1 ... by default."""
    times = timestamps or range(NOW, NOW + len(pairs))
    records = [NewRecord(key, value, time) for (key, value), time in zip(pairs, times, strict=True)]
    return entry(build_batch(records, base_offset=base_offset, partition_leader_epoch=3, **fields))


def marker(base_offset: int, producer_id: int, *, commit: bool, epoch: int = 0, timestamp: int = NOW) -> Entry:
    """Return the batch that ends a transaction."""
    record = NewRecord(_MARKER_KEY.pack(0, int(commit)), _MARKER_VALUE.pack(0, 5), timestamp)
    return entry(
        build_batch(
            [record],
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            is_transactional=True,
            is_control=True,
        )
    )


def write_segments(directory: Path, segments: Mapping[int, Iterable[Entry | bytes]], *, modified_ms: int = NOW) -> None:
    """Write log files by base offset, each modified a second after the previous one."""
    directory.mkdir(exist_ok=True)
    for number, (base_offset, entries) in enumerate(segments.items()):
        path = directory / file_name(base_offset, LOG_SUFFIX)
        path.write_bytes(b"".join(entry.data if isinstance(entry, Entry) else entry for entry in entries))
        os.utime(path, ns=((modified_ms + number * 1000) * 1_000_000,) * 2)


def plan_for(directory: Path, end: int, **changes: Any) -> CleaningPlan:
    """Return a plan that cleans every segment below `end`, all of them dirty, with Kafka's defaults and `changes`."""
    bases = sorted(int(path.stem) for path in directory.glob(f"*{LOG_SUFFIX}"))
    segments = []
    for base_offset in bases:
        if base_offset < end:
            status = (directory / file_name(base_offset, LOG_SUFFIX)).stat()
            segments.append(SegmentToClean(base_offset, status.st_size, 0, 0, status.st_mtime_ns, status.st_ino))
    plan = CleaningPlan(
        directory=str(directory),
        now_ms=NOW,
        first_dirty_offset=bases[0],
        first_uncleanable_offset=end,
        segments=tuple(segments),
        later_segments=tuple(base_offset for base_offset in bases if base_offset >= end),
        producers=(),
        segment_bytes=1 << 20,
        segment_index_bytes=10 << 20,
        index_interval_bytes=4096,
        delete_retention_ms=DAY_MS,
        legacy_delete_horizon_ms=0,
        max_map_entries=1000,
    )
    return plan._replace(**changes)


def put_in_place(result: CleaningResult) -> None:
    """Swap in the cleaned files without an open log."""
    directory = Path(result.directory)
    for group in result.groups:
        for base_offset in group.source_base_offsets:
            for suffix in SEGMENT_SUFFIXES:
                (directory / file_name(base_offset, suffix)).unlink(missing_ok=True)
        for suffix in SEGMENT_SUFFIXES:
            cleaned = directory / file_name(group.base_offset, suffix + CLEANED_SUFFIX)
            if cleaned.exists():
                cleaned.rename(directory / file_name(group.base_offset, suffix))


def entries_of(data: bytes) -> list[Entry]:
    """Return every entry of a log file after checking its checksum."""
    results = []
    for batch in iter_batches(data):
        batch.check_crc()
        results.append(Entry(bytes(batch.buffer), batch.header))
    return results


def entries_in(directory: Path, suffix: str = LOG_SUFFIX) -> list[Entry]:
    """Return every entry of all log files, in order."""
    return [entry for path in sorted(directory.glob(f"*{suffix}")) for entry in entries_of(path.read_bytes())]


def records_of(entries: Iterable[Entry]) -> list[Record]:
    return [record for entry in entries for batch in iter_batches(entry.data) for record in batch]


def pairs_of(entries: Iterable[Entry]) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return offset, key and value of every record except markers."""
    return [
        (record.offset, record.key, record.value)
        for entry in entries
        if not (entry.header.magic == 2 and entry.header.is_control)
        for batch in iter_batches(entry.data)
        for record in batch
    ]
