"""SaslAuthenticate (key 36): a token of the mechanism that SaslHandshake v1 has chosen (KIP-152, KIP-368)."""

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
    """`auth_bytes` are the mechanism's business."""

    auth_bytes: Bytes


@message(versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """With the last token comes how long the session lasts, in milliseconds; 0 is for ever."""

    error_code: Int16
    error_message: NullableString
    auth_bytes: Bytes
    session_lifetime_ms: Annotated[Int64, since(1)] = 0
