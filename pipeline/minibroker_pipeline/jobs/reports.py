"""Tables for terminals."""

from collections.abc import Sequence

_GAP = "  "


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = ()) -> str:
    """Lines with columns as wide as they must be; columns are set to the right, those in `left` to the left."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    lines = [
        _GAP.join(
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (titles, rule, *rows)
    ]
    return "\n".join(lines) + "\n"


def bytes_text(size: float) -> str:
    """A number of bytes with three digits and a unit."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(size) < 1000:  # noqa: PLR2004 - units go by thousands
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"
