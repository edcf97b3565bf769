"""What time does to a broker: when a test says so."""

import asyncio
import logging
from datetime import timedelta
from typing import cast

from minibroker.operations.errors import ConflictError, OperationError, is_the_callers
from minibroker.operations.records import topic_of
from minibroker.operations.wording import span
from minibroker.state import BrokerState

_logger = logging.getLogger(__name__)

__tracebackhide__ = is_the_callers


def advance_clock(state: BrokerState, by: float | timedelta) -> None:
    """Move the broker's time on, by seconds or a `timedelta`. Sessions, transactions and parked requests time out."""
    seconds = cast("object", by.total_seconds() if isinstance(by, timedelta) else by)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise OperationError(f"advance: {seconds!r} is neither a number of seconds nor a timedelta")
    if not seconds <= timedelta.max.total_seconds():  # nor is "not a number"
        raise OperationError(f"advance: {seconds} s: no broker lives that long")
    if seconds < 0:
        raise OperationError(f"advance: {seconds} s: time does not go back")
    state.writes.commit()
    state.clock.advance(seconds * 1000)
    _logger.info("the clock was moved on by %s", span(seconds))


def run_retention(state: BrokerState) -> int:
    """Delete what is not to be kept any longer, now; returns how many segments went."""
    state.writes.commit()
    return state.logs.apply_retention()


async def compact(state: BrokerState, topic: str | None = None) -> None:
    """Compact all compacted topics, or make sure that one is, and wait until it is done. `OperationError`.

    Each log begins a new segment before, so that all there was until now is compacted.
    """
    if topic is not None and not topic_of(state, topic).is_compacted:
        raise ConflictError(f"topic {topic!r} is not compacted: its cleanup.policy has no 'compact'")
    if not state.config.boolean("log.cleaner.enable"):
        raise ConflictError("log.cleaner.enable is false")
    state.writes.commit()
    done = asyncio.Event()
    state.logs.compact(roll=True, then=done.set)
    await done.wait()
