"""The exchanges that have passed through a proxy, in a ring whose bytes are bounded.

`begin` and `end` are called on the proxy's thread and only put exchanges into the ring. All else belongs to the page's
thread: it reads the ring, and decodes what the page shows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from minibroker.inspection.tape import EXCHANGE_SIZE
from minibroker.page.recorder import MOST_BYTES, MOST_EXCHANGES, Subscription
from minibroker.page.rows import Rows
from minibroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Generator

    from minibroker.clock import Clock
    from minibroker.trace.conversation import Sink
    from minibroker.trace.exchange import Exchange

_PAUSE_S: Final = 0.05
"""While a page is open, it looks for changes so often."""


class TracedRequests:
    """A sink that passes everything on to another one, and keeps what it has seen.

    Attributes:
        first, last: the numbers of the oldest and the newest exchange that is kept.
        left_out: always 0.
    """

    def __init__(
        self, clock: Clock, sink: Sink, most_bytes: int = MOST_BYTES, most_exchanges: int = MOST_EXCHANGES
    ) -> None:
        self._clock = clock
        self._sink = sink
        self._most_bytes = most_bytes
        self._most_exchanges = most_exchanges
        self._ring: dict[int, Exchange] = {}
        self._kept_bytes = 0
        self._changed: deque[int] = deque(maxlen=most_exchanges)
        self._subscribers: set[Subscription] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forgotten = 0
        self.is_over = False
        self.left_out = 0
        self.rows = Rows()
        self.first = 1
        self.last = 0

    # On the proxy's thread

    def begin(self, exchange: Exchange, frame: bytes | bytearray) -> None:
        """A request has come."""
        self._sink.begin(exchange, frame)
        number = self.last + 1
        if not exchange.number:  # only the page shows it
            exchange.number = number
            exchange.time_ms = self._clock.now_ms()
            exchange.began_ms = self._clock.monotonic_ms()
            exchange.request = frame
        self._ring[number] = exchange
        self.last = number
        self._keep(len(exchange.request) + EXCHANGE_SIZE)
        self._changed.append(number)

    def end(self, exchange: Exchange, frame: bytes | bytearray) -> None:
        """Nothing more will come of an exchange."""
        self._sink.end(exchange, frame)
        if frame and exchange.ended_ms is None:
            exchange.ended_ms = self._clock.monotonic_ms()
            exchange.response = frame
        if exchange.number >= self.first:
            self._keep(len(exchange.response))
            self._changed.append(exchange.number)

    def complain(self, text: str) -> None:
        """Print a text for the user, once."""
        self._sink.complain(text)

    def _keep(self, size: int) -> None:
        self._kept_bytes += size
        while self._ring and (self._kept_bytes > self._most_bytes or len(self._ring) > self._most_exchanges):
            exchange = self._ring.pop(self.first)
            self._kept_bytes -= exchange.kept_bytes + EXCHANGE_SIZE
            self.first += 1

    # On the page's thread

    def start(self) -> None:
        """Notify subscribers from now on, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._look()

    def stop(self) -> None:
        """End the subscriptions."""
        self.is_over = True
        for each in self._subscribers:
            each.wake()

    def find(self, number: int) -> Exchange | None:
        """An exchange by its number; None for one that is not kept."""
        self.catch_up()
        return self.known(number)

    def known(self, number: int) -> Exchange | None:
        """The same, without a look at what has changed."""
        return self._ring.get(number)

    def between(self, first: int, last: int) -> list[Exchange]:
        """The exchanges with these numbers, both included, as far as they are kept."""
        self.catch_up()
        found = map(self._ring.get, range(max(first, self.first), min(last, self.last) + 1))
        return [each for each in found if each is not None]

    @contextmanager
    def subscribed(self) -> Generator[Subscription]:
        """A subscription to the numbers of exchanges that come or change."""
        subscription = Subscription(self)
        self._subscribers.add(subscription)
        try:
            yield subscription
        finally:
            self._subscribers.discard(subscription)

    def catch_up(self) -> None:
        """Forget the rows of exchanges that have changed, and notify subscribers of them."""
        changed: set[int] = set()
        for _ in range(len(self._changed)):  # more come meanwhile
            changed.add(self._changed.popleft())
        for number in changed:
            self.rows.forget(number)
            exchange = self._ring.get(number)
            if exchange is not None:
                self.rows.meet(exchange)
                if exchange.api_key == ApiKey.METADATA and exchange.bytes_out:
                    self.rows.reading(exchange)  # it has the ids of topics, which later requests name
        for number in range(self._forgotten, self.first):
            self.rows.forget(number)
        self._forgotten = self.first
        if changed:
            for each in self._subscribers:
                each.add(changed)

    def _look(self) -> None:
        if self._loop is not None and not self.is_over:
            if self._subscribers:
                self.catch_up()
            self._loop.call_later(_PAUSE_S, self._look)
