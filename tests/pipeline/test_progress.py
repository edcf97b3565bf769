"""Progress lines, without Spark."""

import io
from types import SimpleNamespace
from typing import Any

from minibroker_pipeline.progress import ProgressLine, describe


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def micro_batch(number: int, rows: int, read: str, there: str | None) -> Any:
    return SimpleNamespace(
        runId="run",
        batchId=number,
        numInputRows=rows,
        processedRowsPerSecond=1234.6,
        batchDuration=1500,
        sources=[SimpleNamespace(endOffset=read, latestOffset=there)],
    )


def report(line: ProgressLine, *, failure: str | None) -> None:
    line.onQueryStarted(_event(name="orders"))
    for number in range(2):
        line.onQueryProgress(_event(progress=micro_batch(number, 1000, '{"t": {"0": 5}}', '{"t": {"0": 7}}')))
    line.onQueryIdle(_event())
    line.onQueryTerminated(_event(exception=failure))


def _event(**fields: Any) -> Any:
    return SimpleNamespace(runId="run", **fields)


def test_a_micro_batch_is_described_with_what_it_has_left_unread() -> None:
    assert (
        describe(micro_batch(3, 12345, '{"a": {"0": 10, "1": 5}}', '{"a": {"0": 2010, "1": 5}, "b": {"0": 7}}'))
        == "batch 3, 12,345 rows (1,235 rows/s), 2,007 behind, 1,500 ms"
    )


def test_sources_that_tell_no_offsets_are_described_without() -> None:
    assert describe(micro_batch(0, 1, "{", None)) == "batch 0, 1 rows (1,235 rows/s), 1,500 ms"
    assert describe(micro_batch(0, 0, "[1]", '{"a": [1]}')) == "batch 0, 0 rows, 1,500 ms"


def test_in_a_file_each_micro_batch_has_a_line() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    report(line, failure="no broker\n  at somewhere")
    assert stream.getvalue().splitlines() == [
        "orders: started",
        "orders: batch 0, 1,000 rows (1,235 rows/s), 2 behind, 1,500 ms",
        "orders: batch 1, 1,000 rows (1,235 rows/s), 2 behind, 1,500 ms",
        "orders: failed: no broker",
    ]
    assert line.last == {"run": "orders: failed: no broker"}


def test_on_a_terminal_micro_batches_share_a_line() -> None:
    stream = Terminal()
    report(ProgressLine(stream), failure=None)
    assert stream.getvalue() == (
        "orders: started\n"
        "orders: batch 0, 1,000 rows (1,235 rows/s), 2 behind, 1,500 ms"
        "\r\x1b[Korders: batch 1, 1,000 rows (1,235 rows/s), 2 behind, 1,500 ms"
        "\r\x1b[Korders: ended\n"
    )
