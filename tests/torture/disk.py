"""Looks at a partition's files while no broker runs, with no help from the code that writes or repairs them."""

import os
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from minibroker_protocol.records.batch import iter_batches
from tests.torture.ledger import TortureError

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_SWAPPING: Final = (".cleaned", ".swap")


class Batch(NamedTuple):
    """A segment to compare an index with."""

    position: int
    first_offset: int
    last_offset: int
    max_timestamp: int
    magic: int


class Segment(NamedTuple):
    """A log file and its indexes' entries, zeros at their ends left out."""

    path: Path
    base_offset: int
    batches: list[Batch]
    torn: int
    offsets: list[tuple[int, int]]
    times: list[tuple[int, int]]


def check_partition(directory: Path, *, is_compacted: bool, was_killed: bool) -> Counter[str]:
    """Judge every segment of a partition that is not in use; returns its contents. `TortureError`.

    After a kill only the end of the last log may be torn, and the indexes may lack their last entries; every entry
    that there is has to be true. After a clean stop nothing may be torn, and no index may end early.
    """
    names = sorted(name for name in os.listdir(directory) if name.endswith(".log"))
    segments = [_read_segment(directory / name) for name in names]
    leftovers = [name for name in os.listdir(directory) if name.endswith((*_SWAPPING, ".deleted"))]
    counts = Counter(
        {
            "segments seen on disk": len(segments),
            "torn ends": sum(segment.torn > 0 for segment in segments),
            "interrupted swaps": any(_SWAPPING[0] in name or _SWAPPING[1] in name for name in leftovers),
            "interrupted deletions": any(name.endswith(".deleted") for name in leftovers),
        }
    )
    for segment, following in zip_longest(segments, segments[1:]):
        is_last = following is None
        if segment.torn and (not is_last or not was_killed):
            raise TortureError(f"{segment.path}: {segment.torn} bytes at its end are no batch")
        _check_offsets(segment)
        _check_times(segment)
        if not was_killed:
            _check_is_trimmed(segment)
        if following is None or counts["interrupted swaps"]:
            continue
        last = segment.batches[-1].last_offset if segment.batches else segment.base_offset - 1
        if last >= following.base_offset:
            raise TortureError(f"{segment.path} goes to offset {last}, but {following.path.name} follows")
        if not is_compacted and last + 1 != following.base_offset:
            raise TortureError(f"{segment.path} ends with offset {last}, but {following.path.name} follows")
    return counts


def _read_segment(path: Path) -> Segment:
    data = path.read_bytes()
    base = int(path.stem)
    batches: list[Batch] = []
    position, last = 0, base - 1
    for batch in iter_batches(data):
        batch.check_crc()
        header: Any = batch.header
        first = header.base_offset if header.magic > 1 else min(last + 1, header.base_offset)
        if header.base_offset <= last:
            raise TortureError(f"{path}: offset {header.base_offset} at byte {position} follows {last}")
        last = header.last_offset
        batches.append(Batch(position, first, last, header.max_timestamp, header.magic))
        position += header.size_in_bytes
    return Segment(
        path,
        base,
        batches,
        len(data) - position,
        [(base + relative, at) for relative, at in _entries(path.with_suffix(".index"), _OFFSET_ENTRY)],
        [(timestamp, base + relative) for timestamp, relative in _entries(path.with_suffix(".timeindex"), _TIME_ENTRY)],
    )


def _entries(path: Path, entry: Struct) -> list[tuple[int, int]]:
    """The entries of an index file; one that a kill has cut is as good as missing."""
    data = path.read_bytes() if path.exists() else b""
    found: list[tuple[int, int]] = list(entry.iter_unpack(data[: len(data) // entry.size * entry.size]))
    if len(data) == entry.size == _TIME_ENTRY.size:  # closed: its one entry may be timestamp 0 at relative offset 0
        return found
    while found and found[-1] == (0, 0):
        found.pop()
    return found


def _check_offsets(segment: Segment) -> None:
    by_position = {batch.position: batch for batch in segment.batches}
    ends = {batch.last_offset for batch in segment.batches}
    previous = (segment.base_offset - 1, -1)
    for offset, position in segment.offsets:
        if offset <= previous[0] or position <= previous[1]:
            raise TortureError(f"{segment.path}: index entry {(offset, position)} follows {previous}")
        previous = (offset, position)
        batch = by_position.get(position)
        if batch is None:
            raise TortureError(f"{segment.path}: index entry {(offset, position)}: no batch begins there")
        # A set of plain old messages is one append, and has one entry: the offset of its last message.
        is_right = offset == batch.last_offset or (batch.magic <= 1 and offset in ends and offset > batch.last_offset)
        if not is_right:
            raise TortureError(f"{segment.path}: index entry {(offset, position)} points to {batch}")


def _check_times(segment: Segment) -> None:
    previous = (-1, segment.base_offset - 1)
    at, largest = 0, -1
    for timestamp, offset in segment.times:
        if timestamp <= previous[0] or offset < previous[1]:
            raise TortureError(f"{segment.path}: time index entry {(timestamp, offset)} follows {previous}")
        previous = (timestamp, offset)
        while at < len(segment.batches) and segment.batches[at].first_offset <= offset:
            largest = max(largest, segment.batches[at].max_timestamp)
            at += 1
        if timestamp != largest or (segment.batches and offset > segment.batches[-1].last_offset):
            raise TortureError(f"{segment.path}: time index entry {(timestamp, offset)}, but {largest} until there")


def _check_is_trimmed(segment: Segment) -> None:
    """A closed segment's time index ends with its largest timestamp, and its indexes end with their entries."""
    largest = max((batch.max_timestamp for batch in segment.batches), default=-1)
    last = segment.times[-1][0] if segment.times else -1
    if last != largest:
        raise TortureError(f"{segment.path}: the time index ends with {last}, the largest timestamp is {largest}")
    for suffix, entries in ((".index", len(segment.offsets) * 8), (".timeindex", len(segment.times) * 12)):
        size = segment.path.with_suffix(suffix).stat().st_size
        if size != entries:
            raise TortureError(f"{segment.path.with_suffix(suffix)}: {size} bytes, but entries for {entries}")
