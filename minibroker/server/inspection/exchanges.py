"""Exchanges: requests with their responses, and the ring that keeps the newest ones.

The broker (`inspection.recording`) and the proxy of `minibroker trace` fill such a ring. The journal and the lab's page
read it. Messages are decoded when somebody reads them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, TypeVar

MAX_BYTES: Final = 1 << 26
"""Memory for what a ring keeps of messages, by estimate. The newest exchange stays, however large it is."""
MAX_EXCHANGES: Final = 100_000
"""Exchanges that a page keeps."""
EXCHANGE_SIZE: Final = 600
"""Bytes that an exchange and its row on the page take besides the frames, by estimate."""


class Kind(Enum):
    """The form of what a client has sent."""

    REQUEST = "request"
    TOKEN = "token"  # noqa: S105 - not a password
    """A token of SASL without a header, after SaslHandshake 0 or from a client of Kafka 0.9."""
    UNREADABLE = "unreadable"
    """A frame that is too short for a header."""
    UNASKED = "unasked"
    """A response that no request waits for."""


class Origin:
    """The connection of an exchange.

    Attributes:
        client, broker: "HOST:PORT" of both ends; the broker's has its node id before it, where that is known.
        is_closed: whether the connection is over.
    """

    __slots__ = ("broker", "client", "is_closed")

    def __init__(self, client: str, broker: str) -> None:
        self.client = client
        self.broker = broker
        self.is_closed = False


class Exchange:
    """A request and its response.

    Attributes:
        number: counts the exchanges of a ring; 0 outside of a ring.
        began: when the request was whole, in ms since the epoch and on the monotonic clock.
        ended_ms: when the response was whole, on the monotonic clock.
        header: API key, version and correlation id.
        request_frame, response_frame: the frames with their lengths, as the client and the broker have sent them. They
            end early where they are longer than what is kept; empty if there is none, or none is kept.
        bytes_in, bytes_out: the sizes of both frames, with their lengths.
        expects_response: False for Produce with acks=0.
        failure: why the connection was closed over the request.
        replaced: the addresses in the response that the client does not see, with those in their place.
        memory: bytes that the ring counts for it.
    """

    # Defaults of the class, because an exchange is made for each request: it sets what it has.
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
        """When the request was whole, in ms since the epoch."""
        return self.began[0]

    @property
    def began_ms(self) -> float:
        """When the request was whole, on the monotonic clock."""
        return self.began[1]

    @property
    def api_key(self) -> int:
        """The API key; -1 without a header."""
        return self.header[0]

    @property
    def version(self) -> int:
        """The version of the API; -1 without a header."""
        return self.header[1]

    @property
    def correlation_id(self) -> int:
        """The correlation id; 0 without a header."""
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
        """Why no response has come, and none will come; None otherwise."""
        if self.failure is not None or self.bytes_out or not self.expects_response or not self.origin.is_closed:
            return self.failure
        return "the connection closed"

    @property
    def is_settled(self) -> bool:
        """Whether it has its response, or will never have one."""
        return bool(self.bytes_out) or not self.expects_response or self.loss is not None


E = TypeVar("E", bound=Exchange)


class Ring(Generic[E]):
    """The newest exchanges by their numbers. One thread fills it, and others may read it meanwhile.

    Where memory is short, the exchanges of a journal lose their frames before one of them is dropped: a page takes
    nothing from a journal.

    Attributes:
        first, last: the numbers of the oldest and the newest exchange that is kept; `last` is 0 before the first one.
        first_shown: the number of the oldest exchange that has not lost its frames, and so the page's first one.
        journal_begins: returns the number of the journal's oldest exchange. Without a journal it is above `last`.
        memory: bytes that the exchanges take, by estimate.
    """

    def __init__(self, max_exchanges: int, max_bytes: int = MAX_BYTES) -> None:
        self._exchanges: dict[int, E] = {}  # by number, so that a reader on another thread never gets the wrong one
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
        """Append an exchange, and give it its number."""
        number = exchange.number = self.last + 1
        self._exchanges[number] = exchange
        self.memory += exchange.memory
        self.last = number
        if number - self.first >= self.max_exchanges or self.memory > self.max_bytes:
            self._make_room()

    def grow(self, exchange: E, size: int) -> None:
        """Count `size` bytes more for an exchange, if it is still kept."""
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
        """Drop the frames of the oldest exchange that has some."""
        size = EXCHANGE_SIZE + len(exchange.request_frame) + len(exchange.response_frame)
        self.first_shown += 1
        exchange.request_frame = exchange.response_frame = b""  # Others may keep the exchange: a fault, its hits.
        exchange.memory -= size
        self.memory -= size

    def _drop_oldest(self) -> None:
        exchange = self._exchanges.pop(self.first)
        self.memory -= exchange.memory
        exchange.request_frame = exchange.response_frame = b""  # Others may keep the exchange: a fault, its hits.
        self.first += 1
        self.first_shown = max(self.first, self.first_shown)

    def clear(self) -> None:
        """Drop all exchanges; the next one gets the next number."""
        while self.first <= self.last:
            self._drop_oldest()

    def get(self, number: int) -> E | None:
        """Return the exchange with this number, or None if it is not kept."""
        return self._exchanges.get(number)

    def between(self, first: int, last: int) -> list[E]:
        """Return the exchanges with these numbers, both included, as far as they are kept."""
        numbers = range(max(first, self.first), min(last, self.last) + 1)
        return [exchange for number in numbers if (exchange := self._exchanges.get(number)) is not None]
