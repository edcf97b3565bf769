"""Handlers for client metrics (KIP-714)."""

from typing import Final

from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import handles
from minibroker.server.requests.requirements import NOTHING
from minibroker.server.telemetry import ClientInstance, TelemetryPush, identity_of
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import InvalidRecordError
from minibroker_protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from minibroker_protocol.primitives import ZERO_UUID, new_uuid, uuid_text
from minibroker_protocol.records.compression import decompress
from minibroker_protocol.records.header import CompressionCodec

_ACCEPTED_CODECS: Final = [CompressionCodec.ZSTD, CompressionCodec.LZ4, CompressionCodec.GZIP, CompressionCodec.SNAPPY]
_RETRIED_ERRORS: Final = {ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}


@handles(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, needs=NOTHING)
def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, call: Call
) -> GetTelemetrySubscriptionsResponse:
    """GetTelemetrySubscriptions: return the metrics that the client should push (KIP-714).

    Version 0 is served. Subscriptions are configuration resources of the type client metrics. A client that matches no
    subscription is asked for no metrics, and should poll again in five minutes. A client that polls too early gets
    THROTTLING_QUOTA_EXCEEDED. The request is always answered, but ApiVersions lists it only while a subscription
    exists. Kafka lists it only if a plugin collects metrics.
    """
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = new_uuid()
    client = _find_client(instance_id, call)
    if not client.may_ask(call.core.clock.monotonic_ms()) and client.last_error not in _RETRIED_ERRORS:
        raise RefusedRequestError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    client.last_error = ErrorCode.NONE
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=instance_id,
        subscription_id=client.subscription_id,
        accepted_compression_types=list(_ACCEPTED_CODECS),
        push_interval_ms=client.interval_ms,
        telemetry_max_bytes=call.services.telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=client.metrics,
    )


def _find_client(instance_id: bytes, call: Call) -> ClientInstance:
    session = call.session
    address = session.client_host, session.client_port
    return call.services.telemetry.client(
        instance_id, identity_of(instance_id, call.client_id, session.software, address)
    )


_RESERVED_INSTANCE_IDS: Final = frozenset({ZERO_UUID, bytes(15) + b"\1"})
_MAX_EXPANSION: Final = 4
"""The maximum size of decompressed metrics, in multiples of `telemetry.max.bytes`. Larger ones delay other clients."""
_CODECS: Final = frozenset(CompressionCodec)


@handles(ApiKey.PUSH_TELEMETRY, needs=NOTHING)
def push_telemetry(request: PushTelemetryRequest, call: Call) -> PushTelemetryResponse:
    """PushTelemetry: save the latest metrics of a client (KIP-714).

    Version 0 is served.

    Error codes:

    - INVALID_REQUEST: the client instance id is missing, or the client has already sent its last push.
    - THROTTLING_QUOTA_EXCEEDED: the push interval has not passed.
    - UNKNOWN_SUBSCRIPTION_ID: the subscriptions have changed.
    - UNSUPPORTED_COMPRESSION_TYPE: the compression type is unknown.
    - TELEMETRY_TOO_LARGE: the metrics exceed `telemetry.max.bytes`.
    - INVALID_RECORD: the metrics cannot be decompressed, or exceed four times `telemetry.max.bytes` decompressed.
    """
    instance_id = request.client_instance_id
    if instance_id in _RESERVED_INSTANCE_IDS:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    client = _find_client(instance_id, call)
    client.last_error = _push_error(request, client, call)
    client.is_gone = request.terminating
    if not client.last_error and request.metrics:
        client.last_error = _save_metrics(request, call)
    return PushTelemetryResponse(error_code=client.last_error)


def _push_error(request: PushTelemetryRequest, client: ClientInstance, call: Call) -> ErrorCode:
    if client.is_gone:
        return ErrorCode.INVALID_REQUEST
    if not client.may_push(call.core.clock.monotonic_ms()) and not request.terminating:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if request.subscription_id != client.subscription_id:
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in _CODECS:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(request.metrics) > call.services.telemetry.max_bytes:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE


def _save_metrics(request: PushTelemetryRequest, call: Call) -> ErrorCode:
    try:
        max_size = call.services.telemetry.max_bytes * _MAX_EXPANSION
        data = decompress(CompressionCodec(request.compression_type), request.metrics, max_size=max_size)
    except InvalidRecordError:
        return ErrorCode.INVALID_RECORD
    instance_id = bytes(request.client_instance_id)
    call.services.telemetry.keep(
        instance_id,
        TelemetryPush(
            client_instance_id=uuid_text(instance_id),
            client_id=call.client_id or "",
            client_host=call.client_host,
            timestamp=call.core.clock.now_ms(),
            is_last=request.terminating,
            data=bytes(data),
        ),
    )
    return ErrorCode.NONE
