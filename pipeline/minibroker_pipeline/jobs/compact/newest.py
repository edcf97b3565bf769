"""The second round: of the keys of one bucket, which records are the newest."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.jobs.compact.key_files import Rows, Run, read_bucket, write_verdict
from minibroker_pipeline.jobs.compact.keys import Hashes, load_kernel, mark_newest
from minibroker_pipeline.jobs.compact.scan import KeyPlan

_SHARE_BITS: Final = 20


class NewestTask(NamedTuple):
    """A bucket of a log's runs, of which `rows` are expected, and the file for what is found."""

    runs: tuple[Run, ...]
    bucket: int
    keys: KeyPlan
    path: str


def find_newest(tasks: Sequence[NewestTask]) -> list[None]:
    """The task. `OSError`."""
    for task in tasks:
        parts = [read_bucket(run, task.bucket) for run in task.runs] if _fits(task) else None
        write_verdict(task.path, _whole(task, parts) if parts is not None else _in_shares(task))
    return []


def _fits(task: NewestTask) -> bool:
    """Whether the bucket is likely no larger than it should be, by the sizes of all runs."""
    return sum(run.rows for run in task.runs) // task.keys.buckets <= task.keys.most_rows


def _whole(task: NewestTask, parts: Sequence[Rows]) -> list[NDArray[np.int64]]:
    """The offsets that stay, of each run."""
    newest = _mark(task, parts)
    ends = np.cumsum([len(rows.offsets) for rows in parts]).tolist()
    begins = [0, *ends[:-1]]
    return [rows.offsets[newest[begin:end]] for rows, begin, end in zip(parts, begins, ends, strict=True)]


def _mark(task: NewestTask, parts: Sequence[Rows]) -> NDArray[np.bool_]:
    nothing = np.empty(0, np.int64)
    high, low = (np.concatenate([nothing, *(rows.hashes[half] for rows in parts)]) for half in (0, 1))
    offsets = np.concatenate([nothing, *(rows.offsets for rows in parts)])
    return mark_newest(Hashes(high, low), offsets, task.keys.first_dirty, load_kernel())


def _in_shares(task: NewestTask) -> list[NDArray[np.int64]]:
    """The same in several passes, each over a share of the hashes, for a bucket that has become too large."""
    rows = sum(run.rows for run in task.runs) // task.keys.buckets
    shares = 1 + rows // task.keys.most_rows
    found: list[list[NDArray[np.int64]]] = [[] for _ in task.runs]
    for share in range(shares):
        parts = [_share_of(read_bucket(run, task.bucket), share, shares) for run in task.runs]
        for offsets, staying in zip(found, _whole(task, parts), strict=True):
            offsets.append(staying)
    return [np.concatenate(offsets) for offsets in found]


def _share_of(rows: Rows, share: int, shares: int) -> Rows:
    chosen = (rows.hashes.low & ((1 << _SHARE_BITS) - 1)) * shares >> _SHARE_BITS == share
    high, low = rows.hashes
    return Rows(Hashes(high[chosen], low[chosen]), rows.offsets[chosen])
