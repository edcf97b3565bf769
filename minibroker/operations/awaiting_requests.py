"""Waiting for requests of clients."""

from collections import Counter
from typing import Any

from minibroker.errors import is_the_callers
from minibroker.inspection.journal import Entry, Journal
from minibroker.operations.views.slicing import in_slices
from minibroker.operations.waiting import check_not_negative, eventually
from minibroker.operations.wording import counted
from minibroker.services import Services

__tracebackhide__ = is_the_callers


async def wait_for_requests(
    services: Services,
    journal: Journal,
    count: int,
    filters: dict[str, Any],
    timeout: float,  # noqa: ASYNC109 - part of what is asked
) -> list[Entry]:
    """Wait until the journal has `count` entries that fit; returns all that do. `WaitTimeoutError` lists the others."""
    check_not_negative("count", count, hint=f"; wait_for_requests(api={count!r}) waits for requests of an API")

    async def look() -> list[Entry] | None:
        found = await in_slices(services, journal.find(**filters))
        return found if len(found) >= count else None

    def complain() -> str:
        asked = ", ".join(f"{name}={value!r}" for name, value in filters.items() if value is not None) or "any"
        came = ", ".join(f"{name} {number}x" for name, number in Counter(each.api for each in journal).most_common())
        fitting = len(journal.entries(**filters))
        expected = f"expected {counted(count, 'request')} ({asked}) within {timeout:g} s"
        return f"{expected}, {fitting} came; all: {came or 'none'}"

    return await eventually(look, complain, timeout)
