"""Putting a cleaned segment in the place of those it was made from, so that a crash at any moment loses nothing.

The order of Kafka's `LocalLog.replaceSegments`:

1. The cleaned files, complete and on disk as `.cleaned`, become `.swap`, the log last. While one `.cleaned` file is
   left, a start removes all of these files: nothing has happened yet.
2. The old segments' files become `.deleted`, oldest segment first. A start finds a complete `.swap` log and removes
   what is left of the segments that begin within its offsets. Should the cleaned log end before an old segment begins,
   that one may be left, and all behind it: their records are older than what was to replace them by nothing but a
   cleaning.
3. `.swap` becomes the final name, the log first. A start renames what is left.

The file systems in use bring renames within one directory to disk in their order.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence

from minibroker_storage.entries import read_headers
from minibroker_storage.errors import StorageError
from minibroker_storage.files import TMP_SUFFIX
from minibroker_storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    file_name,
    offset_of,
    unlink_files,
)
from minibroker_storage.segment import LogSegment

_LEFTOVERS = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TMP_SUFFIX)


def swap_in(directory: str, base_offset: int, old_segments: Iterable[LogSegment]) -> list[str]:
    """The three steps for the `.cleaned` files of `base_offset`; returns the paths of the `.deleted` files.

    The old segments are closed. `OSError`: in step 1 the cleaned files are removed; later the next start finishes.
    """
    stem = f"{directory}/{file_name(base_offset, '')}"
    try:
        # The log last: a `.swap` log means that all its indexes have come before it.
        for suffix in reversed(SEGMENT_SUFFIXES):
            _rename(stem + suffix + CLEANED_SUFFIX, stem + suffix + SWAP_SUFFIX)
    except OSError:
        remove_cleaned(directory, base_offset)
        raise
    # From here on the next start finishes the swap, so an error needs no way back.
    deleted = [path for segment in old_segments for path in segment.set_aside()]
    # The log first: indexes without a log would be removed as leftovers.
    for suffix in SEGMENT_SUFFIXES:
        _rename(stem + suffix + SWAP_SUFFIX, stem + suffix)
    return deleted


def _rename(source: str, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.rename(source, target)


def remove_cleaned(directory: str, base_offset: int) -> None:
    """Remove the `.cleaned` files of `base_offset`, and `.swap` ones that step 1 has made of them. `OSError`."""
    stem = f"{directory}/{file_name(base_offset, '')}"
    unlink_files(stem + suffix + SWAP_SUFFIX for suffix in SEGMENT_SUFFIXES)
    unlink_files(stem + suffix + CLEANED_SUFFIX for suffix in SEGMENT_SUFFIXES)


def tidy_directory(directory: str) -> tuple[list[int], list[int], set[str]]:
    """Finish or undo what a crash interrupted; base offsets of segments, of snapshots, ascending, and all names.

    `.deleted` and `.tmp` files go, and `.cleaned` ones with every `.swap` that belongs to the same unfinished
    cleaning. Other `.swap` segments are complete: they take the place of the segments whose offsets they cover.
    Indexes without a log go.
    """
    names = os.listdir(directory)
    if any(name.endswith(_LEFTOVERS) for name in names):
        names = _finish_swaps(directory, names)
    bases = _offsets(names, LOG_SUFFIX)
    known = set(bases)
    orphans = {
        name
        for name in names
        if name.endswith(SEGMENT_SUFFIXES) and (offset := offset_of(name)) is not None and offset not in known
    }
    unlink_files(f"{directory}/{name}" for name in orphans)
    return bases, _offsets(names, SNAPSHOT_SUFFIX), set(names) - orphans


def _offsets(names: Iterable[str], suffix: str) -> list[int]:
    return sorted(offset for name in names if name.endswith(suffix) and (offset := offset_of(name)) is not None)


def _finish_swaps(directory: str, names: Sequence[str]) -> list[str]:
    cleaned = [offset for name in names if name.endswith(CLEANED_SUFFIX) and (offset := offset_of(name)) is not None]
    first_cleaned = min(cleaned, default=None)
    swaps: list[str] = []
    undone: list[str] = []
    for name in names:
        offset = offset_of(name)
        # Kafka's `LogLoader.removeTempFilesAndCollectSwapFiles`: a swap below the first cleaned file was complete
        # before.
        if name.endswith(SWAP_SUFFIX) and offset is not None and (first_cleaned is None or offset < first_cleaned):
            swaps.append(name)
        elif name.endswith(_LEFTOVERS):
            undone.append(name)
    # The .cleaned files vouch for the others being worth nothing: they go last.
    undone.sort(key=lambda name: name.endswith(CLEANED_SUFFIX))
    unlink_files(f"{directory}/{name}" for name in undone)
    swaps.sort(key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_covered(directory, name)
    for name in swaps:
        os.replace(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    return os.listdir(directory)


def _remove_covered(directory: str, swap_name: str) -> None:
    """Remove the files of segments that a complete `.swap` log replaces: those that begin within its offsets."""
    first = last = offset_of(swap_name) or 0
    path = f"{directory}/{swap_name}"
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # A torn end: what is readable says how far it reaches, and recovery cuts the rest.
        with contextlib.suppress(StorageError):
            for _, header in read_headers(fd, 0, os.fstat(fd).st_size, path):
                last = max(last, header.last_offset)
    finally:
        os.close(fd)
    covered = [
        name
        for name in os.listdir(directory)
        if name.endswith(SEGMENT_SUFFIXES) and (offset := offset_of(name)) is not None and first <= offset <= last
    ]
    # Oldest first, and of each segment the log: should this be interrupted, nothing older than what is left comes back.
    covered.sort(key=lambda name: (offset_of(name), not name.endswith(LOG_SUFFIX)))
    unlink_files(f"{directory}/{name}" for name in covered)
