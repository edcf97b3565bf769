"""Metrics that clients push to the broker (KIP-714), by the rules of Kafka's `ClientMetricsManager`.

Where Kafka hands the metrics to a plugin, the last ones of each client are kept here.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from minibroker.cluster.core import Core
from minibroker.config.client_metrics import ALL_METRICS, DEFAULT_INTERVAL_MS, MATCHED, ClientMetricsConfig
from minibroker.config.keys import ConfigResourceType
from minibroker.server.telemetry.otlp import ClientMetric, read_metrics
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.header import crc32c
from minibroker_protocol.uuids import uuid_text

KEPT: Final = 10
"""Pushes of each client that are kept."""
_MOST_CLIENTS: Final = 16_384
_LONGEST: Final = 500
"""Characters of what a client says of itself that are kept."""
_MOST_BYTES: Final = 64 << 20
"""Of all pushes that are kept, but for the newest one; any client that may connect can send them."""
_SHORTEST_LIFE_MS: Final = 60_000
_LIFE_IN_INTERVALS: Final = 3
_NEVER: Final = -(10**12)


@dataclass(frozen=True, slots=True)
class TelemetryPush:
    """The metrics that a client has sent at once.

    Attributes:
        client_instance_id: as Kafka writes uuids.
        timestamp: milliseconds since the epoch, when it came.
        is_last: whether the client has said that it is going.
        data: OTLP MetricsData v1 in protobuf, not compressed.
    """

    client_instance_id: str
    client_id: str
    client_host: str
    timestamp: int
    is_last: bool
    data: bytes

    def metrics(self) -> list[ClientMetric]:
        """The sums and gauges in it. ValueError when `data` is no OTLP."""
        return read_metrics(self.data)


class ClientInstance:
    """One client, as `ClientMetricsInstance`: what it is asked for, and when it was last heard.

    Attributes:
        subscription_id: names what it is asked for.
        is_gone: it has sent its last metrics.
        last_error: of its last request.
    """

    def __init__(self, metrics: list[str], interval_ms: int, subscription_id: int) -> None:
        self.metrics = metrics
        self.interval_ms = interval_ms
        self.subscription_id = subscription_id
        self.is_gone = False
        self.last_error = ErrorCode.NONE
        self.seen_ms = 0.0
        self._asked_ms: float = _NEVER
        self._pushed_ms: float = _NEVER

    def may_ask(self, now_ms: float) -> bool:
        """Whether it may ask what to send, an interval after its last request."""
        if now_ms - max(self._asked_ms, self._pushed_ms) < self.interval_ms:
            return False
        self._asked_ms = now_ms
        return True

    def may_push(self, now_ms: float) -> bool:
        """Whether it may send metrics: at any time once it has asked, then an interval after the last ones."""
        if self._asked_ms <= self._pushed_ms and now_ms - self._pushed_ms < self.interval_ms:
            return False
        self._pushed_ms = now_ms
        return True


class Telemetry:
    """The clients and subscriptions of a broker."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._clients: dict[bytes, ClientInstance] = {}
        self._subscriptions: list[ClientMetricsConfig] = []
        self._pushes: dict[bytes, deque[TelemetryPush]] = {}
        self._kept_bytes = 0
        self.max_bytes = core.config.integer("telemetry.max.bytes")
        self.resubscribe()

    def resubscribe(self) -> None:
        """The subscriptions have changed; what clients are asked for is worked out again with their next request."""
        altered = self._core.configs.all_of(ConfigResourceType.CLIENT_METRICS)
        self._subscriptions = [ClientMetricsConfig(texts) for texts in altered.values()]
        self._clients.clear()

    def forget(self) -> None:
        """Nothing was ever sent."""
        self._clients.clear()
        self._pushes.clear()
        self._kept_bytes = 0

    def client(self, instance_id: bytes, identity: Mapping[str, str]) -> ClientInstance:
        """The client with this id, which may be new; `identity` has the values of `MATCHED`."""
        now_ms = self._core.clock.monotonic_ms()
        known = self._clients.pop(instance_id, None)
        if known is None or now_ms - known.seen_ms > max(_SHORTEST_LIFE_MS, _LIFE_IN_INTERVALS * known.interval_ms):
            known = self._subscribed(instance_id, identity)
        known.seen_ms = now_ms
        self._clients[instance_id] = known
        if len(self._clients) > _MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return known

    def keep(self, instance_id: bytes, push: TelemetryPush) -> None:
        """Remember what a client has sent."""
        pushes = self._pushes.pop(instance_id, None) or deque()
        pushes.append(push)
        self._kept_bytes += _size(push)
        if len(pushes) > KEPT:
            self._kept_bytes -= _size(pushes.popleft())
        self._pushes[instance_id] = pushes
        while len(self._pushes) > 1 and (len(self._pushes) > _MOST_CLIENTS or self._kept_bytes > _MOST_BYTES):
            silent = self._pushes.pop(next(iter(self._pushes)))
            self._kept_bytes -= sum(map(_size, silent))
        while len(pushes) > 1 and self._kept_bytes > _MOST_BYTES:
            self._kept_bytes -= _size(pushes.popleft())

    def pushes(self) -> list[TelemetryPush]:
        """All that is remembered, in the order in which it came."""
        return sorted((push for pushes in self._pushes.values() for push in pushes), key=lambda push: push.timestamp)

    def _subscribed(self, instance_id: bytes, identity: Mapping[str, str]) -> ClientInstance:
        matching = [subscription for subscription in self._subscriptions if subscription.matches(identity)]
        subscribed = {metric for subscription in matching for metric in subscription.metrics}
        metrics = [ALL_METRICS] if ALL_METRICS in subscribed else sorted(subscribed)
        interval_ms = min((subscription.interval_ms for subscription in matching), default=DEFAULT_INTERVAL_MS)
        interval_ms = min(interval_ms, DEFAULT_INTERVAL_MS)
        return ClientInstance(metrics, interval_ms, _subscription_id(metrics, interval_ms, instance_id))


def _size(push: TelemetryPush) -> int:
    return len(push.data) + len(push.client_id)


def identity_of(
    instance_id: bytes, client_id: str | None, software: tuple[str, str], address: tuple[str, int]
) -> dict[str, str]:
    """A client as subscriptions match it; clients name themselves, so names have a bound."""
    host, port = address
    values = uuid_text(instance_id), client_id or "", *software, host.removeprefix("/"), str(port)
    return dict(zip(MATCHED, (value[:_LONGEST] for value in values), strict=True))


def _subscription_id(metrics: list[str], interval_ms: int, instance_id: bytes) -> int:
    """A checksum of what is asked for, as a signed number of 32 bits, with the client's id mixed in."""
    text = f"[{', '.join(metrics)}]{interval_ms}"
    words = (int.from_bytes(instance_id[place : place + 4], "big") for place in range(0, 16, 4))
    mixed = crc32c(text.encode())
    for word in words:
        mixed ^= word
    return mixed - (1 << 32) if mixed >= 1 << 31 else mixed
