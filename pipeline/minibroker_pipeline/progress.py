"""Shows the progress of streaming queries, with one line per micro-batch."""

import json
import sys
import threading
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import TextIO

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

_CLEAR = "\r\x1b[K"
_LAST_REPORTS_TIMEOUT_S = 5.0
"""Seconds to wait for the last reports. Spark sends them from its own threads, some time after a query ends."""


class ProgressLine(StreamingQueryListener):
    """Writes lines such as `orders: batch 3, 1,200 rows (4,000 rows/s), 120,000 behind, 300 ms`.

    On a terminal, micro-batches overwrite the same line. Starts and ends have lines of their own. `last` maps
    each run to its last line.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._has_open_line = False
        self._names: dict[str, str] = {}
        self._changed = threading.Condition()  # A lock is needed because Spark calls the listener from other threads.
        self.last: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark calls it so
        """Remember the query's name, which some later events lack."""
        self._names[str(event.runId)] = event.name or f"query {str(event.runId)[:8]}"
        self._write_status(str(event.runId), "started")

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark calls it so
        """Write the progress of a micro-batch."""
        self._write_status(str(event.progress.runId), describe(event.progress), stays=False)

    def onQueryIdle(self, event: object) -> None:  # noqa: N802 - Spark calls it so
        """Ignore an idle query."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark calls it so
        """Write how the query ended."""
        reason = (event.exception or "").strip().splitlines()
        self._write_status(str(event.runId), f"failed: {reason[0]}" if reason else "ended")
        with self._changed:
            self._names.pop(str(event.runId), None)
            self._changed.notify_all()

    def await_ends(self, active: Collection[str]) -> None:
        """Wait until the end of every run that is not active has been reported, or until a timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._names.keys() <= set(active), _LAST_REPORTS_TIMEOUT_S)

    def _write_status(self, query: str, status: str, *, stays: bool = True) -> None:
        with self._changed:
            line = f"{self._names.get(query, f'query {query[:8]}')}: {status}"
            self.last[query] = line
            if self._is_terminal:
                begin = _CLEAR if self._has_open_line else ""
                self._has_open_line = not stays
                self._stream.write(begin + line + ("\n" if stays else ""))
            else:
                self._stream.write(line + "\n")
            self._stream.flush()


def describe(progress: StreamingQueryProgress) -> str:
    """Describe a micro-batch: its number, its rows and rate, the number of unread records, and its duration."""
    rate = f" ({progress.processedRowsPerSecond:,.0f} rows/s)" if progress.numInputRows else ""
    unread = _unread_records(progress)
    behind = "" if unread is None else f", {unread:,} behind"
    rows = f"{progress.numInputRows:,} rows{rate}"
    return f"batch {progress.batchId}, {rows}{behind}, {progress.batchDuration:,} ms"


def _unread_records(progress: StreamingQueryProgress) -> int | None:
    """Return the number of unread records, or None if no source reports it. Kafka's source and ours do."""
    unread: list[int] = []
    for source in progress.sources:
        read_offsets = _parse_offsets(source.endOffset)
        unread += (max(0, end - read_offsets.get(key, 0)) for key, end in _parse_offsets(source.latestOffset).items())
    return sum(unread) if unread else None


@contextmanager
def show_progress(spark: SparkSession, stream: TextIO | None = None) -> Generator[ProgressLine]:
    """Write the progress of all streams of the session, to stderr by default, until the block ends."""
    line = ProgressLine(stream)
    spark.streams.addListener(line)
    try:
        yield line
        line.await_ends([str(query.runId) for query in spark.streams.active])
    finally:
        spark.streams.removeListener(line)


def _parse_offsets(text: object) -> dict[tuple[str, str], int]:
    """Parse offsets of the form {"topic": {"0": 5}}. For sources with another form, the result is empty."""
    try:
        topics = json.loads(str(text))
        return {
            (topic, number): int(offset)
            for topic, partitions in topics.items()
            for number, offset in partitions.items()
            if number.isdigit()  # Our source also has the topic's id there.
        }
    except (ValueError, AttributeError, TypeError):
        return {}
