"""ExpireDelegationToken (key 40): bring the end of a token nearer (KIP-48)."""

from minibroker_protocol.schema import (
    Bytes,
    Int16,
    Int32,
    Int64,
    message,
)


@message(versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """The token by its HMAC, and a period in milliseconds; a negative one ends it at once."""

    hmac: Bytes
    expiry_time_period_ms: Int64


@message(versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """When it ends now, in milliseconds since the epoch."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
