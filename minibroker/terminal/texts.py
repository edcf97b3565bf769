"""Values as short texts."""

import time
from typing import Any, Final

_KIB: Final = 1024
_LARGE: Final = 10_000
_SECOND_MS: Final = 1000


def size(count: int) -> str:
    """Bytes: "1,234 B", "56 KiB"."""
    return f"{count:,} B" if count < _LARGE else f"{round(count / _KIB):,} KiB"


def duration(ms: float | None) -> str:
    """Milliseconds; empty for None."""
    if ms is None:
        return ""
    return f"{ms:.2f} ms" if ms < _SECOND_MS else f"{ms / _SECOND_MS:.1f} s"


def time_of_day(ms: int) -> str:
    """A time of day, 14:03:59.125, of ms since the epoch."""
    return f"{time.strftime('%H:%M:%S', time.localtime(ms / _SECOND_MS))}.{ms % _SECOND_MS:03}"


def number(value: int | None) -> str:
    """1,234; empty for None."""
    return "" if value is None else f"{value:,}"


def place(partition: dict[str, Any]) -> str:
    """The name of a partition: orders-0."""
    return f"{partition['topic']}-{partition['partition']}"
