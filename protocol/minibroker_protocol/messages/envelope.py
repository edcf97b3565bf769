"""Envelope (key 58): a broker hands a client's request on to the controller (KIP-590). No client sends it."""

from minibroker_protocol.schema import Bytes, Int16, NullableBytes, message


@message(versions="0", flexible="0+")
class EnvelopeRequest:
    """A whole request with its header, its principal as the principal builder writes it, and its host."""

    request_data: Bytes
    request_principal: NullableBytes
    client_host_address: Bytes


@message(versions="0", flexible="0+")
class EnvelopeResponse:
    """The whole response with its header; null where the envelope itself is refused."""

    response_data: NullableBytes = None
    error_code: Int16
