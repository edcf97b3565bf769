"""The writer of lines: exchanges that are over wait here until they are decoded, shown and written.

None of that is done while a request passes. Every 20 ms the exchanges that have come are decoded for 2 ms at a time,
and a thread writes their lines, so that a slow terminal holds up nothing. Memory has three limits:

- 64 MiB of frames. Those beyond are shown by their first bytes.
- 10,000 exchanges. From then on each new one has the oldest one decoded at once.
- 16 MiB of lines. Those beyond are left out, and a line says how many.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO

from minibroker.clock import Clock
from minibroker.trace.exchange import Exchange
from minibroker.trace.reading import KnownTopics, Reading, read

MOST_FRAMES: Final = 1 << 26
MOST_WAITING: Final = 10_000
MOST_LINES: Final = 1 << 24
_HEAD: Final = 1024
_PAUSE_MS: Final = 20
_SLICE_MS: Final = 2
_END_S: Final = 5.0
_MOST_COMPLAINTS: Final = 1000


class Output:
    """A file that a thread writes to. `on_failure` is called there, once, when it cannot be written to."""

    def __init__(self, file: TextIO, on_failure: Callable[[OSError], None]) -> None:
        self._file = file
        self._on_failure = on_failure
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._thread = threading.Thread(target=self._run, name="trace-output", daemon=True)
        self._thread.start()

    def write(self, text: str) -> bool:
        """Have a text written; False if too much is waiting."""
        with self._lock:
            if self._waiting > MOST_LINES:
                return False
            self._waiting += len(text)
        self._queue.put(text)
        return True

    def close(self) -> None:
        """Wait until all is written, but not for ever: the reader of a pipe may have stopped to read."""
        self._queue.put(None)
        self._thread.join(_END_S)

    def _run(self) -> None:
        has_failed = False
        while (text := self._queue.get()) is not None:
            if not has_failed:
                try:
                    self._file.write(text)
                    self._file.flush()
                except OSError as error:
                    has_failed = True
                    self._on_failure(error)
            with self._lock:
                self._waiting -= len(text)


class LineWriter:
    """The sink of all conversations; without an output it keeps nothing.

    Args:
        output: where lines go.
        line: makes the line of a reading.
        left_out: makes the line that says how many lines were left out.
        complain: prints a problem for the user.
    """

    def __init__(
        self,
        clock: Clock,
        output: Output | None,
        line: Callable[[Reading], str],
        left_out: Callable[[int], str],
        complain: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._output = output
        self._line = line
        self._left_out_line = left_out
        self._complain = complain
        self._complaints: set[str] = set()
        self._topics = KnownTopics()
        self._over: deque[Exchange] = deque()
        self._kept_bytes = 0
        self._left_out = 0
        self._count = 0
        self._is_waiting = False

    def begin(self, exchange: Exchange, frame: bytes | bytearray) -> None:
        """A request has come."""
        if self._output is None:
            return
        self._count += 1
        exchange.number = self._count
        exchange.time_ms = self._clock.now_ms()
        exchange.began_ms = self._clock.monotonic_ms()
        exchange.request = self._kept(frame)

    def end(self, exchange: Exchange, frame: bytes | bytearray) -> None:
        """Nothing more will come of an exchange."""
        if self._output is None:
            return
        if frame:
            exchange.ended_ms = self._clock.monotonic_ms()
            exchange.response = self._kept(frame)
        self._over.append(exchange)
        if len(self._over) > MOST_WAITING:
            self._write(self._shown(self._over.popleft()))
        if not self._is_waiting:
            self._is_waiting = True
            self._clock.call_later(_PAUSE_MS, self._show_some)

    def complain(self, text: str) -> None:
        """Print a text for the user, once."""
        if text not in self._complaints and len(self._complaints) < _MOST_COMPLAINTS:
            self._complaints.add(text)
            self._complain(text)

    def close(self) -> None:
        """Show what has come, and write it."""
        if self._output is not None:
            while self._over:
                self._write(self._shown(self._over.popleft()))
            self._tell_of_left_out()
            self._output.close()

    def _kept(self, frame: bytes | bytearray) -> bytes | bytearray:
        if self._kept_bytes + len(frame) > MOST_FRAMES:
            frame = frame[:_HEAD]
        self._kept_bytes += len(frame)
        return frame

    def _show_some(self) -> None:
        until_ms = self._clock.monotonic_ms() + _SLICE_MS
        lines: list[str] = []
        try:
            while self._over and self._clock.monotonic_ms() < until_ms:
                lines.append(self._shown(self._over.popleft()))
        finally:
            self._is_waiting = bool(self._over)
            if self._is_waiting:
                self._clock.call_later(0, self._show_some)
        self._tell_of_left_out()
        self._write("".join(lines), len(lines))

    def _shown(self, exchange: Exchange) -> str:
        self._kept_bytes -= exchange.kept_bytes
        return self._line(read(exchange, self._topics))

    def _write(self, text: str, lines: int = 1) -> None:
        if self._output is not None and not self._output.write(text):
            self._left_out += lines

    def _tell_of_left_out(self) -> None:
        if self._left_out and self._output is not None and self._output.write(self._left_out_line(self._left_out)):
            self._left_out = 0
