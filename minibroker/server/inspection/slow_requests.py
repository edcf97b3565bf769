"""The log of slow requests (`minibroker.slow.request.ms`)."""

import logging
from functools import partial
from typing import Final

from minibroker.security.principals import escape_for_log
from minibroker.server.inspection.recording import RecordedRequest, recording_of
from minibroker.server.services import Services

_logger: Final = logging.getLogger(__name__)
_LIMITS_OF_WAITS: Final = {
    "Fetch": "max_wait_ms",
    "ShareFetch": "max_wait_ms",
    "JoinGroup": "rebalance_timeout_ms",
    "SyncGroup": "",
}
"""The requests that wait for other clients, with the field that limits the wait."""


def log_slow_requests(services: Services, slow_ms: int) -> None:
    """Log each request that takes longer than `slow_ms`, not counting waits that its client intended."""
    recording_of(services).watch(partial(_log_if_slow, slow_ms))


def _log_if_slow(slow_ms: int, request: RecordedRequest) -> None:
    took_ms = request.duration_ms
    if took_ms is None:
        took_ms = request.origin.core.clock.monotonic_ms() - request.began_ms
    if took_ms <= slow_ms:
        return
    waited_ms = _waited_ms(request, took_ms)
    if took_ms - waited_ms <= slow_ms:
        return
    _logger.warning(
        "Slow request: %s v%d from %s %s took %.1f ms%s%s",
        request.api or "unreadable request",
        request.version,
        "a client without an id" if request.client_id is None else escape_for_log(request.client_id),
        request.connection,
        took_ms,
        f", {waited_ms:.1f} ms of them waiting for other clients" if waited_ms else "",
        ", and was not answered" if request.duration_ms is None else "",
    )


def _waited_ms(request: RecordedRequest, took_ms: float) -> float:
    """Return how long a request waited for records or other group members, at most as long as its client allowed."""
    field = _LIMITS_OF_WAITS.get(request.api)
    if field is None or request.waits_since_ms is None:
        return 0.0
    waited_ms = request.waited_ms
    if waited_ms is None:
        waited_ms = request.began_ms + took_ms - request.waits_since_ms
    limit_ms: int = getattr(request.request, field, -1) if field else -1
    return waited_ms if limit_ms < 0 else min(waited_ms, limit_ms)
