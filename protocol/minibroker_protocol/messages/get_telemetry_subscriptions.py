"""GetTelemetrySubscriptions (key 71): TODO."""

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    String,
    Uuid,
    message,
)


@message(versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    """TODO."""

    client_instance_id: Uuid


@message(versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: Array[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: Array[String]
