"""SaslHandshake (key 17): which SASL mechanism a client will use (KIP-43, KIP-152)."""

from minibroker_protocol.schema import (
    Array,
    Int16,
    String,
    message,
)


@message(versions="0-1")
class SaslHandshakeRequest:
    """The name of the mechanism, such as PLAIN. After version 0 its tokens follow without any header."""

    mechanism: String


@message(versions="0-1")
class SaslHandshakeResponse:
    """`mechanisms` are those that the listener offers, whatever the outcome."""

    error_code: Int16
    mechanisms: Array[String]
