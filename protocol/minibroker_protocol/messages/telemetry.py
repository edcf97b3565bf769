"""Metrics of clients (KIP-714)."""

from minibroker_protocol.schema import Array, Bool, Bytes, Int8, Int16, Int32, String, Uuid, message


@message(versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    """GetTelemetrySubscriptions (key 71): which metrics a client should send (KIP-714).

    The client, by the id that it was given before; all zeros to be given one.
    """

    client_instance_id: Uuid


@message(versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    """The metrics that the client should push, and how.

    Attributes:
        subscription_id: names this answer in PushTelemetry; another one when the subscriptions have changed.
        accepted_compression_types: numbered as in record batches, the preferred one first.
        push_interval_ms: how often to push; also how often to ask here where nothing is wanted.
        telemetry_max_bytes: the largest payload, as it is sent.
        delta_temporality: whether counters are sent as what they have grown by.
        requested_metrics: prefixes of names; "*" for all, none for nothing.
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
    """PushTelemetry (key 72): the metrics of a client (KIP-714).

    A client's metrics, as OTLP MetricsData v1 in protobuf.

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
