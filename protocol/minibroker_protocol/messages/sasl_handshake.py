"""SaslHandshake (key 17): TODO."""

from minibroker_protocol.schema import (
    Array,
    Int16,
    String,
    message,
)


@message(versions="0-1")
class SaslHandshakeRequest:
    """TODO."""

    mechanism: String


@message(versions="0-1")
class SaslHandshakeResponse:
    """TODO."""

    error_code: Int16
    mechanisms: Array[String]
