"""Holds clients against their quotas, and says how long they have to wait (`ClientQuotaManager` and its kin).

`Services.quotas` is None until somebody has set one; requests pass without a look at it then. A client that is over
its quota is answered at once, with `throttle_time_ms`, and its connection is not read from for that long (KIP-219): a
client that does not keep to what it is told is made to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from minibroker.call import Parked
from minibroker.dispatch import Outcome, SlicedRequest, Waiting
from minibroker.quotas.entities import (
    CONNECTION,
    FETCH,
    MUTATION,
    PRODUCE,
    REQUEST,
    QuotaTable,
)
from minibroker.quotas.rates import Rate, TokenBucket
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import Splices, encode
from minibroker_protocol.frame import read_request_header

if TYPE_CHECKING:
    from minibroker.clock import Clock, Timer
    from minibroker.core import Core
    from minibroker.quotas.host_names import HostNames
    from minibroker.session import Session
    from minibroker_protocol.messages.fetch import FetchRequest, FetchResponse

_SECOND_MS: Final = 1000
_PERCENT: Final = 100
_MEMORY_MS: Final = 3_600_000
"""Who was not heard of for so long is forgotten (`InactiveSensorExpirationTimeSeconds`)."""
_REMEMBERED: Final = 1000
"""From so many clients on it is looked whom to forget."""
_MOST_REMEMBERED: Final = 10_000
"""So many are never remembered: clients choose their ids, and as many of them as they like."""
_LONGEST_ID: Final = 500
"""Of a client, in characters; ids that begin with the same ones share what they use."""
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

Take = Callable[..., Outcome]
Client = tuple[str, str]
"""Who shares a quota: a user's name and a client id, of which "" stands for all."""


class Quotas:
    """The quotas of a broker, and what its clients have used of them.

    Args:
        host_names: gives what looks up the hosts that quotas name.
    """

    def __init__(self, core: Core, table: QuotaTable, host_names: Callable[[], HostNames]) -> None:
        self._core = core
        self._table = table
        self._host_names = host_names
        config = core.config
        self._samples = config.integer("quota.window.num")
        self._step_ms = config.integer("quota.window.size.seconds") * _SECOND_MS
        self._mutation_window_s = config.integer("controller.quota.window.num") * config.integer(
            "controller.quota.window.size.seconds"
        )
        self._rates: dict[tuple[str, Client], tuple[Rate, float]] = {}
        self._full = _REMEMBERED
        self._buckets: dict[Client, TokenBucket] = {}
        self._addresses: dict[str, frozenset[str]] = {}

    # The way of a request

    def meter(self, frame: memoryview, session: Session, take: Take) -> Outcome:
        """Have a request served by `take`, and count what it has cost."""
        header = read_request_header(frame)
        begin = perf_counter_ns()
        outcome = take(frame, session)
        if header.api_key in _NEVER_THROTTLED:
            return outcome
        produced = len(frame) if header.api_key == ApiKey.PRODUCE else 0
        if isinstance(outcome, Waiting) and isinstance(outcome.parked, SlicedRequest):
            outcome.parked.amend = partial(self._charge, session, header.client_id or "", produced)
            return outcome
        return self._charge(session, header.client_id or "", produced, outcome, (perf_counter_ns() - begin) / 1e9)

    def _charge(self, session: Session, client_id: str, produced: int, outcome: Outcome, spent_s: float) -> Outcome:
        """Count what a request has cost, and hold its client back if that was too much."""
        wait_ms = self._used(REQUEST, session, client_id, spent_s * _PERCENT)
        wait_ms = min(wait_ms, self._step_ms)
        if produced:
            wait_ms = max(wait_ms, self._used(PRODUCE, session, client_id, produced))
        if not wait_ms:
            return outcome
        if isinstance(outcome, Waiting):
            return outcome._replace(parked=_Throttled(outcome.parked, session, wait_ms))
        session.muted_ms = max(session.muted_ms, wait_ms)
        if outcome is not None:
            _tell(outcome.response, wait_ms)
        return outcome

    def fetched(
        self, response: FetchResponse, request: FetchRequest, session: Session, client_id: str | None, version: int
    ) -> FetchResponse:
        """The answer to a fetch, or an empty one if there was too much in it: nothing is lost, it is to come again."""
        found = self._client(FETCH, session, client_id or "")
        if found is None:
            return response
        client, limit = found
        out = bytearray()
        splices: Splices = []
        encode(response, version, out, splices)
        size = len(out) + sum(splice.size for _, splice in splices)
        now_ms = self._core.clock.monotonic_ms()
        rate = self._rate(FETCH, client, now_ms)
        rate.record(size, now_ms)
        wait_ms = rate.throttle_ms(limit, now_ms)
        if not wait_ms:
            return response
        rate.record(-size, now_ms)
        session.muted_ms = max(session.muted_ms, wait_ms)
        goes_on = request.session_epoch > 0
        return type(response)(throttle_time_ms=wait_ms, session_id=response.session_id if goes_on else 0, responses=[])

    def fetch_bytes(self, session: Session, client_id: str | None) -> int | None:
        """As much as a fetch may have without being held back in any case; None where there is no limit."""
        found = self._client(FETCH, session, client_id or "")
        return None if found is None else int(found[1] * (self._samples - 1) * self._step_ms / _SECOND_MS)

    def mutate(self, session: Session, client_id: str | None, partitions: int, *, strict: bool) -> int:
        """Count partitions that are made or removed: how long to wait.

        With `strict` nothing is counted, and nothing may be done, if the client owes already.
        """
        found = self._client(MUTATION, session, client_id or "")
        if found is None:
            return 0
        client, limit = found
        now_ms = self._core.clock.monotonic_ms()
        bucket = self._buckets.get(client)
        if bucket is None:
            if len(self._buckets) >= _MOST_REMEMBERED:
                self._buckets = dict(list(self._buckets.items())[_MOST_REMEMBERED // 2 :])
            bucket = self._buckets[client] = TokenBucket(self._mutation_window_s, limit, now_ms)
        debt_ms = bucket.debt_ms(limit, now_ms)
        if strict and debt_ms:
            return debt_ms
        bucket.take(partitions, limit, now_ms)
        return 0 if strict else bucket.debt_ms(limit, now_ms)

    def connected(self, address: str, node_id: int) -> int:
        """Count a connection from an address to a broker: how long until it is closed; 0 if it may stay (KIP-612)."""
        limit = self._connection_limit(address)
        if limit is None:
            return 0
        now_ms = self._core.clock.monotonic_ms()
        rate = self._rate(CONNECTION, (address, str(node_id)), now_ms)
        rate.record(1, now_ms)
        wait_ms = min(rate.throttle_ms(limit, now_ms), self._step_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms

    # Whose quota, and how much of it is used

    def _used(self, key: str, session: Session, client_id: str, amount: float) -> int:
        found = self._client(key, session, client_id)
        if found is None:
            return 0
        client, limit = found
        now_ms = self._core.clock.monotonic_ms()
        rate = self._rate(key, client, now_ms)
        rate.record(amount, now_ms)
        return rate.throttle_ms(limit, now_ms)

    def _client(self, key: str, session: Session, client_id: str) -> tuple[Client, float] | None:
        """Who shares the quota that counts for a client, and the limit; the most particular one counts."""
        user, limit_of = session.principal.name, self._table.limit
        shared = client_id[:_LONGEST_ID]
        both, by_user, by_id = (user, shared), (user, ""), ("", shared)
        for client, limit in (
            (both, limit_of(key, user, client_id) if client_id else None),
            (both, limit_of(key, user, None)),
            (by_user, limit_of(key, user)),
            (both, limit_of(key, None, client_id) if client_id else None),
            (both, limit_of(key, None, None)),
            (by_user, limit_of(key, None)),
            (by_id, limit_of(key, client_id=client_id) if client_id else None),
            (by_id, limit_of(key, client_id=None)),
        ):
            if limit is not None:
                return client, limit
        return None

    def _connection_limit(self, address: str) -> float | None:
        hosts = self._table.hosts
        found = hosts.get(address)
        if found is None:
            found = next((values for host, values in hosts.items() if address in self._resolved(host)), None)
        if found is not None:
            return found.get(CONNECTION)
        return self._table.limit(CONNECTION, ip=None)

    def _resolved(self, host: str) -> frozenset[str]:
        """The addresses of a host, which are asked for once; none until they are known, or if it is gone."""
        known = self._addresses.get(host)
        if known is None:
            known = self._addresses[host] = frozenset()
            self._host_names().look_up(host, partial(self._addresses.__setitem__, host))
            known = self._addresses[host]
        return known

    def _rate(self, key: str, client: Client, now_ms: float) -> Rate:
        known = self._rates.get((key, client))
        rate = Rate(self._samples, self._step_ms) if known is None else known[0]
        if known is None and len(self._rates) >= self._full:
            self._forget(now_ms)
        self._rates[key, client] = rate, now_ms
        return rate

    def _forget(self, now_ms: float) -> None:
        """Make room: who was not heard of for long goes, then those who were not for longest."""
        lately = [(who, each) for who, each in self._rates.items() if now_ms - each[1] < _MEMORY_MS]
        if len(lately) >= _MOST_REMEMBERED:
            lately = sorted(lately, key=lambda known: known[1][1])[_MOST_REMEMBERED // 2 :]
        self._rates = dict(lately)
        self._full = min(max(_REMEMBERED, 2 * len(lately)), _MOST_REMEMBERED)


class _Throttled(Parked):
    """A parked request whose client has to wait once it is answered."""

    def __init__(self, inner: Parked, session: Session, wait_ms: int) -> None:
        self._inner = inner
        inner.deliver = partial(self._pass_on, session, wait_ms)

    def cancel(self) -> None:
        """The client has gone."""
        self._inner.cancel()

    def _pass_on(self, session: Session, wait_ms: int, response: Any) -> None:
        session.muted_ms = max(session.muted_ms, wait_ms)
        _tell(response, wait_ms)
        self.deliver(response)


class Muted(Parked):
    """Stands in the place of a request while a connection is not read from."""

    def __init__(self, clock: Clock, wait_ms: int, over: Callable[[], None]) -> None:
        self._timer: Timer = clock.call_later(wait_ms, over)

    def cancel(self) -> None:
        """The client has gone."""
        self._timer.cancel()


def _tell(response: Any, wait_ms: int) -> None:
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = max(response.throttle_time_ms, wait_ms)
