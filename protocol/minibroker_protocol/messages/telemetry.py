"""Client metrics (KIP-714)."""

from minibroker_protocol.schema import Array, Bool, Bytes, Int8, Int16, Int32, String, Uuid, message


@message(versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    """GetTelemetrySubscriptions (key 71) returns the metrics that a client should send (KIP-714).

    The client sends the instance id from an earlier response, or all zeros to get a new one.
    """

    client_instance_id: Uuid


@message(versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    """The metrics that the client should push, and how to push them.

    Attributes:
        subscription_id: identifies these subscriptions in PushTelemetry; it changes when the subscriptions change.
        accepted_compression_types: numbered as in record batches, the preferred type first.
        push_interval_ms: time between two pushes, and between two of these requests if no metrics are requested.
        telemetry_max_bytes: maximum size of a compressed payload.
        delta_temporality: whether the client sends counters as the change since its last push.
        requested_metrics: prefixes of metric names. "*" requests all metrics, an empty list none.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: Array[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: Array[String]


@message(versions="0", flexible="0+")
class PushTelemetryRequest:
    """PushTelemetry (key 72) sends a client's metrics, as OTLP MetricsData v1 in Protobuf (KIP-714).

    Attributes:
        subscription_id: the id from GetTelemetrySubscriptions.
        terminating: whether this is the client's last push.
        compression_type: numbered as in record batches.
    """

    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


@message(versions="0", flexible="0+")
class PushTelemetryResponse:
    """The result of the push."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
