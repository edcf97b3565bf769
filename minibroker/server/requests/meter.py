"""The quota interceptor: measures requests, and throttles clients over their quota (Kafka's `ClientQuotaManager`)."""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from minibroker.cluster.routing.outcomes import ChangedResponse, DelayedResponse, Outcome, Waiting
from minibroker.server.requests.dispatch import SlicedRequest
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.frame import read_request_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.clock import Clock, Timer
    from minibroker.cluster.routing.outcomes import FrameHandler
    from minibroker.server.quotas import Quotas
    from minibroker.server.requests.session import Session

_NEVER_THROTTLED: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.WRITE_TXN_MARKERS,
    }
)


def accept(quotas: Quotas, take: FrameHandler, frame: memoryview, session: Session) -> Outcome:
    """Serve a request with `take`, and charge its cost to the quotas of the broker."""
    header = read_request_header(frame)
    begin = perf_counter_ns()
    outcome = take(frame, session)
    # Requests from other brokers and SASL requests are not charged, because throttling them would delay other clients.
    if header.api_key in _NEVER_THROTTLED:
        return outcome
    # Like Kafka's `request.sizeInBytes`, the size includes the whole frame.
    produced = len(frame) if header.api_key == ApiKey.PRODUCE else 0
    charge = partial(_charge, quotas, session, header.client_id or "", produced)
    if isinstance(outcome, Waiting) and isinstance(outcome.delayed, SlicedRequest):
        # The cost of this request is the total time of its slices, which is known only at the end.
        outcome.delayed.amend = charge
        return outcome
    return charge(outcome, (perf_counter_ns() - begin) / 1e9)


def _charge(
    quotas: Quotas, session: Session, client_id: str, produced: int, outcome: Outcome, spent_s: float
) -> Outcome:
    """Charge the cost of a request, and throttle its client if it exceeds a quota."""
    # A handler mutes a client that is over its quota for mutations or fetched bytes.
    wait_ms = max(quotas.charge_request(session, client_id, spent_s, produced), session.muted_ms)
    if not wait_ms:
        return outcome
    throttle = partial(_throttle, session, wait_ms)
    if isinstance(outcome, Waiting):
        return outcome._replace(delayed=ChangedResponse(outcome.delayed, throttle))
    throttle(None if outcome is None else outcome.response)
    return outcome


class Muted(DelayedResponse):
    """A placeholder for a request, used while nothing is read from a throttled connection."""

    def __init__(self, clock: Clock, wait_ms: int, over: Callable[[], None]) -> None:
        self._timer: Timer = clock.call_later(wait_ms, over)

    def cancel(self) -> None:
        """Stop waiting because the client disconnected."""
        self._timer.cancel()

    def waits_for(self) -> str:
        """Return what the connection waits for, see `DelayedResponse`."""
        return "its quota to have room again"


def _throttle(session: Session, wait_ms: int, response: Any) -> Any:
    """Mute a connection, and report the throttle time in a response that has a field for it."""
    session.muted_ms = max(session.muted_ms, wait_ms)
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = max(response.throttle_time_ms, wait_ms)
    return response
