"""SaslAuthenticate (key 36): TODO."""

from typing import Annotated

from minibroker_protocol.schema import (
    Bytes,
    Int16,
    Int64,
    NullableString,
    message,
    since,
)


@message(versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """TODO."""

    auth_bytes: Bytes


@message(versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """TODO."""

    error_code: Int16
    error_message: NullableString
    auth_bytes: Bytes
    session_lifetime_ms: Annotated[Int64, since(1)] = 0
