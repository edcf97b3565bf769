"""A client that pushes its metrics (KIP-714)."""

import struct
from typing import Any

from minibroker_protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
)
from tests.broker.harness import Harness

CLIENT = bytes(range(16))
OTHER = b"another client's"


def ask(harness: Harness, client: bytes = CLIENT) -> GetTelemetrySubscriptionsResponse:
    """Request the client's subscriptions."""
    response = harness.ask(GetTelemetrySubscriptionsRequest(client_instance_id=client), 0)
    assert isinstance(response, GetTelemetrySubscriptionsResponse)
    return response


def push(
    harness: Harness,
    subscription_id: int,
    metrics: bytes = b"",
    *,
    client: bytes = CLIENT,
    terminating: bool = False,
    compression_type: int = 0,
) -> int:
    """Push metrics, and return the error code."""
    request = PushTelemetryRequest(
        client_instance_id=client,
        subscription_id=subscription_id,
        terminating=terminating,
        compression_type=compression_type,
        metrics=metrics,
    )
    code: int = harness.ask(request, 0).error_code
    return code


def gauge(name: str, value: float, **labels: str) -> bytes:
    """Encode OTLP MetricsData with one gauge."""
    point = _field(4, struct.pack("<d", value), kind=1)
    for key, text in labels.items():
        point += _field(7, _field(1, key.encode()) + _field(2, _field(1, text.encode())))
    return _metric(_field(1, name.encode()) + _field(5, _field(1, point)))


def counter(name: str, value: int) -> bytes:
    """Encode OTLP MetricsData with one sum."""
    point = _varint(3 << 3) + _varint(300) + _field(6, struct.pack("<q", value), kind=1)
    return _metric(_field(1, name.encode()) + _field(7, _field(1, point)))


def _metric(metric: bytes) -> bytes:
    return _field(1, _field(2, _field(2, metric)))


def _field(number: int, data: Any, kind: int = 2) -> bytes:
    size = _varint(len(data)) if kind == 2 else b""
    return _varint(number << 3 | kind) + size + bytes(data)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
