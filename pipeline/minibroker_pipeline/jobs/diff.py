"""Compares the records in two log directories."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from minibroker_pipeline.decode import HEADERS_COLUMN, schema_of
from minibroker_pipeline.decode.request import Isolation, Mode
from minibroker_pipeline.jobs.reports import as_json, text_table
from minibroker_pipeline.jobs.task_runner import run_tasks
from minibroker_pipeline.source.options import SPLIT_BYTES, SourceOptions
from minibroker_pipeline.source.planning import LogRange, OffsetInterval, QueryLogs
from minibroker_pipeline.source.reading import read_ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

COLUMNS: Final = ("key", "value", HEADERS_COLUMN, "timestamp")
"""The columns set by producers, which every copy should preserve."""
MAX_EXAMPLES: Final = 20
"""The maximum number of differences in the report of a partition or topic."""
_POSITION_COLUMNS: Final = ("partition", "offset")
_DIGEST_BYTES: Final = 16

_Ranges = tuple[LogRange, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffSettings:
    """The settings of a comparison.

    Attributes:
        topics: the topics to compare, or empty for all except internal topics.
        by_content: whether to compare the records of a topic regardless of their partitions and offsets. Otherwise,
            records at the same partition and offset are compared.
        columns: the columns of the data source that must be equal.
        isolation: "read_committed" omits the records of aborted and open transactions.
        mode: "failfast" stops at damage; "permissive" omits damaged batches.
    """

    topics: tuple[str, ...] = ()
    by_content: bool = False
    columns: tuple[str, ...] = COLUMNS
    isolation: Isolation = "read_uncommitted"
    mode: Mode = "failfast"


class Difference(NamedTuple):
    """A record that differs: its position and a description of the difference."""

    topic: str
    partition: int
    offset: int
    description: str


@dataclass(slots=True)
class DiffLine:
    """The comparison of a partition, or of a topic if topics are compared by content. All numbers count records.

    `partition` is None for a topic.
    """

    topic: str
    partition: int | None
    left: int = 0
    right: int = 0
    equal: int = 0
    different: int = 0
    only_left: int = 0
    only_right: int = 0
    #: The first differences that were found, at most `MAX_EXAMPLES`.
    examples: list[Difference] = field(default_factory=list[Difference])

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found."""
        return not (self.different or self.only_left or self.only_right)

    def as_json(self) -> dict[str, Any]:
        """Return the line as JSON."""
        return {**as_json(self), "examples": [example._asdict() for example in self.examples]}


@dataclass(slots=True)
class DiffReport:
    """The differences found by `diff`, ordered by topic and partition."""

    lines: list[DiffLine] = field(default_factory=list[DiffLine])
    #: The names of the partitions that exist only on the left or only on the right, such as "orders-0".
    only_left: list[str] = field(default_factory=list[str])
    only_right: list[str] = field(default_factory=list[str])

    @property
    def is_equal(self) -> bool:
        """Whether both directories have the same records."""
        return all(line.is_equal for line in self.lines) and not (self.only_left or self.only_right)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "equal": self.is_equal,
            "partitionsOnlyLeft": self.only_left,
            "partitionsOnlyRight": self.only_right,
            "lines": [line.as_json() for line in self.lines],
        }

    def as_text(self) -> str:
        """Return a table and the first differences."""
        titles = ("topic", "partition", "left", "right", "equal", "different", "only left", "only right")
        rows = [
            [
                line.topic,
                "all" if line.partition is None else str(line.partition),
                *(f"{count:,}" for count in (line.left, line.right, line.equal, line.different)),
                *(f"{count:,}" for count in (line.only_left, line.only_right)),
            ]
            for line in self.lines
        ]
        text = text_table(titles, rows, left=(0,)) if rows else ""
        for side, names in (("left", self.only_left), ("right", self.only_right)):
            text += f"partitions on the {side} only: {', '.join(names)}\n" if names else ""
        for line in self.lines:
            text += "".join(
                f"{example.topic}-{example.partition} offset {example.offset}: {example.description}\n"
                for example in line.examples
            )
        return text + ("equal\n" if self.is_equal else "different\n")


class _DiffTask(NamedTuple):
    """The ranges that a task compares."""

    topic: str
    partition: int | None
    left: _Ranges
    right: _Ranges
    settings: DiffSettings


def diff(
    left: str,
    right: str,
    settings: DiffSettings | None = None,
    *,
    spark: "SparkSession | None" = None,
    processes: int | None = None,
) -> DiffReport:
    """Compare the records that consumers see in two data directories, or in two directories of single partitions.

    Args:
        left: a directory of this machine, or an address that fsspec supports.
        right: another directory or address.
        settings: see `DiffSettings`.
        spark: the session that runs the tasks. Without a session, the tasks run in local `processes`.
        processes: the maximum number of processes, or None for one per CPU if there is enough to read.

    Raises:
        ValueError: a column or a topic does not exist.
        decode.DamagedLogError: a log is damaged, in failfast mode.
        OSError: a directory or a file cannot be read.
    """
    settings = settings or DiffSettings()
    schema_of(settings.columns)
    sides = [_ranges_of(path, settings) for path in (left, right)]
    missing = set(settings.topics) - {topic for side in sides for topic, _ in side}
    if missing:
        raise ValueError(f"topics: there is no {min(missing)!r} in {left} or in {right}")
    report = DiffReport()
    if not settings.by_content:
        report.only_left = _names_of(sides[0].keys() - sides[1].keys())
        report.only_right = _names_of(sides[1].keys() - sides[0].keys())
    pairs = _diff_tasks(sides[0], sides[1], settings)
    sizes = [sum(log_range.size for log_range in (*task.left, *task.right)) for task in pairs]
    label = "diff", "topics" if settings.by_content else "partitions"
    compare = _compare_by_content if settings.by_content else _compare_by_offset
    lines = run_tasks(compare, pairs, sizes, label=label, spark=spark, processes=processes)
    report.lines = sorted(lines, key=lambda line: (line.topic, line.partition or 0))
    return report


def _names_of(keys: set[tuple[str, int]]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in sorted(keys)]


def _ranges_of(path: str, settings: DiffSettings) -> dict[tuple[str, int], _Ranges]:
    """Return the ranges to read from each partition, up to the log end."""
    # Read up to the log end, because the copied directory of a running broker has an old high watermark.
    options = SourceOptions(
        paths=(path,),
        topics=settings.topics,
        isolation=settings.isolation,
        mode=settings.mode,
        high_watermark="logEnd",
    )
    ranges: dict[tuple[str, int], _Ranges] = {}
    for key, log in QueryLogs(options).update(must_exist=False).items():
        if settings.mode == "failfast":
            log.check()
        ranges[key] = tuple(log.ranges(OffsetInterval(log.start_offset, log.end_offset), SPLIT_BYTES))
    return ranges


def _diff_tasks(
    left: dict[tuple[str, int], _Ranges], right: dict[tuple[str, int], _Ranges], settings: DiffSettings
) -> list[_DiffTask]:
    keys = sorted(left.keys() | right.keys())
    if not settings.by_content:
        return [_DiffTask(*key, left.get(key, ()), right.get(key, ()), settings) for key in keys]

    def of_topic(topic: str, side: dict[tuple[str, int], _Ranges]) -> _Ranges:
        return tuple(log_range for key in keys if key[0] == topic for log_range in side.get(key, ()))

    topics = sorted({topic for topic, _ in keys})
    return [_DiffTask(topic, None, of_topic(topic, left), of_topic(topic, right), settings) for topic in topics]


def _read_rows(ranges: _Ranges, settings: DiffSettings) -> Iterator[pa.RecordBatch]:
    columns = (*_POSITION_COLUMNS, *(column for column in settings.columns if column not in _POSITION_COLUMNS))
    return read_ranges(ranges, SourceOptions(paths=(), isolation=settings.isolation, mode=settings.mode), columns)


class _RowStream:
    """The rows of one side in offset order, taken in slices."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rows: pa.RecordBatch | None = None
        self._offsets: NDArray[np.int64] = np.empty(0, np.int64)

    def last_offset(self) -> int | None:
        """Return the last offset of the current batch, or None at the end."""
        while self._rows is None or not self._rows.num_rows:
            self._rows = next(self._batches, None)
            if self._rows is None:
                return None
            self._offsets = self._rows.column("offset").to_numpy()
        return int(self._offsets[-1])

    def take_through(self, offset: int) -> pa.RecordBatch | None:
        """Return the rows of the current batch up to and including this offset."""
        if self._rows is None:
            return None
        count = int(np.searchsorted(self._offsets, offset, side="right"))
        rows = self._rows.slice(0, count)
        self._rows, self._offsets = self._rows.slice(count), self._offsets[count:]
        return rows


def _compare_by_offset(task: _DiffTask) -> DiffLine:
    line = DiffLine(task.topic, task.partition)
    left, right = (_RowStream(_read_rows(ranges, task.settings)) for ranges in (task.left, task.right))
    while True:
        last_offsets = [offset for offset in (left.last_offset(), right.last_offset()) if offset is not None]
        if not last_offsets:
            return line
        rows = [side.take_through(min(last_offsets)) for side in (left, right)]
        _compare(rows[0], rows[1], line, task.settings)


def _compare(left: pa.RecordBatch | None, right: pa.RecordBatch | None, line: DiffLine, settings: DiffSettings) -> None:
    """Compare the rows of both sides in one range of offsets."""
    counts = [0 if side is None else int(side.num_rows) for side in (left, right)]
    line.left += counts[0]
    line.right += counts[1]
    if left is not None and right is not None and left.equals(right):
        line.equal += counts[0]
        return
    left_offsets, right_offsets = _read_offsets(left), _read_offsets(right)
    _, left_lines, right_lines = np.intersect1d(left_offsets, right_offsets, assume_unique=True, return_indices=True)
    only_left, only_right = np.setdiff1d(left_offsets, right_offsets), np.setdiff1d(right_offsets, left_offsets)
    line.only_left += len(only_left)
    line.only_right += len(only_right)
    for only, side_name in ((only_left, "left"), (only_right, "right")):
        for offset in only[:MAX_EXAMPLES].tolist():
            _add_example(line, Difference(line.topic, line.partition or 0, offset, f"only on the {side_name}"))
    if left is None or right is None:
        return
    ours_shared, theirs_shared = left.take(pa.array(left_lines)), right.take(pa.array(right_lines))
    columns = [(name, ours_shared.column(name), theirs_shared.column(name)) for name in settings.columns]
    pairs = [(name, left.to_pylist(), right.to_pylist()) for name, left, right in columns if not left.equals(right)]
    for row, offset in enumerate(ours_shared.column("offset").to_pylist()):
        differs = [name for name, lefts, rights in pairs if lefts[row] != rights[row]]
        if differs:
            line.different += 1
            _add_example(line, Difference(line.topic, line.partition or 0, offset, f"another {', '.join(differs)}"))
        else:
            line.equal += 1


def _read_offsets(rows: pa.RecordBatch | None) -> "NDArray[np.int64]":
    return np.empty(0, np.int64) if rows is None else np.asarray(rows.column("offset").to_numpy(), np.int64)


def _add_example(line: DiffLine, difference: Difference) -> None:
    if len(line.examples) < MAX_EXAMPLES:
        line.examples.append(difference)


def _compare_by_content(task: _DiffTask) -> DiffLine:
    """Compare a topic by content.

    Equal records cancel each other out, so memory is needed only for unmatched records: a digest of 16 bytes for
    each.
    """
    line = DiffLine(task.topic, None)
    #: Maps the digest of a record to a tuple: how many more of these records the left side has (negative if the right
    #: side has more), and the partition and offset of the last one.
    surplus: dict[bytes, tuple[int, int, int]] = {}
    # Read both sides alternately, so that equal records cancel each other out early.
    for left, right in zip_longest(_read_rows(task.left, task.settings), _read_rows(task.right, task.settings)):
        if left is not None:
            line.left += left.num_rows
            _cancel_rows(left, 1, task.settings.columns, surplus)
        if right is not None:
            line.right += right.num_rows
            _cancel_rows(right, -1, task.settings.columns, surplus)
    for count, partition, offset in surplus.values():
        line.only_left += max(count, 0)
        line.only_right -= min(count, 0)
        side_name = "left" if count > 0 else "right"
        times = f", {abs(count)} times" if abs(count) > 1 else ""
        _add_example(line, Difference(line.topic, partition, offset, f"only on the {side_name}{times}"))
    line.equal = line.left - line.only_left
    line.examples.sort()
    return line


def _cancel_rows(
    batch: pa.RecordBatch, sign: int, columns: Sequence[str], surplus: dict[bytes, tuple[int, int, int]]
) -> None:
    rows = zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
    positions = zip(*(batch.column(name).to_pylist() for name in _POSITION_COLUMNS), strict=True)
    for row, (partition, offset) in zip(rows, positions, strict=True):
        digest = blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
        count = surplus.get(digest, (0, 0, 0))[0] + sign
        if count:
            surplus[digest] = (count, partition, offset)
        else:
            del surplus[digest]
