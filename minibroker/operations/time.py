"""Operations on a broker's clock and on the tasks that depend on it."""

import asyncio
import contextlib
import logging
import warnings
from datetime import timedelta
from functools import partial
from typing import cast

from minibroker.cluster import errors
from minibroker.cluster.advice import MOVED_CLOCK
from minibroker.cluster.partition import Partition
from minibroker.operations.records import topic_of
from minibroker.operations.wording import format_duration
from minibroker.server.services import Services

_logger = logging.getLogger(__name__)

__tracebackhide__ = errors.is_the_callers


def advance_clock(services: Services, by: float | timedelta) -> None:
    """Advance the broker's clock by seconds or a `timedelta`.

    Sessions, transactions and delayed requests time out.
    """
    seconds = cast("object", by.total_seconds() if isinstance(by, timedelta) else by)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise errors.OperationError(f"advance: {seconds!r} is neither a number of seconds nor a timedelta")
    if not seconds <= timedelta.max.total_seconds():  # The condition is negated, so that it also rejects NaN.
        raise errors.OperationError(f"advance: {seconds} s: no broker lives that long")
    if seconds < 0:
        raise errors.OperationError(f"advance: {seconds} s: time does not go back")
    services.core.writes.commit()
    line = None if errors.are_warnings_collected() else errors.callers_line()
    services.core.logs.on_retained = partial(_warn_of_retention, services, line)
    services.core.clock.advance(seconds * 1000)
    _logger.info("the clock was moved on by %s", format_duration(seconds))


def _warn_of_retention(services: Services, line: tuple[str, int] | None, partition: Partition) -> None:
    """Warn once per topic that retention deleted records because the clock was advanced.

    A topic with a retention of its own is meant to lose them.
    """
    if "retention.ms" in partition.topic.config.overrides:
        return
    topic = partition.topic.name
    text = (
        f"retention has deleted records of {topic!r}: clients stamp them with the machine's time, and on the clock that"
        " was moved on they are older than retention.ms. retention.ms=-1 keeps them"
    )
    is_first = services.core.advice.advise(MOVED_CLOCK, topic, text)
    if is_first and line is not None:
        # A warning filter may turn the warning into an exception, which would silently end a background task of
        # the broker.
        with contextlib.suppress(errors.MinibrokerWarning):
            warnings.warn_explicit(text, errors.MinibrokerWarning, *line)


def run_retention(services: Services) -> int:
    """Delete all segments that are past their retention now, and return the number of deleted segments."""
    services.core.writes.commit()
    return services.core.logs.apply_retention()


async def compact(services: Services, topic: str | None = None) -> None:
    """Compact all compacted topics, or only `topic`, and wait until compaction is done.

    Each log begins a new segment first, so that all existing records are compacted.

    Raises:
        OperationError: the topic does not exist or is not compacted, or the cleaner is disabled.
    """
    if topic is not None and not topic_of(services, topic).is_compacted:
        raise errors.ConflictError(f"topic {topic!r} is not compacted: its cleanup.policy has no 'compact'")
    if not services.core.config.boolean("log.cleaner.enable"):
        raise errors.ConflictError("log.cleaner.enable is false")
    services.core.writes.commit()
    done = asyncio.Event()
    services.core.logs.compact(roll=True, then=done.set)
    await done.wait()
