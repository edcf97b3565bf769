"""RenewDelegationToken (key 39): TODO."""

from minibroker_protocol.schema import (
    Bytes,
    Int16,
    Int32,
    Int64,
    message,
)


@message(versions="0-2", flexible="2+")
class RenewDelegationTokenRequest:
    """TODO."""

    hmac: Bytes
    renew_period_ms: Int64


@message(versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    """TODO."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
