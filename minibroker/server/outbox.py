"""The outgoing half of a connection: answers in memory, and file ranges, of which only small ones pass through Python.

asyncio's transport sends what is in memory. A range of a file is sent with `os.sendfile` on a second descriptor of
the same socket, while the transport has nothing of its own to send; where `os.sendfile` is missing or refuses, or
there is no descriptor to be had, the range is read and sent like anything else.
"""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from minibroker_protocol.codec import Splices
from minibroker_storage.descriptors import is_among_the_last
from minibroker_storage.errors import StorageError
from minibroker_storage.files import COPIED, LogSlice

HAS_SENDFILE: Final = hasattr(os, "sendfile")
_CHUNK: Final = 1 << 18
_WHOLE: Final = 4 * _CHUNK
"""A larger answer waits in pieces: asyncio would copy all that the socket does not take at once."""
_UNSENT: Final = 128 * 1024
"""Bytes that the kernel takes beyond those that the client's window has room for.

By default it would take megabytes far ahead of the client, which fall out of the processor's caches before they leave.
With 32 KiB, readers with small windows come to a halt.
"""
_NOTSENT_LOWAT: Final = getattr(socket, "TCP_NOTSENT_LOWAT", None)
_MORE: Final = getattr(socket, "MSG_MORE", 0)
"""The flag for the kernel that a file range follows, so that the header gets no packet of its own."""


class Outbox:
    """The bytes that one connection has yet to send.

    `on_moved` is called when the client has taken more of what it did not take at once, `on_drained` when everything
    has left after `is_blocked` had been true.

    Attributes:
        is_blocked: something is left to send.
        sendfile: ranges of files go from the file to the socket without a copy.
    """

    __slots__ = (
        "_direct",
        "_loop",
        "_on_drained",
        "_on_moved",
        "_paused",
        "_queue",
        "_resuming",
        "_transport",
        "_waiting",
        "is_blocked",
        "sendfile",
    )

    def __init__(
        self, transport: asyncio.Transport, on_moved: Callable[[], None], on_drained: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._on_moved = on_moved
        self._on_drained = on_drained
        self._queue: deque[memoryview | LogSlice] = deque()
        self.is_blocked = False
        self._paused = False  # the transport still has bytes of its own
        self._resuming = False  # the transport has none left, and it is soon our turn
        self._waiting = False  # for the socket to take more of a file
        self._direct: socket.socket | None = None
        self._loop = asyncio.get_running_loop()
        # TLS encrypts in Python's process: the file has to pass through it.
        self.sendfile = HAS_SENDFILE and transport.get_extra_info("sslcontext") is None
        if _NOTSENT_LOWAT is not None:
            with contextlib.suppress(OSError, AttributeError):  # a socket that is no TCP's, or none
                transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, _UNSENT)

    def send(self, data: bytearray, splices: Splices) -> None:
        """Send `data` with the splices at their places."""
        if self._transport.is_closing():
            return
        # Nothing waits, so the bytes go to the transport as they are. With a queue they would overtake it.
        if not self._queue and (splices or len(data) <= _WHOLE):
            if not splices:
                self._transport.write(data)
                return
            size = 0
            for _, splice in splices:
                size += splice.size
            # Small ranges are cheaper copied: `sendfile` needs two system calls and a second descriptor.
            if size <= COPIED:
                self._send_joined(data, splices)
                return
        view = memoryview(data)
        sent = 0
        for position, splice in splices:
            if position > sent:
                self._queue.append(view[sent:position])
            part = cast("LogSlice", splice)
            try:
                part.handle.pin()
            except (OSError, StorageError):
                # The file cannot be opened, or was deleted by a request behind the fetch: the response cannot be sent.
                self._transport.abort()
                return
            self._queue.append(part)
            sent = position
        self._queue.extend(view[begin : begin + _CHUNK] for begin in range(sent, len(view), _CHUNK))
        self._pump()

    def _send_joined(self, data: bytearray, splices: Splices) -> None:
        """Send `data` with the bytes of the ranges at their places."""
        view = memoryview(data)
        parts: list[memoryview | bytes] = []
        sent = 0
        try:
            for position, splice in splices:
                part = cast("LogSlice", splice)
                piece = part.read()
                if len(piece) < part.size:
                    # The file was truncated meanwhile, and the response's length is sent already.
                    self._transport.abort()
                    return
                parts += (view[sent:position], piece)
                sent = position
        except (OSError, StorageError):
            self._transport.abort()
            return
        parts.append(view[sent:])
        self._transport.write(b"".join(parts))

    def pause(self) -> None:
        """The transport's own buffer has filled."""
        self.is_blocked = self._paused = True
        self._resuming = False

    def resume(self) -> None:
        """The transport's own buffer is empty."""
        # Not at once: asyncio reports a lost connection twice when a write fails while it tells us to go on.
        self._resuming = True
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if not self._resuming:
            return
        self._resuming = self._paused = False
        self._on_moved()
        self._pump()
        if not self.is_blocked:
            self._on_drained()

    def close(self) -> None:
        """Nothing more will be sent."""
        self._resuming = False
        self._stop_waiting()
        for item in self._queue:
            if isinstance(item, LogSlice):
                item.handle.unpin()
        self._queue.clear()
        if self._direct is not None:
            self._direct.close()
            self._direct = None

    def _pump(self) -> None:
        """Send until the queue is empty or the socket is full."""
        queue = self._queue
        while queue and not self._paused and not self._waiting and not self._transport.is_closing():
            item = queue[0]
            if not isinstance(item, LogSlice):
                queue.popleft()
                if queue and self.sendfile and isinstance(queue[0], LogSlice):
                    item = self._send_ahead(item)
                if item:
                    self._transport.write(item)
                continue
            # It stays in the queue until it has left, so that `close` finds and unpins it whatever happens here.
            left = self._send_range(item)
            if left is None:
                queue.popleft()
                item.handle.unpin()
            else:
                queue[0] = left
        self.is_blocked = self._paused or bool(queue)

    def _send_ahead(self, item: memoryview) -> memoryview:
        """Send bytes that a file range follows, as one packet with it if may be.

        Returns what the socket did not take.
        """
        direct = self._socket()
        if direct is None:
            return item
        try:
            return item[direct.send(item, _MORE) :]
        except (BlockingIOError, InterruptedError):
            return item
        except OSError:
            return item  # the transport meets the same fault and reports it

    def _send_range(self, item: LogSlice) -> LogSlice | None:
        """Send a range as far as the socket takes it; returns what is left."""
        direct = self._socket() if self.sendfile else None
        if direct is None:
            return self._send_copy(item)
        handle, position, size = item
        try:
            with handle as fd:  # pinned before, so the descriptor is there even if the file was deleted since
                while size:
                    sent = os.sendfile(direct.fileno(), fd, position, size)
                    if sent == 0:
                        # The file was truncated meanwhile, and the response's length is sent already.
                        self._transport.abort()
                        return None
                    position += sent
                    size -= sent
        except (BlockingIOError, InterruptedError):
            self._wait(direct)
            return item._replace(position=position, size=size)
        except (BrokenPipeError, ConnectionError):
            self._transport.abort()
            return None
        except OSError:
            # Not every file system can do it; what is left goes the other way.
            self.sendfile = False
            return item._replace(position=position, size=size)
        return None

    def _send_copy(self, item: LogSlice) -> LogSlice | None:
        """Read a piece and hand it to the transport; returns what is left."""
        try:
            with item.handle as fd:
                piece = os.pread(fd, min(item.size, _CHUNK), item.position)
        except OSError:
            piece = b""
        if not piece:
            self._transport.abort()
            return None
        self._transport.write(piece)
        left = item._replace(position=item.position + len(piece), size=item.size - len(piece))
        return left if left.size else None

    def _socket(self) -> socket.socket | None:
        """The second descriptor; None while descriptors are short."""
        if self._direct is None:
            # asyncio keeps the transport's own descriptor to itself, so waiting for it needs a second one.
            try:
                direct: socket.socket = self._transport.get_extra_info("socket").dup()
            except OSError:
                return None
            if is_among_the_last(direct.fileno()):
                direct.close()
                return None
            direct.setblocking(False)
            self._direct = direct
        return self._direct

    def _wait(self, direct: socket.socket) -> None:
        if not self._waiting:
            # asyncio watches the descriptor of its own; the second one gets its own writer, or the loop would refuse
            # it.
            self._waiting = True
            self._loop.add_writer(direct.fileno(), self._on_writable)

    def _stop_waiting(self) -> None:
        if self._waiting and self._direct is not None:
            self._loop.remove_writer(self._direct.fileno())
        self._waiting = False

    def _on_writable(self) -> None:
        self._on_moved()
        self._stop_waiting()
        self._pump()
        if not self.is_blocked:
            self._on_drained()
