"""The recorder: exchanges that were made of what is on the tape, in a ring whose bytes are bounded.

While no page is open, frames stay on the tape as they are; while one is, a tenth of the time at most goes into
reading them as long as more come. The oldest ones go from there when there are more than the ring would keep, so most
requests of a load are never read.

All of it belongs to the page's thread.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from minibroker.inspection.tape import EXCHANGE_SIZE, MOST_KEPT, Tape
from minibroker.page.cutting import frames_in
from minibroker.page.events import Events
from minibroker.page.rows import Rows
from minibroker.trace.conversation import Conversation
from minibroker.trace.exchange import Kind

if TYPE_CHECKING:
    from collections.abc import Generator

    from minibroker.clock import Clock
    from minibroker.core import Core
    from minibroker.inspection.tape import Event, Tap
    from minibroker.page.source import Source
    from minibroker.trace.exchange import Exchange

MOST_BYTES: Final = 1 << 26
"""Bytes that the ring holds."""
MOST_EXCHANGES: Final = 100_000
_SLICE_S: Final = 0.001
"""Events are read for so many seconds in one turn of the page's loop."""
_BREATHER_S: Final = 0.009
"""Then the broker has so many seconds for itself, while requests come."""
_LENGTH: Final = struct.Struct(">i")
_UNASKED: Final = Kind.UNASKED
_PAUSE_S: Final = 0.05
"""While requests come, the page looks so often."""


class Recorder:
    """The sink of the conversations on all connections.

    Attributes:
        first, last: the numbers of the oldest and the newest exchange that is kept; `last` is 0 before the first one.
        forgotten: the number of requests that the ring has lost, because it was full.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most_exchanges: int = MOST_EXCHANGES) -> None:
        self._most_bytes = most_bytes
        self._most_exchanges = most_exchanges
        self._ring: deque[Exchange] = deque()
        self._kept_bytes = 0
        self._event: Event | None = None
        self._tape: Tape | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: set[int] = set()
        self._fresh = 1  # numbers from here on are new to subscribers
        self._subscribers: set[Subscription] = set()
        self._is_over = False
        self.events = Events()
        self.rows = Rows(self.events)
        self.first = 1
        self.last = 0

    def open_tape(self, clock: Clock, core: Core) -> Tape:
        """The tape that it reads."""
        self.rows.core = core
        self.events.watch(core)
        self._tape = Tape(clock, self._wake)
        return self._tape

    def start(self) -> None:
        """Read from now on, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._read_some)

    def stop(self) -> None:
        """Read no more, and end the subscriptions."""
        self._is_over = True
        for each in self._subscribers:
            each.wake()

    @property
    def left_out(self) -> int:
        """The number of frames that the page could not keep up with."""
        return 0 if self._tape is None else self._tape.left_out

    @property
    def forgotten(self) -> int:
        """The number of requests that were forgotten, because the ring was full."""
        return self.first - 1

    def find(self, number: int) -> Exchange | None:
        """An exchange by its number; None for one that is not kept."""
        self.catch_up()
        return self.known(number)

    def known(self, number: int) -> Exchange | None:
        """The same, without a look at what waits."""
        return self._ring[number - self.first] if self.first <= number <= self.last else None

    def between(self, first: int, last: int) -> list[Exchange]:
        """The exchanges with these numbers, both included, as far as they are kept."""
        self.catch_up()
        first, last = max(first, self.first), min(last, self.last)
        return [self._ring[number - self.first] for number in range(first, last + 1)]

    def catch_up(self) -> None:
        """Read all that has come."""
        if self._tape is None:
            return
        while not self._read_slice(self._tape):
            time.sleep(0)  # the broker's thread goes first
        self._tell()

    def leave_unread(self) -> None:
        """Let new requests wait on the tape. Forget the oldest requests while there are more bytes than the ring holds.

        Those in the ring are older than those that wait.
        """
        tape = self._tape
        if tape is None:
            return
        self._make_room(tape.waiting)
        while tape.waiting > self._most_bytes and (event := tape.take()) is not None:
            event.tap.reader, event.tap.is_torn = None, True
            if isinstance(event.data, list):
                self.last += len(event.data)
                self.first = self.last + 1

    @contextmanager
    def subscribed(self) -> Generator[Subscription]:
        """A subscription to the numbers of exchanges that come or change."""
        self.catch_up()
        subscription = Subscription(self)
        self._subscribers.add(subscription)
        try:
            yield subscription
        finally:
            self._subscribers.discard(subscription)

    @property
    def is_over(self) -> bool:
        """Whether the page is about to stop."""
        return self._is_over

    # The tape

    def _wake(self) -> None:
        """Events have come. On the broker's thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._read_some)

    def _read_some(self) -> None:
        if self._tape is None or self._loop is None or self._is_over:
            return
        have_come = self._tape.look()
        self.leave_unread()
        if not self._subscribers or self._read_slice(self._tape):
            self._loop.call_later(_PAUSE_S, self._rest)
        else:
            self._loop.call_later(_BREATHER_S if have_come else 0, self._read_some)
        if self._subscribers:
            self._tell()

    def _read_slice(self, tape: Tape) -> bool:
        """Read for a while; returns whether all has been read."""
        until = time.perf_counter() + _SLICE_S
        while (event := tape.take()) is not None:
            self._read(event)
            if time.perf_counter() > until:
                return False
        return True

    def _rest(self) -> None:
        if self._tape is not None and not self._tape.rest():
            self._read_some()

    def _read(self, event: Event) -> None:
        tap = event.tap
        conversation: Conversation | None = tap.reader
        if conversation is None:
            if event.data is None:
                return
            conversation = tap.reader = self._meet(tap)
        self._event = event
        if event.data is None:
            conversation.close("the connection closed")
            tap.reader = None
        elif isinstance(event.data, list):
            for frame in event.data:
                conversation.request(frame, _LENGTH.size + _LENGTH.unpack_from(frame)[0])
        else:
            assert event.ranges is not None
            for frame, size in frames_in(event.data, event.ranges):
                conversation.response(frame[: MOST_KEPT + _LENGTH.size], size)

    def _meet(self, tap: Tap) -> Conversation:
        ours, theirs = tap.ends
        return Conversation(_address(theirs), f"{tap.node} at {_address(ours)}", self, None, is_torn=tap.is_torn)

    # What a conversation calls

    def begin(self, exchange: Exchange, frame: bytes | bytearray) -> None:
        """A request has come."""
        if exchange.kind is _UNASKED:  # its request was left out
            return
        event = self._event
        assert event is not None
        exchange.number = self.last = self.last + 1
        exchange.time_ms, exchange.began_ms = event.time_ms, event.at_ms
        exchange.request = frame
        self._ring.append(exchange)
        self.rows.meet(exchange)
        self._kept_bytes += len(frame) + EXCHANGE_SIZE
        if self._kept_bytes > self._most_bytes or len(self._ring) > self._most_exchanges:
            self._make_room()

    def end(self, exchange: Exchange, frame: bytes | bytearray) -> None:
        """Nothing more will come of an exchange."""
        event, number = self._event, exchange.number
        assert event is not None
        if exchange.kind is _UNASKED:
            return
        if frame:
            exchange.ended_ms = event.at_ms
        if number < self.first:
            return
        exchange.response = frame
        self._kept_bytes += len(frame)
        self.rows.forget(number)
        if number < self._fresh and self._subscribers:
            self._changed.add(number)
        if self._kept_bytes > self._most_bytes:
            self._make_room()

    def complain(self, text: str) -> None:
        """Never called: addresses are left as they are."""

    def _make_room(self, waiting: int = 0) -> None:
        """Forget the oldest ones, so that there is room for `waiting` bytes more."""
        ring = self._ring
        most_bytes = self._most_bytes - waiting
        while ring and (self._kept_bytes > most_bytes or len(ring) > self._most_exchanges):
            exchange = ring.popleft()
            self._kept_bytes -= exchange.kept_bytes + EXCHANGE_SIZE
            self.rows.forget(exchange.number)
            self.first = exchange.number + 1

    def _tell(self) -> None:
        fresh = range(self._fresh, self.last + 1)
        if self._changed or fresh:
            for each in self._subscribers:
                each.add(self._changed, fresh)
            self._changed = set()
            self._fresh = fresh.stop


class Subscription:
    """The numbers of exchanges that have come or changed, and that one reader has not seen."""

    def __init__(self, recorder: Source) -> None:
        self._recorder = recorder
        self._numbers: set[int] = set()
        self._fresh = range(0)
        self._event = asyncio.Event()

    def add(self, numbers: set[int], fresh: range = range(0)) -> None:
        """Exchanges have changed, and others have come, which go on where the last ones ended."""
        self._numbers |= numbers
        if fresh:
            self._fresh = range(self._fresh.start if self._fresh else fresh.start, fresh.stop)
        self._event.set()

    def wake(self) -> None:
        """Have the reader look."""
        self._event.set()

    async def next(self, timeout: float) -> list[int]:  # noqa: ASYNC109 - a stream goes on after it
        """The next numbers, sorted; none after `timeout` seconds, and at the end."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return []
        self._event.clear()
        numbers, self._numbers = self._numbers, set()
        fresh, self._fresh = self._fresh, range(0)
        first = self._recorder.first
        changed = sorted(number for number in numbers if number >= first and number not in fresh)
        return [*changed, *range(max(fresh.start, first), fresh.stop)]


def _address(end: Any) -> str:
    """HOST:PORT of a socket's name; "?" for one that is not known any more."""
    if not end:
        return "?"
    host, port = end[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
