"""Readings as lines: text for people, JSON for programs, and the writer of both.

Completed exchanges wait in the writer until they are decoded, formatted and written. None of this is done while a
request is forwarded. Every 20 ms, the new exchanges are decoded for up to 2 ms at a time. A thread writes their lines,
so that a slow terminal delays nothing. Memory has three limits:

- 64 MiB of frames. Only the first 1,024 bytes of later frames are kept.
- 10,000 exchanges. Beyond this limit, each new exchange causes the oldest exchange to be decoded immediately.
- 16 MiB of lines. Later lines are dropped, and a line reports their number.
"""

import json
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TextIO

from minibroker.clock import Clock
from minibroker.security.principals import escape_for_log
from minibroker.server.inspection.exchanges import EXCHANGE_SIZE, Exchange, Kind, Ring
from minibroker.server.inspection.message_forms import frame_without_secrets
from minibroker.server.inspection.message_json import to_json
from minibroker_lab.reading import KnownTopics, Reading, read

HEADING: Final = f"{'time':<12}  {'client':<30}  {'request':<26}  {'about':<36}  {'outcome':<24}  {'ms':>9}  bytes\n"
MAX_FRAME_BYTES: Final = 1 << 26
MAX_WAITING: Final = 10_000
MAX_LINE_BYTES: Final = 1 << 24
_HEAD: Final = 1024
_PAUSE_MS: Final = 20
_SLICE_MS: Final = 2
_END_S: Final = 5.0
_MAX_COMPLAINTS: Final = 1000


def line_of(reading: Reading) -> str:
    """Return the text line of a reading: time, client, API and version, subject, outcome, latency and bytes."""
    exchange = reading.exchange
    seconds, milliseconds = divmod(exchange.time_ms, 1000)
    clock = f"{_time_of_day(seconds)}.{milliseconds:03}"
    client = f"{reading.client_id} {exchange.client}" if reading.client_id else exchange.client
    api = f"{reading.api} v{exchange.version}" if exchange.kind is Kind.REQUEST else reading.api
    latency = "" if exchange.ended_ms is None else f"{exchange.ended_ms - exchange.began_ms:.1f}"
    sizes = f"{exchange.bytes_in}/{exchange.bytes_out}"
    about = f"{reading.about:<36}  {reading.outcome:<24}"
    line = f"{clock:<12}  {client:<30}  {api:<26}  {about}  {latency:>9}  {sizes}"
    return escape_for_log(line) + "\n"


@lru_cache(maxsize=10)
def _time_of_day(seconds: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def json_of(reading: Reading) -> str:
    """Return a reading as one JSON object with a final newline. Messages have the same form as in the journal."""
    exchange = reading.exchange
    content: dict[str, Any] = {
        "number": exchange.number,
        "time": exchange.time_ms,
        "client": exchange.client,
        "broker": exchange.broker,
        "clientId": reading.client_id,
        "api": reading.api,
        "version": exchange.version,
        "correlationId": exchange.correlation_id,
        "request": to_json(reading.request, exchange.version),
        "response": to_json(reading.response, reading.response_version),
        "errors": list(reading.errors),
        "durationMs": None if exchange.ended_ms is None else round(exchange.ended_ms - exchange.began_ms, 3),
        "bytesIn": exchange.bytes_in,
        "bytesOut": exchange.bytes_out,
        "failure": exchange.loss,
    }
    for name, raw in (("requestBytes", reading.request_bytes), ("responseBytes", reading.response_bytes)):
        if raw is not None:
            content[name] = {"size": raw.size} | ({"hidden": True} if raw.shown is None else {"hex": raw.shown.hex()})
    if exchange.replaced:
        content["replaced"] = exchange.replaced
    return json.dumps(content) + "\n"


class Output:
    """A file written by its own thread.

    Args:
        file: The file.
        on_failure: Called once on that thread if the file cannot be written.
    """

    def __init__(self, file: TextIO, on_failure: Callable[[OSError], None]) -> None:
        self._file = file
        self._on_failure = on_failure
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._thread = threading.Thread(target=self._run, name="trace-output", daemon=True)
        self._thread.start()

    def write(self, text: str) -> bool:
        """Queue text for writing. Return False if too much text is waiting."""
        with self._lock:
            if self._waiting > MAX_LINE_BYTES:
                return False
            self._waiting += len(text)
        self._queue.put(text)
        return True

    def close(self) -> None:
        """Wait until everything is written, or for 5 seconds, because the reader of a pipe may have stopped."""
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
    """Receives the exchanges of all conversations, numbers and timestamps them, and writes the completed ones.

    Args:
        clock: The clock of all times.
        output: The destination of the lines, or None.
        line: Returns the line of a reading.
        left_out: Returns the line that reports how many lines were dropped.
        complain: Prints a problem for the user.
        ring: Stores the exchanges for a page, or None without a page.
    """

    def __init__(
        self,
        clock: Clock,
        output: Output | None,
        line: Callable[[Reading], str],
        left_out: Callable[[int], str],
        complain: Callable[[str], None],
        ring: Ring[Exchange] | None = None,
    ) -> None:
        self._ring = ring
        self._clock = clock
        self._output = output
        self._line = line
        self._dropped_line = left_out
        self._complain = complain
        self._complaints: set[str] = set()
        self._topics = KnownTopics()
        self._over: deque[Exchange] = deque()
        self._kept_bytes = 0
        self._dropped = 0
        self._count = 0
        self._is_waiting = False

    def begin(self, exchange: Exchange, frame: bytes | bytearray) -> None:
        """Begin an exchange whose request has arrived."""
        if self._output is None and self._ring is None:
            return
        exchange.began = self._clock.read_both_ms()
        exchange.request_frame = self._limit_frame(frame_without_secrets(exchange, frame, is_request=True))
        if self._ring is None:
            self._count += 1
            exchange.number = self._count
        else:
            exchange.memory = EXCHANGE_SIZE + len(exchange.request_frame)
            self._ring.add(exchange)

    def end(self, exchange: Exchange, frame: bytes | bytearray, size: int = 0) -> None:
        """End an exchange.

        Args:
            exchange: The exchange.
            frame: The start of the response, or empty if there is none.
            size: The size of the response in bytes.
        """
        if self._output is None and self._ring is None:
            return
        if frame:
            exchange.ended_ms = self._clock.monotonic_ms()
            exchange.response_frame = self._limit_frame(frame_without_secrets(exchange, frame, is_request=False))
            if self._ring is not None:
                self._ring.grow(exchange, len(exchange.response_frame))
            # Set the size last, because the page's thread treats an exchange as complete once it has a response size.
            exchange.bytes_out = size
        elif exchange.failure is None:
            exchange.expects_response = False
        if self._output is None:
            return
        self._over.append(exchange)
        if len(self._over) > MAX_WAITING:
            self._write(self._format(self._over.popleft()))
        if not self._is_waiting:
            self._is_waiting = True
            self._clock.call_later(_PAUSE_MS, self._write_some)

    def complain(self, text: str) -> None:
        """Print a problem for the user. Each text is printed only once."""
        if text not in self._complaints and len(self._complaints) < _MAX_COMPLAINTS:
            self._complaints.add(text)
            self._complain(text)

    def close(self) -> None:
        """Write the remaining exchanges, and close the output."""
        if self._output is not None:
            while self._over:
                self._write(self._format(self._over.popleft()))
            self._report_dropped_lines()
            self._output.close()

    def _limit_frame(self, frame: bytes | bytearray) -> bytes | bytearray:
        if self._output is None:
            return frame
        if self._kept_bytes + len(frame) > MAX_FRAME_BYTES:
            frame = frame[:_HEAD]
        self._kept_bytes += len(frame)
        return frame

    def _write_some(self) -> None:
        until_ms = self._clock.monotonic_ms() + _SLICE_MS
        lines: list[str] = []
        try:
            while self._over and self._clock.monotonic_ms() < until_ms:
                lines.append(self._format(self._over.popleft()))
        finally:
            self._is_waiting = bool(self._over)
            if self._is_waiting:
                self._clock.call_later(0, self._write_some)
        self._report_dropped_lines()
        self._write("".join(lines), len(lines))

    def _format(self, exchange: Exchange) -> str:
        self._kept_bytes -= len(exchange.request_frame) + len(exchange.response_frame)
        return self._line(read(exchange, self._topics))

    def _write(self, text: str, lines: int = 1) -> None:
        if self._output is not None and not self._output.write(text):
            self._dropped += lines

    def _report_dropped_lines(self) -> None:
        if self._dropped and self._output is not None and self._output.write(self._dropped_line(self._dropped)):
            self._dropped = 0
