"""Client metrics (KIP-714): the clients that push them, and the OTLP that they send.

The field numbers are those of `opentelemetry/proto/metrics/v1/metrics.proto`. Histograms and other types are skipped.
"""

import struct
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from minibroker.cluster.core import Core
from minibroker.config.client_metrics import ALL_METRICS, DEFAULT_INTERVAL_MS, MATCHED, ClientMetricsConfig
from minibroker.config.keys import ConfigResourceType
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.primitives import uuid_text
from minibroker_protocol.records.header import crc32c

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_RESOURCE_METRICS: Final = 1
_SCOPE_METRICS: Final = 2
_METRICS: Final = 2
_NAME: Final = 1
_GAUGE: Final = 5
_SUM: Final = 7
_DATA_POINTS: Final = 1
_NUMBER_FORMATS: Final = {4: "<d", 6: "<q"}
"""The formats of the fields `as_double` and `as_int`."""
_ATTRIBUTES: Final = 7
_KEY: Final = 1
_VALUE: Final = 2
_STRING: Final = 1

Value = int | bytes


@dataclass(frozen=True, slots=True)
class ClientMetric:
    """One number of a metric. The number of a counter is its increase since the last push."""

    name: str
    value: float
    labels: Mapping[str, str]


def read_metrics(data: bytes) -> list[ClientMetric]:
    """Return the metrics in a MetricsData message.

    Raises:
        ValueError: The data is not a valid message.
    """
    try:
        return [
            ClientMetric(name, number, labels)
            for resource in _iterate_values(data, _RESOURCE_METRICS)
            for scope in _iterate_values(resource, _SCOPE_METRICS)
            for metric in _iterate_values(scope, _METRICS)
            for name in [_decode_text(metric, _NAME)]
            for kind in (_GAUGE, _SUM)
            for points in _iterate_values(metric, kind)
            for point in _iterate_values(points, _DATA_POINTS)
            for number, labels in [(_decode_number(point), _decode_labels(point))]
        ]
    except (IndexError, struct.error) as error:
        raise ValueError(f"no OTLP metrics: {error}") from None


def _decode_number(point: bytes) -> float:
    for number, value in _iterate_fields(point):
        if number in _NUMBER_FORMATS and isinstance(value, bytes):
            content: float = struct.unpack(_NUMBER_FORMATS[number], value)[0]
            return content
    return 0


def _decode_labels(point: bytes) -> dict[str, str]:
    return {
        _decode_text(label, _KEY): _decode_text(value, _STRING)
        for label in _iterate_values(point, _ATTRIBUTES)
        for value in _iterate_values(label, _VALUE)
    }


def _decode_text(message: bytes, field: int) -> str:
    return next((value.decode(errors="replace") for value in _iterate_values(message, field)), "")


def _iterate_values(message: bytes, field: int) -> Iterator[bytes]:
    return (value for number, value in _iterate_fields(message) if number == field and isinstance(value, bytes))


def _iterate_fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the number and value of each field. A varint is an integer, and any other value is bytes."""
    position = 0
    while position < len(message):
        tag, position = _decode_varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _decode_varint(message, position)
            yield tag >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            size, position = _decode_varint(message, position)
        if size is None or position + size > len(message):
            raise IndexError(f"field {tag >> 3} of type {kind} does not fit")
        yield tag >> 3, message[position : position + size]
        position += size


def _decode_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - without the bit for a continuation
            return value, position
        shift += 7


PUSHES_PER_CLIENT: Final = 10
"""The number of pushes to keep for each client."""
_MAX_CLIENTS: Final = 16_384
_MAX_TEXT_LENGTH: Final = 500
"""The maximum length of a text that a client sends about itself, in characters."""
_MAX_KEPT_BYTES: Final = 64 << 20
"""The maximum size of all kept pushes, not counting the newest. It is limited because every client can push."""
_MIN_LIFETIME_MS: Final = 60_000
_LIFETIME_INTERVALS: Final = 3
_NEVER: Final = -(10**12)


@dataclass(frozen=True, slots=True)
class TelemetryPush:
    """The metrics that a client sent in one request.

    Attributes:
        client_instance_id: The id of the client instance, in Kafka's format for UUIDs.
        timestamp: The time of arrival, in milliseconds since the epoch.
        is_last: Whether the client announced that it is terminating.
        data: Uncompressed OTLP MetricsData v1 in protobuf.
    """

    client_instance_id: str
    client_id: str
    client_host: str
    timestamp: int
    is_last: bool
    data: bytes

    def metrics(self) -> list[ClientMetric]:
        """Return the sums and gauges of the push.

        Raises:
            ValueError: `data` is not valid OTLP.
        """
        return read_metrics(self.data)


class ClientInstance:
    """One client instance (Kafka's `ClientMetricsInstance`), with its subscription and the times of its requests.

    Attributes:
        subscription_id: The id of the subscription.
        is_gone: Whether the client has sent its last metrics.
        last_error: The error code of the client's last request.
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
        """Return whether the client may request its subscription now. If so, record the time of the request.

        The request must come at least an interval after the client's last request or push.
        """
        if now_ms - max(self._asked_ms, self._pushed_ms) < self.interval_ms:
            return False
        self._asked_ms = now_ms
        return True

    def may_push(self, now_ms: float) -> bool:
        """Return whether the client may push metrics now. If so, record the time of the push.

        The first push after a request for the subscription is always allowed. Later pushes must be an interval apart.
        """
        if self._asked_ms <= self._pushed_ms and now_ms - self._pushed_ms < self.interval_ms:
            return False
        self._pushed_ms = now_ms
        return True


class Telemetry:
    """The client instances and the metrics subscriptions of a broker."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._clients: dict[bytes, ClientInstance] = {}
        self._subscriptions: list[ClientMetricsConfig] = []
        self._pushes: dict[bytes, deque[TelemetryPush]] = {}
        self._kept_bytes = 0
        self.max_bytes = core.config.integer("telemetry.max.bytes")
        self.resubscribe()

    def resubscribe(self) -> None:
        """Reload the subscriptions after a change. Each client gets its new subscription with its next request."""
        altered = self._core.configs.all_of(ConfigResourceType.CLIENT_METRICS)
        self._subscriptions = [ClientMetricsConfig(texts) for texts in altered.values()]
        self._clients.clear()

    def forget(self) -> None:
        """Remove all client instances and their pushes."""
        self._clients.clear()
        self._pushes.clear()
        self._kept_bytes = 0

    def client(self, instance_id: bytes, identity: Mapping[str, str]) -> ClientInstance:
        """Return the client instance with this id, creating it if necessary.

        Args:
            instance_id: The id of the client instance.
            identity: The properties of the client that subscriptions can match, by the names in `MATCHED`.
        """
        now_ms = self._core.clock.monotonic_ms()
        instance = self._clients.pop(instance_id, None)
        if instance is None or now_ms - instance.seen_ms > max(
            _MIN_LIFETIME_MS, _LIFETIME_INTERVALS * instance.interval_ms
        ):
            instance = self._subscribe(instance_id, identity)
        instance.seen_ms = now_ms
        self._clients[instance_id] = instance
        if len(self._clients) > _MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return instance

    def keep(self, instance_id: bytes, push: TelemetryPush) -> None:
        """Keep a client's push, and drop the oldest pushes beyond the limits."""
        pushes = self._pushes.pop(instance_id, None) or deque()
        pushes.append(push)
        self._kept_bytes += _count_bytes(push)
        if len(pushes) > PUSHES_PER_CLIENT:
            self._kept_bytes -= _count_bytes(pushes.popleft())
        self._pushes[instance_id] = pushes
        while len(self._pushes) > 1 and (len(self._pushes) > _MAX_CLIENTS or self._kept_bytes > _MAX_KEPT_BYTES):
            dropped = self._pushes.pop(next(iter(self._pushes)))
            self._kept_bytes -= sum(map(_count_bytes, dropped))
        while len(pushes) > 1 and self._kept_bytes > _MAX_KEPT_BYTES:
            self._kept_bytes -= _count_bytes(pushes.popleft())

    def pushes(self) -> list[TelemetryPush]:
        """Return all kept pushes in the order of their timestamps."""
        return sorted((push for pushes in self._pushes.values() for push in pushes), key=lambda push: push.timestamp)

    def _subscribe(self, instance_id: bytes, identity: Mapping[str, str]) -> ClientInstance:
        matching = [subscription for subscription in self._subscriptions if subscription.matches(identity)]
        subscribed = {metric for subscription in matching for metric in subscription.metrics}
        metrics = [ALL_METRICS] if ALL_METRICS in subscribed else sorted(subscribed)
        interval_ms = min((subscription.interval_ms for subscription in matching), default=DEFAULT_INTERVAL_MS)
        interval_ms = min(interval_ms, DEFAULT_INTERVAL_MS)
        return ClientInstance(metrics, interval_ms, _subscription_id(metrics, interval_ms, instance_id))


def _count_bytes(push: TelemetryPush) -> int:
    return len(push.data) + len(push.client_id)


def identity_of(
    instance_id: bytes, client_id: str | None, software: tuple[str, str], address: tuple[str, int]
) -> dict[str, str]:
    """Return the properties of a client that subscriptions can match. Long texts are truncated."""
    host, port = address
    values = uuid_text(instance_id), client_id or "", *software, host.removeprefix("/"), str(port)
    return dict(zip(MATCHED, (value[:_MAX_TEXT_LENGTH] for value in values), strict=True))


def _subscription_id(metrics: list[str], interval_ms: int, instance_id: bytes) -> int:
    """Return the subscription id, a signed 32-bit checksum of the subscription combined with the client instance id."""
    text = f"[{', '.join(metrics)}]{interval_ms}"
    words = (int.from_bytes(instance_id[start : start + 4], "big") for start in range(0, 16, 4))
    mixed = crc32c(text.encode())
    for word in words:
        mixed ^= word
    return mixed - (1 << 32) if mixed >= 1 << 31 else mixed
