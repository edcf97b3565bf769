"""Compares the usage of clients with their quotas and computes throttle times (`ClientQuotaManager` and others).

`Services.quotas` is None until a quota is set, and requests are not measured until then. A client that is over
its quota is answered immediately, with `throttle_time_ms`, and its connection is not read for that time
(KIP-219). Clients that ignore the throttle time are thus throttled, too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.server.quotas.entities import CONNECTION, FETCH, MUTATION, PRODUCE, REQUEST, QuotaTable
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
_IDLE_EXPIRY_MS: Final = 3_600_000
"""The time without a request after which a client is forgotten (`InactiveSensorExpirationTimeSeconds`)."""
_FORGET_THRESHOLD: Final = 1000
"""Idle clients are forgotten once this many clients are known."""
_MAX_REMEMBERED: Final = 10_000
"""The maximum number of remembered clients. Clients can use any number of client ids."""
_MAX_CLIENT_ID_LENGTH: Final = 500
"""In characters. Longer client ids with the same beginning share their usage."""
Sharer = tuple[str, str]
"""The clients that share a quota: a user name and a client id. "" stands for all."""


class Quotas:
    """The quotas of a broker, and their usage by clients.

    Args:
        core: The core of the broker.
        table: The quotas.
        host_names: Returns the object that looks up hosts named in quotas.
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
        self._full = _FORGET_THRESHOLD
        self._buckets: dict[Sharer, TokenBucket] = {}
        self._addresses: dict[str, frozenset[str]] = {}

    def charge_request(self, session: Client, client_id: str, spent_s: float, produced: int) -> int:
        """Record the cost of a request in seconds and produced bytes, and return the throttle time in milliseconds."""
        # Limit the wait to one window (Kafka's `ClientRequestQuotaManager.maxThrottleTimeMs`), so that a single slow
        # request does not mute a client for minutes.
        wait_ms = min(self._charge_client(REQUEST, session, client_id, spent_s * _PERCENT), self._step_ms)
        return max(wait_ms, self._charge_client(PRODUCE, session, client_id, produced)) if produced else wait_ms

    def charge_fetch(
        self, response: FetchResponse, request: FetchRequest, session: Client, client_id: str | None, version: int
    ) -> FetchResponse:
        """Return the response to a fetch, or an empty response with a throttle time if the quota is exceeded."""
        quota = self._find_quota(FETCH, session, client_id or "")
        if quota is None:
            return response
        size = _encoded_size(response, version)
        wait_ms = self._charge(FETCH, quota, size)
        if not wait_ms:
            return response
        # A response that is not sent does not count (`unrecordQuotaSensor`). Otherwise the client could stay above its
        # quota forever.
        now_ms = self._core.clock.monotonic_ms()
        self._find_rate(FETCH, quota[0], now_ms).record(-size, now_ms)
        session.muted_ms = max(session.muted_ms, wait_ms)
        # Return id 0 instead of the id of a new session, so that the client opens another session.
        session_id = response.session_id if request.session_epoch > 0 else 0
        return type(response)(throttle_time_ms=wait_ms, session_id=session_id, responses=[])

    def charge_share_fetch(
        self, response: ShareFetchResponse, session: Client, client_id: str | None, version: int
    ) -> None:
        """Record a share fetch. Its records are already acquired, so it is sent. The connection is muted afterwards."""
        quota = self._find_quota(FETCH, session, client_id or "")
        if quota is not None:
            response.throttle_time_ms = self._charge(FETCH, quota, _encoded_size(response, version))
            session.muted_ms = max(session.muted_ms, response.throttle_time_ms)

    def fetch_bytes(self, session: Client, client_id: str | None) -> int | None:
        """Return the most bytes that a fetch can return without ever being throttled, or None if there is no quota."""
        quota = self._find_quota(FETCH, session, client_id or "")
        return None if quota is None else int(quota[1] * (self._samples - 1) * self._step_ms / _SECOND_MS)

    def charge_mutation(self, session: Client, client_id: str | None, partitions: int, *, strict: bool) -> int:
        """Record created or deleted partitions, and return the throttle time in milliseconds.

        With `strict`, a client that already exceeds its quota is refused: nothing is recorded, and the caller must
        not create or delete anything.
        """
        quota = self._find_quota(MUTATION, session, client_id or "")
        if quota is None:
            return 0
        client, limit = quota
        now_ms = self._core.clock.monotonic_ms()
        bucket = self._buckets.get(client)
        if bucket is None:
            if len(self._buckets) >= _MAX_REMEMBERED:
                self._buckets = dict(list(self._buckets.items())[_MAX_REMEMBERED // 2 :])
            bucket = self._buckets[client] = TokenBucket(self._mutation_window_s, limit, now_ms)
        debt_ms = bucket.debt_ms(limit, now_ms)
        # Newer clients retry after THROTTLING_QUOTA_EXCEEDED. Older ones are served and then muted (KIP-599).
        if strict and debt_ms:
            return debt_ms
        bucket.take(partitions, limit, now_ms)
        return 0 if strict else bucket.debt_ms(limit, now_ms)

    def charge_connection(self, address: str, node_id: int) -> int:
        """Record a connection from an address. Return the delay before it is closed, or 0 if it may stay (KIP-612)."""
        limit = self._connection_limit(address)
        if limit is None:
            return 0
        now_ms = self._core.clock.monotonic_ms()
        rate = self._find_rate(CONNECTION, (address, str(node_id)), now_ms)
        rate.record(1, now_ms)
        wait_ms = min(rate.throttle_ms(limit, now_ms), self._step_ms)
        # Refused connections do not count. Otherwise a client that retries immediately would keep the rate above the
        # limit.
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms

    def _charge_client(self, key: str, session: Client, client_id: str, amount: float) -> int:
        quota = self._find_quota(key, session, client_id)
        return 0 if quota is None else self._charge(key, quota, amount)

    def _charge(self, key: str, quota: tuple[Sharer, float], amount: float) -> int:
        """Record usage of a quota, and return the throttle time in milliseconds."""
        client, limit = quota
        now_ms = self._core.clock.monotonic_ms()
        rate = self._find_rate(key, client, now_ms)
        rate.record(amount, now_ms)
        return rate.throttle_ms(limit, now_ms)

    def _find_quota(self, key: str, session: Client, client_id: str) -> tuple[Sharer, float] | None:
        """Return the clients that share the most specific quota of a client, and its limit, or None without a quota."""
        user, limit_of = session.principal.name, self._table.limit
        shared = client_id[:_MAX_CLIENT_ID_LENGTH]
        by_both, by_user, by_id = (user, shared), (user, ""), ("", shared)
        # Kafka's order of precedence (`DefaultQuotaCallback`). A user's default client quota applies to each client
        # separately, so usage is tracked per user and client id.
        for client, limit in (
            (by_both, limit_of(key, user, client_id) if client_id else None),
            (by_both, limit_of(key, user, None)),
            (by_user, limit_of(key, user)),
            (by_both, limit_of(key, None, client_id) if client_id else None),
            (by_both, limit_of(key, None, None)),
            (by_user, limit_of(key, None)),
            (by_id, limit_of(key, client_id=client_id) if client_id else None),
            (by_id, limit_of(key, client_id=None)),
        ):
            if limit is not None:
                return client, limit
        return None

    def _connection_limit(self, address: str) -> float | None:
        hosts = self._table.hosts
        limits = hosts.get(address)
        if limits is None:
            limits = next((values for host, values in hosts.items() if address in self._resolve_host(host)), None)
        if limits is not None:
            return limits.get(CONNECTION)
        return self._table.limit(CONNECTION, ip=None)

    def _resolve_host(self, host: str) -> frozenset[str]:
        """Return the addresses of a host, which is looked up once. The result is empty until they are known."""
        addresses = self._addresses.get(host)
        if addresses is None:
            addresses = self._addresses[host] = frozenset()
            self._host_names().look_up(host, partial(self._addresses.__setitem__, host))
            # Read the entry again, because `look_up` calls back before it returns if the host was looked up before.
            addresses = self._addresses[host]
        return addresses

    def _find_rate(self, key: str, client: Sharer, now_ms: float) -> Rate:
        entry = self._rates.get((key, client))
        rate = Rate(self._samples, self._step_ms) if entry is None else entry[0]
        if entry is None and len(self._rates) >= self._full:
            self._forget(now_ms)
        self._rates[key, client] = rate, now_ms
        return rate

    def _forget(self, now_ms: float) -> None:
        """Drop clients that have been idle for an hour. If too many clients remain, drop those idle for longest."""
        recent = [(client, usage) for client, usage in self._rates.items() if now_ms - usage[1] < _IDLE_EXPIRY_MS]
        if len(recent) >= _MAX_REMEMBERED:
            recent = sorted(recent, key=lambda item: item[1][1])[_MAX_REMEMBERED // 2 :]
        self._rates = dict(recent)
        self._full = min(max(_FORGET_THRESHOLD, 2 * len(recent)), _MAX_REMEMBERED)


def _encoded_size(response: FetchResponse | ShareFetchResponse, version: int) -> int:
    """Return the size of the encoded response, with compact lengths and tags, as Kafka counts it."""
    out = bytearray()
    splices: Splices = []
    encode(response, version, out, splices)
    return len(out) + sum(splice.size for _, splice in splices)
