"""Exchanges, each a request with its response, and the ring of the newest exchanges.

The broker (`inspection.recording`) and the proxy of `minibroker trace` fill such a ring. The journal and the lab's page
read it. Messages are decoded on demand.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, TypeVar

MAX_BYTES: Final = 1 << 26
"""The maximum estimated memory of a ring's messages, in bytes. The newest exchange stays, whatever its size."""
MAX_EXCHANGES: Final = 100_000
"""The maximum number of exchanges for a page."""
EXCHANGE_SIZE: Final = 600
"""The estimated memory of an exchange and its row on the page, without the frames, in bytes."""


class Kind(Enum):
    """The kind of data that a client sent."""

    REQUEST = "request"
    TOKEN = "token"  # noqa: S105 - not a password
    """A SASL token without a header, after SaslHandshake v0 or from a client of Kafka 0.9."""
    UNREADABLE = "unreadable"
    """A frame that is too short for a header."""
    UNASKED = "unasked"
    """A response without a matching request."""


class Origin:
    """The connection of an exchange.

    Attributes:
        client: The client's "HOST:PORT".
        broker: The broker's "HOST:PORT", preceded by its node id if that is known.
        is_closed: Whether the connection is closed.
    """

    def __init__(self, client: str, broker: str) -> None:
        self.client = client
        self.broker = broker
        self.is_closed = False


class Exchange:
    """A request and its response.

    Attributes:
        number: The number of the exchange in its ring, or 0 outside a ring.
        began: The time at which the request was complete, in ms since the epoch and on the monotonic clock.
        ended_ms: The time at which the response was complete, on the monotonic clock.
        header: The API key, version and correlation id.
        request_frame: The frame as the client sent it, with its length field. It is truncated to the size that is
            kept, and empty if there is no frame or frames are not kept.
        response_frame: The frame as the broker sent it, in the same form.
        bytes_in: The size of the request frame, with its length field.
        bytes_out: The size of the response frame, with its length field.
        expects_response: False for Produce with acks=0.
        failure: The reason why the request closed the connection, or None.
        replaced: Addresses in the broker's response that were replaced for the client, with the addresses that it
            gets instead.
        memory: The memory that the ring counts for the exchange, in bytes.
    """

    # Defaults are on the class, because an exchange is created for each request and only sets what differs.
    origin: Origin
    kind = Kind.REQUEST
    number = 0
    began: tuple[int, float] = 0, 0.0
    ended_ms: float | None = None
    header: tuple[int, int, int] = -1, -1, 0
    request_frame: bytes | bytearray = b""
    response_frame: bytes | bytearray = b""
    bytes_in = 0
    bytes_out = 0
    expects_response = True
    failure: str | None = None
    replaced: dict[str, str] | None = None
    memory = 0

    def __init__(self, kind: Kind, origin: Origin) -> None:
        self.kind = kind
        self.origin = origin

    @property
    def time_ms(self) -> int:
        """The time at which the request was complete, in milliseconds since the epoch."""
        return self.began[0]

    @property
    def began_ms(self) -> float:
        """The monotonic time at which the request was complete, in milliseconds."""
        return self.began[1]

    @property
    def api_key(self) -> int:
        """The API key, or -1 without a header."""
        return self.header[0]

    @property
    def version(self) -> int:
        """The version of the API, or -1 without a header."""
        return self.header[1]

    @property
    def correlation_id(self) -> int:
        """The correlation id, or 0 without a header."""
        return self.header[2]

    @property
    def client(self) -> str:
        """The client's address, "HOST:PORT"."""
        return self.origin.client

    @property
    def broker(self) -> str:
        """The broker's address."""
        return self.origin.broker

    @property
    def loss(self) -> str | None:
        """The reason why there will never be a response, or None."""
        if self.failure is not None or self.bytes_out or not self.expects_response or not self.origin.is_closed:
            return self.failure
        return "the connection closed"

    @property
    def is_settled(self) -> bool:
        """Whether the response has arrived or will never arrive."""
        return bool(self.bytes_out) or not self.expects_response or self.loss is not None


E = TypeVar("E", bound=Exchange)


class Ring(Generic[E]):
    """The newest exchanges by number. One thread fills the ring, and other threads may read it at the same time.

    When memory is short, exchanges of a journal lose their frames before any exchange is dropped. Only a page needs
    the frames, and it must not shorten the journal.

    Attributes:
        first: The number of the oldest exchange.
        last: The number of the newest exchange, or 0 before the first one.
        first_shown: The number of the oldest exchange that still has its frames, the first one on the page.
        journal_begins: Returns the number of the journal's oldest exchange, or without a journal one above `last`.
        memory: The estimated memory of the exchanges, in bytes.
    """

    def __init__(self, max_exchanges: int, max_bytes: int = MAX_BYTES) -> None:
        # Exchanges are keyed by number, so that other threads never get the wrong exchange.
        self._exchanges: dict[int, E] = {}
        self.max_exchanges = max_exchanges
        self.max_bytes = max_bytes
        self.journal_begins = self.after_all
        self.first = self.first_shown = 1
        self.last = 0
        self.memory = 0

    def after_all(self) -> int:
        """Return the number of the next exchange."""
        return self.last + 1

    def add(self, exchange: E) -> None:
        """Append an exchange and assign its number."""
        number = exchange.number = self.last + 1
        self._exchanges[number] = exchange
        self.memory += exchange.memory
        self.last = number
        if number - self.first >= self.max_exchanges or self.memory > self.max_bytes:
            self._make_room()

    def grow(self, exchange: E, size: int) -> None:
        """Add `size` bytes to the memory counted for an exchange, if it is still in the ring."""
        if self._exchanges.get(exchange.number) is exchange:
            exchange.memory += size
            self.memory += size
            if self.memory > self.max_bytes:
                self._make_room()

    def _make_room(self) -> None:
        while self.first < self.last and (self.last - self.first >= self.max_exchanges or self.memory > self.max_bytes):
            if self.first < self.journal_begins() or self.first_shown >= self.last:
                self._drop_oldest()
            else:
                self._drop_frames(self._exchanges[self.first_shown])

    def _drop_frames(self, exchange: E) -> None:
        """Drop the frames of an exchange, the oldest one that still has frames."""
        size = EXCHANGE_SIZE + len(exchange.request_frame) + len(exchange.response_frame)
        self.first_shown += 1
        # Drop the frames explicitly, because the hits of a fault may still reference the exchange.
        exchange.request_frame = exchange.response_frame = b""
        exchange.memory -= size
        self.memory -= size

    def _drop_oldest(self) -> None:
        exchange = self._exchanges.pop(self.first)
        self.memory -= exchange.memory
        # Drop the frames explicitly, because the hits of a fault may still reference the exchange.
        exchange.request_frame = exchange.response_frame = b""
        self.first += 1
        self.first_shown = max(self.first, self.first_shown)

    def clear(self) -> None:
        """Drop all exchanges. Numbering continues."""
        while self.first <= self.last:
            self._drop_oldest()

    def get(self, number: int) -> E | None:
        """Return the exchange with this number, or None if it is not in the ring."""
        return self._exchanges.get(number)

    def between(self, first: int, last: int) -> list[E]:
        """Return the exchanges in the ring with numbers from `first` to `last`, inclusive."""
        numbers = range(max(first, self.first), min(last, self.last) + 1)
        return [exchange for number in numbers if (exchange := self._exchanges.get(number)) is not None]
