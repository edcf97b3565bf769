"""Quotas: the entities and their limits, the throttling of requests (Kafka's `ClientQuotaManager`), and host names.

An entity is a user, a client id, both, or an address. Each part is a name, or None for the default. The section
"quotas" of the cluster metadata lists them:

    [{"entity": {"user": "alice", "client-id": null}, "values": {"producer_byte_rate": 1024.0}}]
"""

from __future__ import annotations

import math
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from minibroker.clock import Clock
from minibroker.cluster.cluster_metadata import ClusterMetadata
from minibroker.cluster.durability import Background
from minibroker.server.rates import Rate, TokenBucket
from minibroker_protocol.codec import Splices, encode

if TYPE_CHECKING:
    from minibroker.cluster.core import Core
    from minibroker.security.principals import Client
    from minibroker_protocol.messages.fetch import FetchRequest, FetchResponse
    from minibroker_protocol.messages.share_records import ShareFetchResponse


USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"
_INTEGRAL: Final = {
    PRODUCE: ("a LONG", float((1 << 63) - 1)),  # 2^63 as a double, which Kafka treats as unlimited.
    FETCH: ("a LONG", float((1 << 63) - 1)),
    CONNECTION: ("an INT", float((1 << 31) - 1)),
}
"""The keys with integral values, with their types and limits in Kafka (`QuotaConfig`)."""
_OF_CLIENTS: Final = frozenset({PRODUCE, FETCH, REQUEST, MUTATION})
_OF_ADDRESSES: Final = frozenset({CONNECTION})
_EPSILON: Final = 1e-6
_SECTION: Final = "quotas"

Entity = frozenset[tuple[str, str | None]]
"""Pairs of entity type and name. The name is None for the default."""

Values = Mapping[str, float]


class QuotaError(ValueError):
    """An error for an entity that cannot have quotas, or for an invalid value. Clients get INVALID_REQUEST."""


def keys_of(
    entity: Iterable[tuple[str, str | None]], addresses: Mapping[str, frozenset[str]] = MappingProxyType({})
) -> frozenset[str]:
    """Return the quota keys that apply to an entity.

    Args:
        entity: Pairs of entity type and name.
        addresses: The addresses of hosts, by host name.

    Raises:
        QuotaError: The entity is invalid (`ClientQuotaControlManager`).
    """
    names: dict[str, str | None] = {}
    for kind, name in entity:
        if kind in names:
            raise QuotaError(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in ENTITY_TYPES:
            raise QuotaError(f"Unhandled client quota entity type: {kind}")
        if not name and name is not None:
            raise QuotaError(f"Empty {kind} not supported")
        names[kind] = name
    if names.keys() == {IP}:
        host = names[IP]
        if host is not None and not addresses.get(host):
            raise QuotaError(f"{host} is not a valid IP or resolvable host.")
        return _OF_ADDRESSES
    if IP in names:
        # Kafka's message lacks the space, too.
        raise QuotaError("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    if not names:
        raise QuotaError("Invalid empty client quota entity")
    return _OF_CLIENTS


def check_value(keys: frozenset[str], key: str, value: float) -> None:
    """Check that `value` is a valid limit for `key`.

    Raises:
        QuotaError: The key is not one of `keys`, or the value is invalid.
    """
    if key not in keys:
        raise QuotaError(f"Invalid configuration key {key}")
    if not math.isfinite(value):
        raise QuotaError(f"Quota {key} must be a finite number")
    if value <= 0:
        raise QuotaError(f"Quota {key} must be greater than 0")
    if key in _INTEGRAL:
        name, maximum = _INTEGRAL[key]
        if value > maximum:
            raise QuotaError(f"Proposed value for {key} is too large for {name}.")
        if value % 1 > _EPSILON:
            raise QuotaError(f"{key} cannot be a fractional value.")


class QuotaTable:
    """All quotas, by entity.

    Args:
        metadata: The cluster metadata.
        changed: Called after each change from any source.

    Attributes:
        hosts: The limits of hosts, by address or host name.
    """

    def __init__(self, metadata: ClusterMetadata, changed: Callable[[], None]) -> None:
        self._metadata = metadata
        self._changed = changed
        self._load_rows(self._read())
        metadata.replaced.subscribe(self._reload)

    def __len__(self) -> int:
        return len(self._by_entity)

    def items(self) -> Iterable[tuple[Entity, Values]]:
        """Return all entities with their limits."""
        return self._by_entity.items()

    def limit(self, key: str, user: str | None = "", client_id: str | None = "", ip: str | None = "") -> float | None:
        """Return a limit of exactly this entity. A part is "" if the entity lacks it, and None for the default."""
        parts = ((USER, user), (CLIENT_ID, client_id), (IP, ip))
        values = self._by_entity.get(frozenset((kind, name) for kind, name in parts if name is None or name))
        return None if values is None else values.get(key)

    def alter(self, changes: Mapping[Entity, Mapping[str, float | None]]) -> None:
        """Set or remove several limits together. A limit of None is removed.

        Raises:
            OSError: The file cannot be written. In this case no limit has changed.
        """
        rows = dict(self._rows)
        for entity, ops in changes.items():
            values = {**self._by_entity.get(entity, {}), **ops}
            limits = {key: value for key, value in values.items() if value is not None}
            if limits:
                rows[entity] = {"entity": dict(entity), "values": limits}
            else:
                rows.pop(entity, None)
        self._metadata.write(_SECTION, list(rows.values()) or None)
        self._load_rows(rows)
        self._changed()

    def _reload(self) -> None:
        self._load_rows(self._read())
        self._changed()

    def _load_rows(self, rows: dict[Entity, dict[str, Any]]) -> None:
        self._rows = rows  # The same objects are written again, because their JSON text is cached.
        self._by_entity: dict[Entity, Values] = {entity: row["values"] for entity, row in rows.items()}
        self.hosts: dict[str, Values] = {
            name: values for entity, values in self._by_entity.items() for kind, name in entity if kind == IP and name
        }

    def _read(self) -> dict[Entity, dict[str, Any]]:
        rows: list[dict[str, Any]] = self._metadata.read(_SECTION) or []
        return {frozenset(row["entity"].items()): row for row in rows}


_MAX_CACHED_HOSTS: Final = 1_000
_MAX_WAITING_HOSTS: Final = 1_000
_MAX_NAME_LENGTH: Final = 253
Addresses = frozenset[str]
Done = Callable[[Addresses], None]


def addresses_of(host: str, flags: int = 0) -> Addresses:
    """Return the addresses of a host from the system's resolver, or an empty set if the host is unknown."""
    try:
        return frozenset(str(info[4][0]) for info in socket.getaddrinfo(host, None, flags=flags))
    except (OSError, UnicodeError):  # UnicodeError means that DNS cannot encode the name.
        return frozenset()


class HostNames:
    """Host names and their addresses.

    Args:
        clock: Limits how long a request waits.
        background: Runs a function on a thread that nothing waits for, then another one on the event loop.
    """

    def __init__(self, clock: Clock, background: Background) -> None:
        self._clock = clock
        self._background = background
        self._cached: dict[str, Addresses] = {}
        self._waiting: dict[str, list[Done]] = {}
        self._queue: deque[str] = deque()
        self._is_busy = False

    def cached_addresses(self, host: str) -> Addresses | None:
        """Return the addresses of a host if they are known without asking the resolver, else None."""
        cached = self._cached.get(host)
        if cached is None and (len(host) > _MAX_NAME_LENGTH or "\0" in host):
            return frozenset()
        return cached or addresses_of(host, socket.AI_NUMERICHOST) or None

    def look_up(self, host: str, done: Done) -> None:
        """Look up a host and call `done` with its addresses: none if it is unknown or too many look-ups are pending."""
        cached = self.cached_addresses(host)
        if cached is None and host not in self._waiting and len(self._waiting) >= _MAX_WAITING_HOSTS:
            cached = frozenset[str]()
        if cached is not None:
            done(cached)
            return
        if host not in self._waiting:
            self._waiting[host] = []
            self._queue.append(host)
        self._waiting[host].append(done)
        self._start_lookup()

    def resolve_all(
        self, hosts: Iterable[str], timeout_ms: float, done: Callable[[dict[str, Addresses]], None]
    ) -> None:
        """Look up hosts, then call `done` once, with the addresses found before the timeout."""
        results: dict[str, Addresses] = {}

        def store(host: str, addresses: Addresses) -> None:
            results[host] = addresses
            if len(results) == len(pending):
                end()

        def end() -> None:
            timer.cancel()
            for host, callback in pending.items():
                self.forget(host, callback)
            done(results)

        pending: dict[str, Done] = {host: partial(store, host) for host in dict.fromkeys(hosts)}
        timer = self._clock.call_later(timeout_ms, end)
        for host, callback in pending.items():
            self.look_up(host, callback)
        if not pending:
            end()

    def forget(self, host: str, done: Done) -> None:
        """Cancel a pending call of `done`. A host that no request waits for is not looked up."""
        waiting = self._waiting.get(host, [])
        if done in waiting:
            waiting.remove(done)
            if not waiting and host in self._queue:
                self._queue.remove(host)
                del self._waiting[host]

    def _start_lookup(self) -> None:
        if self._queue and not self._is_busy:
            self._is_busy = True
            host = self._queue.popleft()
            results: list[Addresses] = []
            self._background(lambda: results.append(addresses_of(host)), partial(self._on_found, host, results))

    def _on_found(self, host: str, results: list[Addresses]) -> None:
        self._is_busy = False
        addresses = results[0] if results else frozenset[str]()
        if addresses:
            if len(self._cached) >= _MAX_CACHED_HOSTS:
                del self._cached[next(iter(self._cached))]
            self._cached[host] = addresses
        for done in self._waiting.pop(host, ()):
            done(addresses)
        self._start_lookup()


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
