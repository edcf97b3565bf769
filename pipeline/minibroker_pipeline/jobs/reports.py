"""Code shared by the reports of the jobs: counts that add up, JSON for programs, and tables for terminals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

_COLUMN_GAP = "  "


@dataclass(slots=True)
class Sums:
    """Counts for a part of the work. The counts of all parts add up to those of the whole."""

    def add(self, other: Self) -> None:
        """Add the counts of another part."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    @classmethod
    def sum_of(cls, parts: Iterable[Self]) -> Self:
        """Return the total counts of these parts."""
        total = cls()
        for part in parts:
            total.add(part)
        return total


def as_json(line: Any) -> dict[str, Any]:
    """Return the fields of a dataclass under their names in JSON.

    A field that holds `Sums` is replaced by the fields of the `Sums`.
    """
    members: dict[str, Any] = {}
    for field in fields(line):
        value = getattr(line, field.name)
        first, *other_words = field.name.split("_")
        members |= as_json(value) if isinstance(value, Sums) else {first + "".join(map(str.title, other_words)): value}
    return members


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = ()) -> str:
    """Format a table.

    Columns are as wide as necessary and right-aligned, except those in `left`, which are left-aligned.
    """
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    lines = [
        _COLUMN_GAP.join(
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (titles, rule, *rows)
    ]
    return "\n".join(lines) + "\n"


def bytes_text(size: float) -> str:
    """Format a number of bytes with three digits and a unit."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(size) < 1000:  # noqa: PLR2004 - units go by thousands
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"
