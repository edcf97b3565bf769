"""Limits against schemas that take much work."""

import time
from typing import Final

CPU_SECONDS: Final = 0.5
"""The CPU time for reading a schema, or for comparing two."""
_CPU_SECONDS_PER_BYTE: Final = 5e-6
"""The additional time for each byte of data that is checked."""


class TooMuchWorkError(ValueError):
    """A comparison or a check has taken too much CPU time."""


class Deadline:
    """The limit for what the current thread does from here on, in CPU time.

    Args:
        data_bytes: The size of the data, if data is checked.
    """

    def __init__(self, data_bytes: int = 0) -> None:
        self._seconds = CPU_SECONDS + data_bytes * _CPU_SECONDS_PER_BYTE
        self._end = time.thread_time() + self._seconds

    def check(self) -> None:
        """Raise if the time is over.

        Raises:
            TooMuchWorkError: The time is over.
        """
        if time.thread_time() > self._end:
            raise TooMuchWorkError(f"This takes more than {self._seconds:.1f} seconds of CPU time")
