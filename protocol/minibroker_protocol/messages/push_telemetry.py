"""PushTelemetry (key 72): the metrics of a client (KIP-714)."""

from minibroker_protocol.schema import (
    Bool,
    Bytes,
    Int8,
    Int16,
    Int32,
    Uuid,
    message,
)


@message(versions="0", flexible="0+")
class PushTelemetryRequest:
    """A client's metrics, as OTLP MetricsData v1 in protobuf.

    Attributes:
        subscription_id: as GetTelemetrySubscriptions said it.
        terminating: whether this is the client's last one.
        compression_type: numbered as in record batches.
    """

    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


@message(versions="0", flexible="0+")
class PushTelemetryResponse:
    """Whether the metrics were taken."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
