"""Decoder of the OTLP metrics that Kafka clients send: the names, labels and values of sums and gauges.

The field numbers are those of `opentelemetry/proto/metrics/v1/metrics.proto`. Histograms and other types are skipped.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

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
