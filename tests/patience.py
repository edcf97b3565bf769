"""The time limit for everything that tests wait for, and a configuration for slow tests."""

import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 300.0
"""Seconds to wait for an event before a test fails.

The limit only turns a hang into a failure, so a slow and busy machine must never reach it. A test that passes because
nothing happens needs its own, shorter time.
"""

NO_RETENTION: Final = {"log.retention.check.interval.ms": str((1 << 63) - 1)}
"""Configuration of a broker that keeps records of any age, however long a test takes.

Some tests write old timestamps, and a busy machine may need more than the five minutes until the first retention check.
"""


def eventually(condition: Callable[[], bool]) -> None:
    """Call `condition` without a pause until it returns True.

    Raises:
        AssertionError: the condition was never met.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
