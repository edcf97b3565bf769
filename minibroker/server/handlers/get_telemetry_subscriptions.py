"""GetTelemetrySubscriptions: which metrics the client should send (KIP-714).

Version 0. Subscriptions are configurations of type client metrics; where none matches the client it is asked for
nothing, and to come back in five minutes. THROTTLING_QUOTA_EXCEEDED for a client that is early. Kafka lists
this API only where a plugin wants metrics; here it is always listed, and the metrics are kept.
"""

from typing import Final

from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import NOTHING
from minibroker.server.telemetry.clients import identity_of
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.telemetry import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.records import CompressionCodec
from minibroker_protocol.uuids import new_uuid

_ACCEPTED: Final = [CompressionCodec.ZSTD, CompressionCodec.LZ4, CompressionCodec.GZIP, CompressionCodec.SNAPPY]
_ASK_AGAIN: Final = {ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}

NEEDS: Final = NOTHING


def handle(request: GetTelemetrySubscriptionsRequest, call: Call) -> GetTelemetrySubscriptionsResponse:
    """Answer with what the subscriptions want of this client."""
    telemetry = call.services.telemetry
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = new_uuid()
    session = call.session
    address = session.client_host, session.client_port
    client = telemetry.client(instance_id, identity_of(instance_id, call.client_id, session.software, address))
    if not client.may_ask(call.core.clock.monotonic_ms()) and client.last_error not in _ASK_AGAIN:
        return _response(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    client.last_error = ErrorCode.NONE
    response = _response(ErrorCode.NONE)
    response.client_instance_id = instance_id
    response.subscription_id = client.subscription_id
    response.accepted_compression_types = list(_ACCEPTED)
    response.push_interval_ms = client.interval_ms
    response.telemetry_max_bytes = telemetry.max_bytes
    response.delta_temporality = True
    response.requested_metrics = client.metrics
    return response


def _response(code: ErrorCode) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        error_code=code,
        client_instance_id=ZERO_UUID,
        subscription_id=0,
        accepted_compression_types=[],
        push_interval_ms=0,
        telemetry_max_bytes=0,
        delta_temporality=False,
        requested_metrics=[],
    )
