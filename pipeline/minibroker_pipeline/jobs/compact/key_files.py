"""Keys on their way between tasks, in files of a directory that all tasks see.

A run has the hashes and offsets of some neighboring records of one segment, shared out by hash into buckets. A
verdict has of one bucket, run by run, the offsets of the records that stay.

Both begin with a table of int64 that says where each part begins, in rows, and ends with the last one's end.
"""

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.jobs.compact.keys import Hashes

_Ints = NDArray[np.int64]
_INT64: Final = 8
_BUCKET_BITS: Final = 16
MOST_BUCKETS: Final = 1 << _BUCKET_BITS
BYTES_PER_ROW: Final = 128
"""Memory for one record during the search for the newest of its key, in a run or in a bucket."""


class Run(NamedTuple):
    """A file of keys. `last_offset` is that of the last record that it could have."""

    path: str
    rows: int
    last_offset: int


class Rows(NamedTuple):
    """Hashes of keys, and the offsets of the records that have them."""

    hashes: Hashes
    offsets: _Ints


def bucket_of(hashes: Hashes, buckets: int) -> NDArray[np.uint16]:
    """The bucket of each hash, by bits that say nothing of its place in a table."""
    return (((hashes.low >> 40) & (MOST_BUCKETS - 1)) * buckets >> _BUCKET_BITS).astype(np.uint16)


def write_run(path: str, rows: Rows, buckets: int, last_offset: int) -> Run:
    """Write a run. `OSError`."""
    bucket = bucket_of(rows.hashes, buckets)
    order = np.argsort(bucket, kind="stable")
    starts = np.searchsorted(bucket[order], np.arange(buckets + 1))
    content = np.empty((len(order), 3), np.int64)
    for column, values in enumerate((*rows.hashes, rows.offsets)):
        content[:, column] = values[order]
    _write(path, starts, content)
    return Run(path, len(order), last_offset)


def read_bucket(run: Run, bucket: int) -> Rows:
    """One bucket's rows of a run. `OSError`."""
    with open(run.path, "rb") as file:
        buckets = _table_size(file.fileno()) - 1
        content = _part(file.fileno(), buckets + 1, bucket, 3).reshape(-1, 3)
    high, low, offsets = (np.ascontiguousarray(content[:, column]) for column in range(3))
    return Rows(Hashes(high, low), offsets)


def write_verdict(path: str, staying: Sequence[_Ints]) -> None:
    """Write the offsets that stay, an array for each run. `OSError`."""
    starts = np.cumsum([0, *map(len, staying)])
    _write(path, starts, np.concatenate([np.empty(0, np.int64), *staying]))


def read_verdicts(paths: Sequence[str], number: int) -> _Ints:
    """The offsets of run `number` that stay, by the verdicts of all buckets; ascending. `OSError`."""
    parts = [np.empty(0, np.int64)]
    for path in paths:
        with open(path, "rb") as file:
            parts.append(_part(file.fileno(), _table_size(file.fileno()), number, 1))
    return np.sort(np.concatenate(parts))


def _write(path: str, starts: _Ints, content: _Ints) -> None:
    with open(path, "xb") as file:
        file.write(np.int64(len(starts)).tobytes())
        file.write(starts.astype(np.int64).tobytes())
        content.tofile(file)


def _table_size(fd: int) -> int:
    return int(_read(fd, 0, 1)[0])


def _part(fd: int, table: int, number: int, width: int) -> _Ints:
    start, end = _read(fd, 1 + number, 2).tolist()
    return _read(fd, 1 + table + start * width, (end - start) * width)


def _read(fd: int, at: int, count: int) -> _Ints:
    data = bytearray()
    while len(data) < count * _INT64:
        piece = os.pread(fd, count * _INT64 - len(data), at * _INT64 + len(data))
        if not piece:
            raise OSError(f"a file of keys ends before its number {at + count}")
        data += piece
    return np.frombuffer(data, np.int64)
