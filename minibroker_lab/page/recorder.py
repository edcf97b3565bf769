"""The recorder, which provides the recorded exchanges to the page and notifies subscribers of new ones.

The thread of the broker or of the proxy fills a ring of exchanges (`inspection.exchanges`). The recorder reads the ring
on the page's thread, and only while a page is open or requests data.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from minibroker_lab.page.rows import Events, Rows
from minibroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from minibroker.cluster.core import Core
    from minibroker.server.inspection.exchanges import Exchange, Ring

_POLL_S: Final = 0.05
"""The interval between checks for new exchanges while a page is open, in seconds."""
_EXCHANGES_PER_STEP: Final = 500
_SLICE_S: Final = 0.002


class Recorder:
    """Reads exchanges from a ring on the page's thread.

    Attributes:
        rows: The rows of the request list.
        events: The events of the broker.
    """

    def __init__(self, ring: Ring[Any], core: Core | None = None) -> None:
        self._ring = ring
        self._waiting: set[int] = set()  # Numbers of the exchanges without a response.
        self._seen = 0
        self._forgotten = 0
        self._subscribers: set[Subscription] = set()
        self.is_over = False
        self.events = Events()
        self.rows = Rows(core)
        if core is not None:
            self.events.watch(core)

    def start(self) -> None:
        """Notify subscribers on the running loop every 50 ms until `stop`."""
        if not self.is_over:
            if self._subscribers:
                self.catch_up()
            asyncio.get_running_loop().call_later(_POLL_S, self.start)

    def stop(self) -> None:
        """End all subscriptions, because the page is about to stop."""
        self.is_over = True
        for subscription in self._subscribers:
            subscription.wake()

    @property
    def first(self) -> int:
        """The number of the oldest exchange that is still shown."""
        return self._ring.first_shown

    @property
    def last(self) -> int:
        """The number of the newest exchange, or 0 before the first exchange."""
        return self._ring.last

    def find(self, number: int) -> Exchange | None:
        """Return the exchange with this number, or None if it is no longer recorded."""
        self.catch_up()
        return self.known(number)

    def known(self, number: int) -> Exchange | None:
        """Return the exchange like `find`, but without first reading changes from the ring."""
        exchange: Exchange | None = self._ring.get(number) if number >= self.first else None
        return exchange

    def between(self, first: int, last: int) -> list[Exchange]:
        """Return the recorded exchanges from `first` to `last`, inclusive."""
        self.catch_up()
        return self._ring.between(max(first, self.first), last)

    async def in_slices(self, first: int, last: int) -> AsyncGenerator[Exchange]:
        """Yield the recorded exchanges from `first` to `last`, inclusive, and let other tasks run in between."""
        began = perf_counter()
        for start in range(first, last + 1, _EXCHANGES_PER_STEP):
            for exchange in self.between(start, min(start + _EXCHANGES_PER_STEP - 1, last)):
                yield exchange
                if perf_counter() - began > _SLICE_S:
                    await asyncio.sleep(0)
                    began = perf_counter()

    @contextmanager
    def subscribed(self) -> Generator[Subscription]:
        """Subscribe to the numbers of new and changed exchanges within a `with` block."""
        self.catch_up()
        subscription = Subscription(self)
        self._subscribers.add(subscription)
        try:
            yield subscription
        finally:
            self._subscribers.discard(subscription)

    def catch_up(self) -> None:
        """Read new and changed exchanges from the ring, and notify subscribers."""
        ring, rows = self._ring, self.rows
        new_numbers = range(self._seen + 1, ring.last + 1)
        self._seen = new_numbers.stop - 1
        changed = {number for number in self._waiting if (waiting := self.known(number)) is None or waiting.is_settled}
        self._waiting -= changed
        for number in range(max(new_numbers.start, self.first), new_numbers.stop):
            exchange = self.known(number)
            if exchange is not None:
                rows.add_api(exchange)
                if exchange.is_settled:
                    self._save_topic_ids(exchange)
                else:
                    self._waiting.add(number)
        for number in changed:
            rows.forget(number)
            if (exchange := self.known(number)) is not None:
                self._save_topic_ids(exchange)
        # Read `first` only once, because the broker's thread may advance it while this function runs.
        first = self.first
        for number in range(self._forgotten, first):
            rows.forget(number)
        self._forgotten = first
        if changed or new_numbers:
            for subscription in self._subscribers:
                subscription.add(changed, new_numbers)

    def _save_topic_ids(self, exchange: Exchange) -> None:
        """Save the topic ids in a Metadata response: later requests use them, and a proxy cannot look them up."""
        if self.rows.topics.core is None and exchange.api_key == ApiKey.METADATA and exchange.bytes_out:
            self.rows.reading(exchange)


class Reader:
    """Reads each exchange once it is settled, which means that its response is recorded or can no longer arrive.

    Args:
        recorder: The source of the exchanges.
        read: Called with each settled exchange.
        is_chosen: Returns whether an exchange is read at all.
        first: The number of the first exchange to read.
    """

    def __init__(
        self,
        recorder: Recorder,
        read: Callable[[Exchange], None],
        is_chosen: Callable[[Exchange], bool] = lambda _: True,
        first: int = 1,
    ) -> None:
        self._recorder = recorder
        self._read = read
        self._is_chosen = is_chosen
        self._next = first
        self._waiting: set[int] = set()
        self._lock = asyncio.Lock()

    async def read_new(self, miss: Callable[[], None] = lambda: None) -> None:
        """Read the exchanges that were recorded or answered since the last call.

        Args:
            miss: Called if exchanges were dropped before they were read.
        """
        recorder = self._recorder
        async with self._lock:
            recorder.catch_up()
            last = recorder.last
            if self._next < recorder.first:
                miss()
            waiting, self._waiting = sorted(self._waiting), set()
            for number in waiting:
                self._look(recorder.known(number))
            async for exchange in recorder.in_slices(max(self._next, recorder.first), last):
                self._next = exchange.number + 1
                self._look(exchange)
            self._next = last + 1

    def _look(self, exchange: Exchange | None) -> None:
        if exchange is None or not self._is_chosen(exchange):
            return
        if exchange.is_settled:
            self._read(exchange)
        else:
            self._waiting.add(exchange.number)


class Subscription:
    """The numbers of new and changed exchanges that one subscriber has not received yet."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._numbers: set[int] = set()
        self._fresh = range(0)
        self._event = asyncio.Event()

    def add(self, numbers: set[int], fresh: range) -> None:
        """Add changed and new exchanges. The numbers of new exchanges continue the previous range."""
        self._numbers |= numbers
        if fresh:
            self._fresh = range(self._fresh.start if self._fresh else fresh.start, fresh.stop)
        self._event.set()

    def wake(self) -> None:
        """Wake the waiting subscriber."""
        self._event.set()

    async def next(self, timeout: float) -> list[int]:  # noqa: ASYNC109 - a stream goes on after it
        """Return the next numbers in ascending order. The list is empty after `timeout` seconds or at the end."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return []
        self._event.clear()
        numbers, self._numbers = self._numbers, set()
        new_numbers, self._fresh = self._fresh, range(0)
        first = self._recorder.first
        changed = sorted(number for number in numbers if number >= first and number not in new_numbers)
        return [*changed, *range(max(new_numbers.start, first), new_numbers.stop)]
