"""Rates that are compared with quotas.

The arithmetic is Kafka's (`SampledStat`, `Rate`, `TokenBucket`, `QuotaUtils`), because it determines how long
clients are throttled. Times are in milliseconds on the monotonic clock.
"""

from collections import deque
from typing import Final

_SECOND_MS: Final = 1000


class Rate:
    """A rate per second over a sliding window.

    Args:
        samples: The number of samples in the window, including the current one.
        step_ms: The length of a sample, in milliseconds.
    """

    __slots__ = ("_samples", "_step_ms", "_steps")

    def __init__(self, samples: int, step_ms: int) -> None:
        self._samples = samples
        self._step_ms = step_ms
        self._steps: deque[list[float]] = deque(maxlen=samples)
        """[begin, sum] of each sample, the newest one last."""

    def record(self, value: float, now_ms: float) -> None:
        """Add a value to the current sample."""
        if not self._steps or now_ms - self._steps[-1][0] >= self._step_ms:
            self._steps.append([now_ms, 0.0])
        self._steps[-1][1] += value

    def window_ms(self, now_ms: float) -> float:
        """Return the length of the window in milliseconds, which is at least that of all samples but one."""
        self._forget(now_ms)
        elapsed = now_ms - self._steps[0][0] if self._steps else 0.0
        missing = self._samples - 1 - int(elapsed // self._step_ms)
        return elapsed + max(0, missing) * self._step_ms

    def measure(self, now_ms: float) -> float:
        """Return the rate per second."""
        window = self.window_ms(now_ms)
        return sum(value for _, value in self._steps) / (window / _SECOND_MS) if window else 0.0

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        """Return the milliseconds until the rate falls to `limit` if nothing is added, or 0 if it is no higher."""
        rate = self.measure(now_ms)
        if rate <= limit:
            return 0
        return round((rate - limit) / limit * self.window_ms(now_ms))

    def _forget(self, now_ms: float) -> None:
        while self._steps and now_ms - self._steps[0][0] >= self._samples * self._step_ms:
            self._steps.popleft()


class TokenBucket:
    """A bucket of tokens that refills at a constant rate. Taking more tokens than it has creates a debt (KIP-599).

    Args:
        window_s: The time in which an empty bucket is refilled, in seconds.
        limit: The number of tokens added per second.
        now_ms: The current time, in milliseconds.
    """

    __slots__ = ("_filled_ms", "_tokens", "_window_s")

    def __init__(self, window_s: float, limit: float, now_ms: float) -> None:
        self._window_s = window_s
        self._tokens = limit * window_s
        self._filled_ms = now_ms

    def take(self, tokens: float, limit: float, now_ms: float) -> None:
        """Take tokens. If there are too few, the bucket goes into debt."""
        self._fill(limit, now_ms)
        self._tokens = min(self._window_s * limit, self._tokens - tokens)

    def debt_ms(self, limit: float, now_ms: float) -> int:
        """Return the milliseconds until the debt is repaid."""
        self._fill(limit, now_ms)
        return round(-self._tokens / limit * _SECOND_MS) if self._tokens < 0 else 0

    def _fill(self, limit: float, now_ms: float) -> None:
        self._tokens = min(self._window_s * limit, self._tokens + limit * (now_ms - self._filled_ms) / _SECOND_MS)
        self._filled_ms = now_ms
