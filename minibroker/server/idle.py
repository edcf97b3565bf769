"""Idle connections, closed after `connections.max.idle.ms` (Kafka's `IdleExpiryManager`)."""

import logging
from typing import TYPE_CHECKING, Final

from minibroker.clock import Clock, Timer

if TYPE_CHECKING:
    from collections.abc import Collection

    # Which knows this module.
    from minibroker.server.connection_quotas import ConnectionPermit

_logger: Final = logging.getLogger(__name__)
_STEP_MS: Final = 300
"""Connections are looked at no more often than that; a network thread of Kafka looks as often."""


class IdleExpiry:
    """One timer for all connections, at the time when the one that is silent for longest may have to go.

    A connection that waits for an answer is as silent as any other, as in Kafka.

    Args:
        longest_ms: how long a connection may be silent; less than nothing is for ever.
        permits: the connections, as they come and go.
    """

    def __init__(self, clock: Clock, longest_ms: int, permits: "Collection[ConnectionPermit]") -> None:
        self._clock = clock
        self._longest_ms = longest_ms
        self._permits = permits
        self._timer: Timer | None = None

    def watch(self) -> None:
        """There is a connection."""
        if self._timer is None and self._longest_ms >= 0:
            self._look_after(self._longest_ms)

    def stop(self) -> None:
        """Look no more."""
        self._longest_ms = -1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_after(self, delay_ms: float) -> None:
        self._timer = self._clock.call_later(delay_ms, self._look)

    def _look(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        limit_ms = now_ms - self._longest_ms
        silent = [permit for permit in self._permits if permit.active_ms <= limit_ms]
        for permit in silent:
            if not self._is_taking(permit, now_ms):
                _logger.info(
                    "Closing a connection from %s: silent for %d ms", permit.address, now_ms - permit.active_ms
                )
                permit.close()
        if self._permits:
            oldest_ms = min(permit.active_ms for permit in self._permits)
            self._look_after(max(_STEP_MS, oldest_ms + self._longest_ms - now_ms))

    @staticmethod
    def _is_taking(permit: "ConnectionPermit", now_ms: float) -> bool:
        """Has the client read something of a long answer since the last look?"""
        before, permit.seen_unsent = permit.seen_unsent, permit.unsent()
        if not permit.seen_unsent or before == permit.seen_unsent:
            return False
        permit.active_ms = now_ms
        return True
