"""SASL authentication (KIP-43, KIP-152)."""

from typing import Annotated

from minibroker_protocol.schema import Array, Bytes, Int16, Int64, NullableString, String, message, since


@message(versions="0-1")
class SaslHandshakeRequest:
    """SaslHandshake (key 17) selects a SASL mechanism by its name, such as PLAIN (KIP-43, KIP-152).

    After a handshake in version 0, client and server exchange the tokens of the mechanism without any Kafka header.
    """

    mechanism: String


@message(versions="0-1")
class SaslHandshakeResponse:
    """The mechanisms enabled on the listener. An error response also lists them."""

    error_code: Int16
    mechanisms: Array[String]


@message(versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """SaslAuthenticate (key 36) sends a token of the mechanism that SaslHandshake v1 selected (KIP-152, KIP-368).

    The mechanism defines the contents of `auth_bytes`.
    """

    auth_bytes: Bytes


@message(versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """The server's token.

    In the last response of a login, `session_lifetime_ms` is the lifetime of the session in milliseconds; 0 means
    unlimited.
    """

    error_code: Int16
    error_message: NullableString
    auth_bytes: Bytes
    session_lifetime_ms: Annotated[Int64, since(1)] = 0
