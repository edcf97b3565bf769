"""One request and its response, as bytes that have passed."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """The form of what a client has sent."""

    REQUEST = "request"
    TOKEN = "token"  # noqa: S105 - a form, no password
    """A token of SASL without a header, after SaslHandshake 0 or from a client of Kafka 0.9."""
    UNREADABLE = "unreadable"
    """A frame that is too short for a header."""
    UNASKED = "unasked"
    """A response that no request waits for."""


class Exchange:
    """A request and its response.

    Attributes:
        number: counts what clients have sent since the start.
        time_ms: when the request was whole, in ms since the epoch.
        began_ms, ended_ms: the same on the monotonic clock, and when the response was whole.
        client, broker: "HOST:PORT" of both.
        api_key, version, correlation_id: of the header; -1, -1 and 0 without one.
        request, response: the frames with their lengths, as the client and the broker have sent them. They end early
            where they are longer than what is kept; empty for none.
        bytes_in, bytes_out: the sizes of both frames, with their lengths.
        expects_response: False for Produce with acks=0.
        failure: why no response has come.
        replaced: the addresses in the response that the client does not see, with those in their place.
    """

    __slots__ = (
        "api_key",
        "began_ms",
        "broker",
        "bytes_in",
        "bytes_out",
        "client",
        "correlation_id",
        "ended_ms",
        "expects_response",
        "failure",
        "kind",
        "number",
        "replaced",
        "request",
        "response",
        "time_ms",
        "version",
    )

    def __init__(self, kind: Kind, client: str, broker: str) -> None:
        self.kind = kind
        self.client = client
        self.broker = broker
        self.number = 0
        self.time_ms = 0
        self.began_ms = 0.0
        self.ended_ms: float | None = None
        self.api_key = -1
        self.version = -1
        self.correlation_id = 0
        self.request: bytes | bytearray = b""
        self.response: bytes | bytearray = b""
        self.bytes_in = 0
        self.bytes_out = 0
        self.expects_response = True
        self.failure: str | None = None
        self.replaced: dict[str, str] | None = None

    @property
    def kept_bytes(self) -> int:
        """Bytes of both frames that are in memory."""
        return len(self.request) + len(self.response)
