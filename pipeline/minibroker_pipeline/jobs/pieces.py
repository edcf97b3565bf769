"""Large segments in pieces, so that several tasks can share one.

Cuts are where the offset index knows entries to begin.
"""

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from minibroker_pipeline.filesystems.filesystem import FileSystem
from minibroker_pipeline.log_directories.index_files import offset_entries
from minibroker_pipeline.log_directories.log_end_offsets import is_entry_at
from minibroker_storage.layout import INDEX_SUFFIX, LOG_SUFFIX

PIECE_BYTES: Final = 128 * 1024 * 1024


class Piece(NamedTuple):
    """Bytes of a log file."""

    position: int
    end: int


def cut(filesystem: FileSystem, stem: str, base_offset: int, size: int) -> list[Piece]:
    """The pieces of a segment's first `size` bytes; one where it is small or its index is of no help.

    `stem` is the path of its files without their suffixes. A piece may hold bytes that are no entries: then how it goes
    on behind them is only found by a reader of the whole segment. `OSError`.
    """
    whole = [Piece(0, size)]
    count = size // PIECE_BYTES
    if count < 2:  # noqa: PLR2004 - nothing to share
        return whole
    try:
        offsets, positions = offset_entries(filesystem.read(stem + INDEX_SUFFIX), base_offset)
    except FileNotFoundError:
        return whole
    slots = np.searchsorted(positions, np.arange(1, count, dtype=np.int64) * (size // count))
    slots = np.unique(slots[slots < len(positions)])
    with filesystem.open(stem + LOG_SUFFIX) as file:
        cuts = [
            position
            for position, offset in zip(positions[slots].tolist(), offsets[slots].tolist(), strict=True)
            if 0 < position < size and is_entry_at(file, position, size, offset, base_offset)
        ]
    bounds = [0, *cuts, size]
    return [Piece(*bound) for bound in pairwise(bounds)]
