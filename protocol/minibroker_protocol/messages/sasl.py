"""Logins with SASL (KIP-43, KIP-152)."""

from typing import Annotated

from minibroker_protocol.schema import Array, Bytes, Int16, Int64, NullableString, String, message, since


@message(versions="0-1")
class SaslHandshakeRequest:
    """SaslHandshake (key 17): which SASL mechanism a client will use (KIP-43, KIP-152).

    The name of the mechanism, such as PLAIN. After version 0 its tokens follow without any header.
    """

    mechanism: String


@message(versions="0-1")
class SaslHandshakeResponse:
    """`mechanisms` are those that the listener offers, whatever the outcome."""

    error_code: Int16
    mechanisms: Array[String]


@message(versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """SaslAuthenticate (key 36): a token of the mechanism that SaslHandshake v1 has chosen (KIP-152, KIP-368).

    `auth_bytes` are the mechanism's business.
    """

    auth_bytes: Bytes


@message(versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """With the last token comes how long the session lasts, in milliseconds; 0 is for ever."""

    error_code: Int16
    error_message: NullableString
    auth_bytes: Bytes
    session_lifetime_ms: Annotated[Int64, since(1)] = 0
