"""APIs for client metrics (KIP-714)."""

from minibroker_protocol.schema import Array, Bool, Bytes, Int8, Int16, Int32, String, Uuid, message


@message(versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    """GetTelemetrySubscriptions (key 71) returns the metrics that the client should send (KIP-714).

    The request has the client instance id from an earlier response, or all zeros to request a new id.
    """

    client_instance_id: Uuid


@message(versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    """The metrics that the client should push, and how to push them.

    Attributes:
        subscription_id: identifies these subscriptions in PushTelemetry. The id changes when the subscriptions
            change.
        accepted_compression_types: numbered as in record batches, beginning with the preferred type.
        push_interval_ms: time between two pushes. If no metrics are requested, it is the time between two of these
            requests.
        telemetry_max_bytes: maximum size of a compressed payload.
        delta_temporality: whether the client sends counters as the change since its last push.
        requested_metrics: prefixes of metric names. "*" requests all metrics, and an empty list requests none.
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
