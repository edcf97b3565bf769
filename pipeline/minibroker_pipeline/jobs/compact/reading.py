"""Segments as a compaction reads them: whole, with every checksum looked at, a slice of entries at a time."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode import AbortedRange, Damage, DamagedLogError, DecodeRequest
from minibroker_pipeline.decode.field_positions import RecordEngine
from minibroker_pipeline.decode.selection import Selection
from minibroker_pipeline.filesystems.filesystem import FileSystem
from minibroker_pipeline.jobs.segment_walk import (
    CUT_SHORT,
    ZEROS,
    Entries,
    NoEntries,
    Walked,
    read_entries,
    walk_records,
)
from minibroker_protocol.records.header import CONTROL_FLAG, MAGIC_V2

_BYTES_PER_MESSAGE: Final = 8
"""Of a compressed wrapper, whose header does not say how many messages it holds: a cautious guess."""


class LogChangedError(Exception):
    """A segment is not the one that was there when the job began: a broker is at work in the directory."""


class SegmentSource(NamedTuple):
    """A log file to be read, as it was found. `is_last`: a broker may have died while it wrote there."""

    filesystem: FileSystem
    path: str
    base_offset: int
    size: int
    identity: int
    modified_ns: int
    is_last: bool


def pieces_of(source: SegmentSource, engine: RecordEngine) -> Iterator[Entries]:
    """All its entries, some megabytes at a time.

    `DamagedLogError` for what is no entry, or has a wrong checksum, which new ones would hide. At the end of the
    last segment what is cut short or zero is left out, as by a broker that opens it. `LogChangedError`, `OSError`.
    """
    try:
        file = source.filesystem.open(source.path)
    except FileNotFoundError:
        raise _changed(source) from None
    with file:
        if file.identity != source.identity:
            raise _changed(source)
        for piece in read_entries(file, source.size, engine):
            if isinstance(piece, NoEntries):
                if source.is_last and piece.reason in {CUT_SHORT, ZEROS}:
                    return
                raise DamagedLogError(source.path, Damage(piece.position, piece.offset, piece.size, piece.reason))
            wrong = engine.wrong_crcs(piece.data, piece.headers)
            if wrong:
                header = piece.headers[wrong[0]]
                at = piece.position + int(header["position"])
                message = "wrong checksum"
                raise DamagedLogError(source.path, Damage(at, int(header["base_offset"]), int(header["size"]), message))
            yield piece


def _changed(source: SegmentSource) -> LogChangedError:
    return LogChangedError(
        f"{source.path}: not the file that was there when the job began; a broker works in the directory. Run it again"
    )


def data_lines(headers: NDArray[Any], aborted: tuple[AbortedRange, ...]) -> NDArray[np.int64]:
    """The entries that are neither markers nor data of an aborted transaction."""
    return Selection(DecodeRequest(isolation="read_committed", aborted=aborted)).lines(headers)


def control_lines(headers: NDArray[Any]) -> NDArray[np.int64]:
    """The transaction markers."""
    return np.flatnonzero((headers["attributes"] & CONTROL_FLAG != 0) & (headers["magic"] == MAGIC_V2))


def slices_of(headers: NDArray[Any], lines: NDArray[np.int64], most_rows: int) -> Iterator[NDArray[np.int64]]:
    """The same lines in slices of about so many records at most, or of one entry."""
    counts = headers["record_count"][lines].astype(np.int64)
    guesses = np.where(counts < 0, headers["size"][lines] // _BYTES_PER_MESSAGE, counts)
    ends = np.cumsum(guesses)
    first = 0
    while first < len(lines):
        before = int(ends[first - 1]) if first else 0
        end = max(int(np.searchsorted(ends, before + most_rows, "right")), first + 1)
        yield lines[first:end]
        first = end


def walk(source: SegmentSource, piece: Entries, lines: NDArray[np.int64], engine: RecordEngine) -> Iterator[Walked]:
    """The records of these entries. `DamagedLogError` for those that cannot be read."""
    damage: list[Damage] = []
    for walked in walk_records(piece, lines, engine, damage):
        if damage:
            break
        yield walked
    if damage:
        raise DamagedLogError(source.path, damage[0])
