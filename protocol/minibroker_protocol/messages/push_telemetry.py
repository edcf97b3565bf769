"""PushTelemetry (key 72): TODO."""

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
    """TODO."""

    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


@message(versions="0", flexible="0+")
class PushTelemetryResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
