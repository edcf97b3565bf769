"""Writes to a tool's standard output and standard error."""

import json
import sys
import time
from collections.abc import Iterable, Sequence, Sized


def write(text: str) -> None:
    """Write text to standard output, without a newline."""
    sys.stdout.write(text)


def write_line(line: str = "") -> None:
    """Write a line to standard output."""
    sys.stdout.write(line + "\n")


def write_error_line(line: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(line + "\n")


def log(level: str, message: str, logger: str) -> None:
    """Write a log line to standard error."""
    write_error_line(log_line(level, message, logger))


def log_line(level: str, message: str, logger: str) -> str:
    """Return a log line in Kafka's format: time, level, message, logger."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return f"[{stamp},{int(now * 1000) % 1000:03d}] {level} {message} ({logger})"


def flush() -> None:
    """Flush standard output."""
    sys.stdout.flush()


def join_commas(values: Iterable[object]) -> str:
    """Join values with commas."""
    return ",".join(map(str, values))


def plural_suffix(items: Sized) -> str:
    """Return the plural suffix for a noun: "" for one item, otherwise "s"."""
    return "" if len(items) == 1 else "s"


def format_row(cells: Sequence[object], widths: Sequence[int]) -> str:
    """Join cells with spaces, each padded to its width. A width of 0 adds no padding."""
    return " ".join(str(cell).ljust(width) for cell, width in zip(cells, widths, strict=True))


def compact_json(content: object, *, ensure_ascii: bool = True) -> str:
    """Return a value as one line of JSON without spaces, as Kafka's tools print it."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=ensure_ascii)


def print_table(headers: str, rows: Iterable[Sequence[object]]) -> None:
    """Print a table. Each column is as wide as its longest cell, and a tab follows each cell.

    Args:
        headers: The column headers, separated by spaces.
        rows: The cells of each row.
    """
    cells = [headers.split(), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        write_line("".join(f"{cell.ljust(width)}\t" for cell, width in zip(row, widths, strict=True)))
