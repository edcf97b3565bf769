"""Crash-safe replacement of segments with a cleaned segment made from them.

The order of steps is that of Kafka's `LocalLog.replaceSegments`:

1. The cleaned files are complete and on disk as `.cleaned`. They are renamed to `.swap`, the log last. While a
   `.cleaned` file remains, a start of the broker removes all `.cleaned` and `.swap` files, because the replacement has
   not begun.
2. The old segments' files are renamed to `.deleted`, oldest segment first. A start that finds a complete `.swap` log
   removes all segments that begin within its offsets. If the cleaned log ends before an old segment begins, that
   segment and all later ones may remain. Their records are merely not compacted yet.
3. The `.swap` files are renamed to their final names, the log first. A start renames the remaining files.

The supported file systems write renames within one directory to disk in order.
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
    rename_if_exists,
    unlink_files,
)
from minibroker_storage.segment import LogSegment

_TEMPORARY_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TMP_SUFFIX)


def swap_in(directory: str, base_offset: int, old_segments: Iterable[LogSegment]) -> list[str]:
    """Replace segments with the `.cleaned` files of `base_offset`, and return the paths of the `.deleted` files.

    The old segments are closed.

    Raises:
        OSError: a rename failed. After a failure in step 1, the cleaned files are removed. After a later failure, the
            next start completes the swap.
    """
    stem = f"{directory}/{file_name(base_offset, '')}"
    try:
        # The log is renamed last, so a `.swap` log implies that its indexes are complete.
        for suffix in reversed(SEGMENT_SUFFIXES):
            rename_if_exists(stem + suffix + CLEANED_SUFFIX, stem + suffix + SWAP_SUFFIX)
    except OSError:
        remove_cleaned(directory, base_offset)
        raise
    # From here on, the next start completes the swap, so errors need no rollback.
    deleted = [path for segment in old_segments for path in segment.set_aside()]
    # The log is renamed first, because indexes without a log would be removed as leftovers.
    for suffix in SEGMENT_SUFFIXES:
        rename_if_exists(stem + suffix + SWAP_SUFFIX, stem + suffix)
    return deleted


def remove_cleaned(directory: str, base_offset: int) -> None:
    """Remove the `.cleaned` files of `base_offset`, and those already renamed to `.swap` in step 1.

    Raises:
        OSError: a file cannot be removed.
    """
    stem = f"{directory}/{file_name(base_offset, '')}"
    unlink_files(stem + suffix + SWAP_SUFFIX for suffix in SEGMENT_SUFFIXES)
    unlink_files(stem + suffix + CLEANED_SUFFIX for suffix in SEGMENT_SUFFIXES)


def clean_up_directory(directory: str) -> tuple[list[int], list[int], set[str]]:
    """Complete or undo interrupted operations in a partition's directory.

    Removes `.deleted` and `.tmp` files, indexes without a log, and `.cleaned` files together with the `.swap` files of
    the same unfinished cleaning. Other `.swap` segments are complete and replace the segments whose offsets they cover.

    Returns:
        The base offsets of the segments and of the snapshots, both ascending, and all file names.
    """
    names = os.listdir(directory)
    if any(name.endswith(_TEMPORARY_SUFFIXES) for name in names):
        names = _finish_swaps(directory, names)
    bases = _collect_offsets(names, LOG_SUFFIX)
    segment_offsets = set(bases)
    orphans = {
        name
        for name in names
        if name.endswith(SEGMENT_SUFFIXES) and (offset := offset_of(name)) is not None and offset not in segment_offsets
    }
    unlink_files(f"{directory}/{name}" for name in orphans)
    return bases, _collect_offsets(names, SNAPSHOT_SUFFIX), set(names) - orphans


def _collect_offsets(names: Iterable[str], suffix: str) -> list[int]:
    return sorted(offset for name in names if name.endswith(suffix) and (offset := offset_of(name)) is not None)


def _finish_swaps(directory: str, names: Sequence[str]) -> list[str]:
    first_cleaned = min(_collect_offsets(names, CLEANED_SUFFIX), default=None)
    swaps: list[str] = []
    discarded: list[str] = []
    for name in names:
        offset = offset_of(name)
        # All .swap files of a segment below the first .cleaned file exist, so its replacement can be completed (Kafka's
        # `LogLoader.removeTempFilesAndCollectSwapFiles`).
        if name.endswith(SWAP_SUFFIX) and offset is not None and (first_cleaned is None or offset < first_cleaned):
            swaps.append(name)
        elif name.endswith(_TEMPORARY_SUFFIXES):
            discarded.append(name)
    # Remove the .cleaned files last, because they mark the .swap files of the same segment or later ones as incomplete.
    discarded.sort(key=lambda name: name.endswith(CLEANED_SUFFIX))
    unlink_files(f"{directory}/{name}" for name in discarded)
    swaps.sort(key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_covered(directory, name)
    for name in swaps:
        os.replace(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    return os.listdir(directory)


def _remove_covered(directory: str, swap_name: str) -> None:
    """Remove the old segments that begin within the offset range of a complete `.swap` log."""
    first = last = offset_of(swap_name) or 0
    path = f"{directory}/{swap_name}"
    # If the end is torn, use the readable part. Recovery truncates the rest.
    with open(path, "rb", buffering=0) as file, contextlib.suppress(StorageError):
        for _, header in read_headers(file.fileno(), 0, os.fstat(file.fileno()).st_size, path):
            last = max(last, header.last_offset)
    covered = [
        name
        for name in os.listdir(directory)
        if name.endswith(SEGMENT_SUFFIXES) and (offset := offset_of(name)) is not None and first <= offset <= last
    ]
    # Remove the oldest segment first, and each log before its indexes. If this is interrupted, the remaining segments
    # are all newer than the removed ones.
    covered.sort(key=lambda name: (offset_of(name), not name.endswith(LOG_SUFFIX)))
    unlink_files(f"{directory}/{name}" for name in covered)
