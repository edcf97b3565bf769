"""The tape: frames that pass a broker's connections, handed to another thread as they are.

It is there only for a broker with a page. The broker's thread copies bytes, and appends those of one turn together; it
does no more: requests are matched with responses, and decoded, on the thread of the reader. While more than 128 MiB
wait for the reader, further frames are left out, and counted. While long frames come faster than 64 MiB a second, only
their beginnings are kept: a reader could keep less than a second of them.
"""

from __future__ import annotations

import struct
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from minibroker_storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from minibroker.clock import Clock
    from minibroker.routing.outcomes import Outcome, Take
    from minibroker_protocol.codec import Splices
    from minibroker_storage.files import LogSlice

MOST_KEPT: Final = 1 << 20
"""Bytes that are kept of a request, of the memory of a response, and of the file ranges in it."""
SHORT: Final = 4096
"""Frames with so many bytes are kept at any rate, and of longer ones the beginning."""
MOST_A_SECOND: Final = 1 << 26
"""Bytes of longer frames that are kept in a second, and those of a whole second at once."""
MOST_WAITING: Final = 1 << 27
"""Bytes that may wait for the reader: twice those that a page keeps, since a reader may leave them until then."""
EXCHANGE_SIZE: Final = 600
"""Bytes that a request takes besides its frame, about, once it is read."""
_EVENT_SIZE: Final = 200
"""Bytes that an event without content takes, about."""
_LENGTH: Final = struct.Struct(">i")


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
    """Bytes that have passed in one turn of a connection, or its end.

    Attributes:
        time_ms, at_ms: when, in ms since the epoch (only of requests) and on the monotonic clock.
        size: bytes that it counts for.
        data: requests with their lengths, or responses in one piece; None for the end. A request that is not kept as a
            whole ends early.
        ranges: the ranges of files within responses; None for requests.
    """

    tap: Tap
    time_ms: int
    at_ms: float
    size: int
    data: list[bytes] | bytearray | None
    ranges: Sequence[Range] | None


class Tape:
    """The events that wait for one reader.

    Args:
        clock: the broker's.
        wake: called on the broker's thread when events have come after `rest`.

    Attributes:
        left_out: the number of events that were left out, of requests each one.
    """

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self.clock = clock
        self.left_out = 0
        self._wake = wake
        self._events: deque[Event] = deque()
        self._came = 0  # bytes; only the broker's thread counts here
        self._went = 0  # and only the reader's thread here
        self._seen = 0  # and here
        self._is_resting = True
        self._credit: float = MOST_A_SECOND
        self._credit_at = perf_counter()  # it is about the load of this machine, whatever the broker's clock says

    def tap(self, ends: tuple[Any, Any], node: int) -> Tap:
        """A tap for one connection to a node; `ends` are the addresses of both ends, ours first."""
        return Tap(self, ends, node)

    def put(self, event: Event) -> None:
        """Append an event. On the broker's thread."""
        if self._came - self._went > MOST_WAITING:
            self.left_out += len(event.data) if isinstance(event.data, list) else 1
            return
        self._events.append(event)
        self._came += event.size  # behind the event: a reader that has seen the sum sees the event
        if self._is_resting:
            self._is_resting = False
            self._wake()

    def room(self, size: int) -> int:
        """The number of bytes to keep of a part of `size` bytes of a frame. On the broker's thread."""
        if size <= SHORT:
            return size
        now = perf_counter()
        credit = min(self._credit + (now - self._credit_at) * MOST_A_SECOND, MOST_A_SECOND)
        kept = min(size, MOST_KEPT)
        is_calm = kept <= credit
        self._credit, self._credit_at = credit - kept if is_calm else credit, now
        return kept if is_calm else SHORT

    @property
    def waiting(self) -> int:
        """Bytes that wait for the reader."""
        return self._came - self._went

    def take(self) -> Event | None:
        """The next event; None if there is none. On the reader's thread."""
        try:
            event = self._events.popleft()
        except IndexError:
            return None
        self._went += event.size
        return event

    def look(self) -> bool:
        """The reader looks at what has come until now, whether it takes it or not; False for nothing. On its thread."""
        seen, self._seen = self._seen, self._came
        return seen != self._seen

    def rest(self) -> bool:
        """Have the next event wake the reader; False when one has come since `look`. On the reader's thread."""
        self._is_resting = True
        if self._came == self._seen:
            return True
        self._is_resting = False
        return False


class Tap:
    """The frames of one connection.

    Attributes:
        ends: the addresses of both ends, ours first.
        node: the id of the broker that is asked.
        reader: whatever the reader keeps of this connection.
        is_torn: whether the reader has dropped events of it.
    """

    __slots__ = (
        "_at_ms",
        "_clock",
        "_put",
        "_requests",
        "_room",
        "_size",
        "_time_ms",
        "ends",
        "is_torn",
        "node",
        "reader",
    )

    def __init__(self, tape: Tape, ends: tuple[Any, Any], node: int) -> None:
        self._put = tape.put
        self._room = tape.room
        self._clock = tape.clock
        self._requests: list[bytes] = []  # of this turn
        self._size = 0
        self._time_ms = 0
        self._at_ms = 0.0
        self.ends = ends
        self.node = node
        self.reader: Any = None
        self.is_torn = False

    def before(self, take: Take) -> Take:
        """`take` that notes each request first; `flush` puts those of a turn on the tape."""
        now_ms, monotonic_ms = self._clock.now_ms, self._clock.monotonic_ms
        pack, join, room = _LENGTH.pack, b"".join, self._room

        def tapped(frame: memoryview, session: Any) -> Outcome:
            requests = self._requests
            if not requests:
                self._time_ms, self._at_ms = now_ms(), monotonic_ms()
            size = len(frame)
            request = join((pack(size), frame if size <= SHORT else frame[: room(size)]))
            self._size += len(request) + EXCHANGE_SIZE
            requests.append(request)
            return take(frame, session)

        return tapped

    def flush(self) -> None:
        """A turn is over: put its requests on the tape."""
        if self._requests:
            self._put(Event(self, self._time_ms, self._at_ms, self._size + _EVENT_SIZE, self._requests, None))
            self._requests = []
            self._size = 0

    def sent(self, data: bytearray, splices: Splices) -> None:
        """Responses leave: `data`, with ranges of files at their places."""
        self.flush()
        kept = 0
        ranges: list[Range] = []
        for position, splice in splices:
            part = cast("LogSlice", splice)
            piece = _beginning(part, min(self._room(part.size), MOST_KEPT - kept))
            kept += len(piece)
            ranges.append(Range(position, part.size, piece))
        self._put(Event(self, 0, self._clock.monotonic_ms(), len(data) + kept + _EVENT_SIZE, data, ranges))

    def close(self) -> None:
        """The connection is over."""
        self.flush()
        self._put(Event(self, 0, self._clock.monotonic_ms(), _EVENT_SIZE, None, None))


def _beginning(part: LogSlice, room: int) -> bytes:
    """The first bytes of a range; none when its file has gone."""
    if room <= 0:
        return b""
    try:
        return bytes(part._replace(size=min(part.size, room)).read())
    except (OSError, StorageError):
        return b""
