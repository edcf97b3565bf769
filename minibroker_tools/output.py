"""Standard output and standard error of a tool."""

import sys
import time
from collections.abc import Iterable, Sequence, Sized


def write(text: str) -> None:
    """Text on standard output, without an end of the line."""
    sys.stdout.write(text)


def out(line: str = "") -> None:
    """A line on standard output."""
    sys.stdout.write(line + "\n")


def err(line: str) -> None:
    """A line on standard error."""
    sys.stderr.write(line + "\n")


def log(level: str, message: str, logger: str) -> None:
    """A line on standard error as Kafka's tools log: time, level, message, logger."""
    err(_stamped(level, message, logger))


def out_log(level: str, message: str, logger: str) -> None:
    """A line on standard output as Kafka's servers log."""
    out(_stamped(level, message, logger))


def _stamped(level: str, message: str, logger: str) -> str:
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return f"[{stamp},{int(now * 1000) % 1000:03d}] {level} {message} ({logger})"


def flush() -> None:
    """Hand what was written to the operating system."""
    sys.stdout.flush()


def joined(values: Iterable[object]) -> str:
    """Values with commas between them."""
    return ",".join(map(str, values))


def plural_s(things: Sized) -> str:
    """The end of a noun for so many things: "s", but for one of them."""
    return "" if len(things) == 1 else "s"


def row(cells: Sequence[object], widths: Sequence[int]) -> str:
    """Cells with a space between them, each filled up to its width; 0 fills nothing."""
    return " ".join(str(cell).ljust(width) for cell, width in zip(cells, widths, strict=True))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns that are as wide as their longest cell, each with a tab behind it."""
    cells = [tuple(headers), *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        out("".join(f"{cell.ljust(width)}\t" for cell, width in zip(row, widths, strict=True)))
