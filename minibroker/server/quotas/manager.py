"""Holds clients against their quotas, and says how long they have to wait (`ClientQuotaManager` and its kin).

`Services.quotas` is None until one is set; requests pass without a look at it then. A client that is over
its quota is answered at once, with `throttle_time_ms`, and its connection is not read from for that long (KIP-219): a
client that does not wait is made to.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.server.quotas.entities import (
    CONNECTION,
    FETCH,
    MUTATION,
    PRODUCE,
    REQUEST,
    QuotaTable,
)
from minibroker.server.quotas.rates import Rate, TokenBucket
from minibroker_protocol.codec import Splices, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.cluster.core import Core
    from minibroker.security.principals import Client
    from minibroker.server.quotas.host_names import HostNames
    from minibroker_protocol.messages.fetch import FetchRequest, FetchResponse
    from minibroker_protocol.messages.share_records import ShareFetchResponse

_SECOND_MS: Final = 1000
_PERCENT: Final = 100
_MEMORY_MS: Final = 3_600_000
"""A client without a request for so long is forgotten (`InactiveSensorExpirationTimeSeconds`)."""
_REMEMBERED: Final = 1000
"""From so many clients on it is looked whom to forget."""
_MOST_REMEMBERED: Final = 10_000
"""So many are never remembered: clients choose their ids, and as many of them as they like."""
_LONGEST_ID: Final = 500
"""Of a client, in characters; ids that begin with the same ones share what they use."""
Sharer = tuple[str, str]
"""The clients that share a quota: a user's name and a client id; "" stands for all."""


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
        self._rates: dict[tuple[str, Sharer], tuple[Rate, float]] = {}
        self._full = _REMEMBERED
        self._buckets: dict[Sharer, TokenBucket] = {}
        self._addresses: dict[str, frozenset[str]] = {}

    # The way of a request

    def used(self, session: Client, client_id: str, spent_s: float, produced: int) -> int:
        """Count what a request has cost, in seconds and produced bytes: for how many ms its client has to wait."""
        # At most one window (Kafka's `ClientRequestQuotaManager.maxThrottleTimeMs`): a single slow request must not
        # mute a client for minutes.
        wait_ms = min(self._used(REQUEST, session, client_id, spent_s * _PERCENT), self._step_ms)
        return max(wait_ms, self._used(PRODUCE, session, client_id, produced)) if produced else wait_ms

    def fetched(
        self, response: FetchResponse, request: FetchRequest, session: Client, client_id: str | None, version: int
    ) -> FetchResponse:
        """The answer to a fetch, or an empty one if there was too much in it: nothing is lost, it is to come again."""
        found = self._client(FETCH, session, client_id or "")
        if found is None:
            return response
        client, limit = found
        out = bytearray()
        splices: Splices = []
        # The size is known only in bytes on the wire, compact lengths and tags included, as Kafka counts it.
        encode(response, version, out, splices)
        size = len(out) + sum(splice.size for _, splice in splices)
        now_ms = self._core.clock.monotonic_ms()
        rate = self._rate(FETCH, client, now_ms)
        rate.record(size, now_ms)
        wait_ms = rate.throttle_ms(limit, now_ms)
        if not wait_ms:
            return response
        # Not sent, so not counted (`unrecordQuotaSensor`): a client could else never come below its quota.
        rate.record(-size, now_ms)
        session.muted_ms = max(session.muted_ms, wait_ms)
        # The client has not heard of a new session: with id 0 it opens another one.
        goes_on = request.session_epoch > 0
        return type(response)(throttle_time_ms=wait_ms, session_id=response.session_id if goes_on else 0, responses=[])

    def share_fetched(self, response: ShareFetchResponse, session: Client, client_id: str | None, version: int) -> None:
        """Count a share fetch. Its records are acquired, so they are sent, and the connection rests afterwards."""
        found = self._client(FETCH, session, client_id or "")
        if found is None:
            return
        client, limit = found
        out = bytearray()
        splices: Splices = []
        encode(response, version, out, splices)
        now_ms = self._core.clock.monotonic_ms()
        rate = self._rate(FETCH, client, now_ms)
        rate.record(len(out) + sum(splice.size for _, splice in splices), now_ms)
        response.throttle_time_ms = rate.throttle_ms(limit, now_ms)
        session.muted_ms = max(session.muted_ms, response.throttle_time_ms)

    def fetch_bytes(self, session: Client, client_id: str | None) -> int | None:
        """As much as a fetch may have without being held back in any case; None where there is no limit."""
        found = self._client(FETCH, session, client_id or "")
        return None if found is None else int(found[1] * (self._samples - 1) * self._step_ms / _SECOND_MS)

    def mutate(self, session: Client, client_id: str | None, partitions: int, *, strict: bool) -> int:
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
        # Newer clients know THROTTLING_QUOTA_EXCEEDED and retry; older ones are served, and muted (KIP-599).
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
        # Refused connections do not count, or a client that tries again at once would keep the rate above its limit.
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms

    # Whose quota, and how much of it is used

    def _used(self, key: str, session: Client, client_id: str, amount: float) -> int:
        found = self._client(key, session, client_id)
        if found is None:
            return 0
        client, limit = found
        now_ms = self._core.clock.monotonic_ms()
        rate = self._rate(key, client, now_ms)
        rate.record(amount, now_ms)
        return rate.throttle_ms(limit, now_ms)

    def _client(self, key: str, session: Client, client_id: str) -> tuple[Sharer, float] | None:
        """The clients that share the quota that counts for a client, and its limit; the most particular one counts."""
        user, limit_of = session.principal.name, self._table.limit
        shared = client_id[:_LONGEST_ID]
        both, by_user, by_id = (user, shared), (user, ""), ("", shared)
        # Kafka's order of precedence (`DefaultQuotaCallback`). A default of a user's clients counts for each client
        # alone, so that its usage is kept for the pair.
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
            # A host that was looked up before is answered before `look_up` returns.
            known = self._addresses[host]
        return known

    def _rate(self, key: str, client: Sharer, now_ms: float) -> Rate:
        known = self._rates.get((key, client))
        rate = Rate(self._samples, self._step_ms) if known is None else known[0]
        if known is None and len(self._rates) >= self._full:
            self._forget(now_ms)
        self._rates[key, client] = rate, now_ms
        return rate

    def _forget(self, now_ms: float) -> None:
        """Make room: drop the entries that have been idle for long, then the longest idle ones."""
        lately = [(client, each) for client, each in self._rates.items() if now_ms - each[1] < _MEMORY_MS]
        if len(lately) >= _MOST_REMEMBERED:
            lately = sorted(lately, key=lambda known: known[1][1])[_MOST_REMEMBERED // 2 :]
        self._rates = dict(lately)
        self._full = min(max(_REMEMBERED, 2 * len(lately)), _MOST_REMEMBERED)
