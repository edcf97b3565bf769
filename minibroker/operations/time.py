"""Time of a broker, which moves when a test says so."""

import asyncio
import logging
from datetime import timedelta
from typing import cast

from minibroker.errors import ConflictError, OperationError, is_the_callers
from minibroker.operations.records import topic_of
from minibroker.operations.wording import span
from minibroker.services import Services

_logger = logging.getLogger(__name__)

__tracebackhide__ = is_the_callers


def advance_clock(services: Services, by: float | timedelta) -> None:
    """Move the broker's time on, by seconds or a `timedelta`. Sessions, transactions and delayed requests time out."""
    seconds = cast("object", by.total_seconds() if isinstance(by, timedelta) else by)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise OperationError(f"advance: {seconds!r} is neither a number of seconds nor a timedelta")
    if not seconds <= timedelta.max.total_seconds():  # nor is "not a number"
        raise OperationError(f"advance: {seconds} s: no broker lives that long")
    if seconds < 0:
        raise OperationError(f"advance: {seconds} s: time does not go back")
    services.core.writes.commit()
    services.core.clock.advance(seconds * 1000)
    _logger.info("the clock was moved on by %s", span(seconds))


def run_retention(services: Services) -> int:
    """Delete what is not to be kept any longer, now; returns how many segments went."""
    services.core.writes.commit()
    return services.core.logs.apply_retention()


async def compact(services: Services, topic: str | None = None) -> None:
    """Compact all compacted topics, or make sure that one is, and wait until it is done. `OperationError`.

    Each log begins a new segment before, so that all there was until now is compacted.
    """
    if topic is not None and not topic_of(services, topic).is_compacted:
        raise ConflictError(f"topic {topic!r} is not compacted: its cleanup.policy has no 'compact'")
    if not services.core.config.boolean("log.cleaner.enable"):
        raise ConflictError("log.cleaner.enable is false")
    services.core.writes.commit()
    done = asyncio.Event()
    services.core.logs.compact(roll=True, then=done.set)
    await done.wait()
