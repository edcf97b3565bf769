"""Time of a broker, which moves when a test says so."""

import asyncio
import contextlib
import logging
import warnings
from datetime import timedelta
from functools import partial
from typing import cast

from minibroker.cluster.advice import MOVED_CLOCK
from minibroker.cluster.errors import (
    ConflictError,
    MinibrokerWarning,
    OperationError,
    are_warnings_collected,
    callers_line,
    is_the_callers,
)
from minibroker.cluster.partition import Partition
from minibroker.operations.records import topic_of
from minibroker.operations.wording import span
from minibroker.server.services import Services

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
    line = None if are_warnings_collected() else callers_line()
    services.core.logs.on_retained = partial(_tell_of_retention, services, line)
    services.core.clock.advance(seconds * 1000)
    _logger.info("the clock was moved on by %s", span(seconds))


def _tell_of_retention(services: Services, line: tuple[str, int] | None, partition: Partition) -> None:
    """Tell the user, once for each topic, that retention deleted records because the clock was moved on."""
    topic = partition.topic.name
    text = (
        f"retention has deleted records of {topic!r}: clients stamp them with the machine's time, and on the clock that"
        " was moved on they are older than retention.ms. retention.ms=-1 keeps them"
    )
    is_first = services.core.advised.advise(MOVED_CLOCK, topic, text)
    if is_first and line is not None:
        # Where warnings are errors, this one would end a chore of the broker's thread, and nobody would see it.
        with contextlib.suppress(MinibrokerWarning):
            warnings.warn_explicit(text, MinibrokerWarning, *line)


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
