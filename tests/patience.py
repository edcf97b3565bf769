"""The one limit for everything that a test waits for, and what must not happen while it waits."""

import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 300.0
"""Seconds to wait for an event before a test fails.

It only turns a hang into a failure: a slow, busy machine must never reach it. A test that passes because nothing
happens needs a short time of its own.
"""

NO_RETENTION: Final = {"log.retention.check.interval.ms": str((1 << 63) - 1)}
"""The configuration of a broker that keeps records of any age, however long its tests take.

Some write timestamps of long ago, and a busy machine may need more than the five minutes until the first check.
"""


def eventually(condition: Callable[[], bool]) -> None:
    """Ask again until it is so; asking is the only pause. AssertionError if it never is."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
