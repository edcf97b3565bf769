"""The tape: frames that pass a broker's connections, handed to another thread as they are.

It is there only for a broker with a page. The broker's thread copies bytes and appends them, and does no more: requests
are matched with responses, and decoded, on the thread of the reader. While more than 64 MiB wait for the reader,
further frames are left out, and counted.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from minibroker_storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from minibroker.clock import Clock
    from minibroker.routing.interceptors import Take
    from minibroker.routing.outcomes import AnyOutcome
    from minibroker_protocol.codec import Splices
    from minibroker_storage.log_slice import LogSlice

MOST_KEPT: Final = 1 << 20
"""Bytes that are kept of a request, of the memory of a response, and of the file ranges in it."""
MOST_WAITING: Final = 1 << 26
"""Bytes that may wait for the reader."""
_EVENT_SIZE: Final = 200
"""Bytes that an event without content takes, about."""


class Range(NamedTuple):
    """A range of a file within a response.

    Attributes:
        position: where it stands in the bytes that were in memory.
        size: in bytes.
        kept: its first bytes, or all of them.
    """

    position: int
    size: int
    kept: bytes


class Event(NamedTuple):
    """Bytes that have passed, or the end of a connection.

    Attributes:
        time_ms, at_ms: when, in ms since the epoch (only of a request) and on the monotonic clock.
        size: of a request with its length; 0 for responses.
        data: a request without its length, or responses; None for the end.
        ranges: the ranges of files within responses; None for a request.
    """

    tap: Tap
    time_ms: int
    at_ms: float
    size: int
    data: bytes | bytearray | None
    ranges: Sequence[Range] | None


class Tape:
    """The events that wait for one reader.

    Args:
        clock: the broker's.
        wake: called on the broker's thread when events have come after `rest`.

    Attributes:
        left_out: the number of events that were left out.
    """

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self.clock = clock
        self.left_out = 0
        self._wake = wake
        self._events: deque[Event] = deque()
        self._came = 0  # bytes; only the broker's thread counts here
        self._went = 0  # and only the reader's thread here
        self._is_resting = True

    def tap(self, ends: tuple[Any, Any], node: int) -> Tap:
        """A tap for one connection to a node; `ends` are the addresses of both ends, ours first."""
        return Tap(self, ends, node)

    def put(self, event: Event, size: int) -> None:
        """Append an event of `size` bytes. On the broker's thread."""
        if self._came - self._went > MOST_WAITING:
            self.left_out += 1
            return
        self._came += size + _EVENT_SIZE
        self._events.append(event)
        if self._is_resting:
            self._is_resting = False
            self._wake()

    def take(self) -> Event | None:
        """The next event; None if there is none. On the reader's thread."""
        try:
            event = self._events.popleft()
        except IndexError:
            return None
        size = 0 if event.data is None else len(event.data)
        if event.ranges:
            size += sum(len(each.kept) for each in event.ranges)
        self._went += size + _EVENT_SIZE
        return event

    def rest(self) -> bool:
        """Have the next event wake the reader; False when there is one already. On the reader's thread."""
        self._is_resting = True
        if not self._events:
            return True
        self._is_resting = False
        return False


class Tap:
    """The frames of one connection.

    Attributes:
        ends: the addresses of both ends, ours first.
        node: the id of the broker that is asked.
        reader: whatever the reader keeps of this connection.
    """

    __slots__ = ("_clock", "_put", "ends", "node", "reader")

    def __init__(self, tape: Tape, ends: tuple[Any, Any], node: int) -> None:
        self._put = tape.put
        self._clock = tape.clock
        self.ends = ends
        self.node = node
        self.reader: Any = None

    def before(self, take: Take) -> Take:
        """`take` that puts each request on the tape first."""
        put, now_ms, monotonic_ms = self._put, self._clock.now_ms, self._clock.monotonic_ms
        new = cast("Any", tuple).__new__  # half of the time of the constructor

        def tapped(frame: memoryview, session: Any) -> AnyOutcome:
            size = len(frame)
            data = bytes(frame if size <= MOST_KEPT else frame[:MOST_KEPT])
            put(new(Event, (self, now_ms(), monotonic_ms(), size + 4, data, None)), len(data))
            return take(frame, session)

        return tapped

    def sent(self, data: bytearray, splices: Splices) -> None:
        """Responses leave: `data`, with ranges of files at their places."""
        kept = 0
        ranges: list[Range] = []
        for position, splice in splices:
            part = cast("LogSlice", splice)
            piece = _beginning(part, MOST_KEPT - kept)
            kept += len(piece)
            ranges.append(Range(position, part.size, piece))
        self._put(Event(self, 0, self._clock.monotonic_ms(), 0, data, ranges), len(data) + kept)

    def close(self) -> None:
        """The connection is over."""
        self._put(Event(self, 0, self._clock.monotonic_ms(), 0, None, None), 0)


def _beginning(part: LogSlice, room: int) -> bytes:
    """The first bytes of a range; none when its file has gone."""
    if room <= 0:
        return b""
    try:
        return bytes(part._replace(size=min(part.size, room)).read())
    except (OSError, StorageError):
        return b""
