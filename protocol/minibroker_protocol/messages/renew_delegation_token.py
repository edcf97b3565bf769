"""RenewDelegationToken (key 39): put the end of a token off (KIP-48)."""

from minibroker_protocol.schema import (
    Bytes,
    Int16,
    Int32,
    Int64,
    message,
)


@message(versions="0-2", flexible="2+")
class RenewDelegationTokenRequest:
    """The token by its HMAC, and a period in milliseconds; -1 is the broker's usual one."""

    hmac: Bytes
    renew_period_ms: Int64


@message(versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    """When it ends now, in milliseconds since the epoch."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
