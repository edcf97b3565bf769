"""The sending half of a connection. It sends responses from memory, and file ranges, mostly without copying them.

asyncio's transport sends bytes in memory. File ranges are sent with `os.sendfile` on a second descriptor of the
same socket, while the transport has nothing of its own to send. If `os.sendfile` is missing or fails, or no
descriptor is free, the range is read and sent like other bytes. Small ranges are also read.
"""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from minibroker_protocol.codec import Splices
from minibroker_storage.descriptors import is_reserved
from minibroker_storage.errors import StorageError
from minibroker_storage.files import MAX_COPIED_BYTES, LogSlice
from minibroker_storage.portability import os

HAS_SENDFILE: Final = hasattr(os, "sendfile")
_CHUNK_BYTES: Final = 1 << 18
_MAX_WHOLE_BYTES: Final = 4 * _CHUNK_BYTES
"""The maximum bytes passed to asyncio at a time. It copies the bytes that the socket does not accept immediately."""
_MAX_UNSENT_BYTES: Final = 128 * 1024
"""Bytes that the kernel buffers beyond the client's window.

By default the kernel would buffer megabytes, and those would leave the processor's caches before they are sent. With
32 KiB, readers with small windows stall.
"""
_NOTSENT_LOWAT: Final = getattr(socket, "TCP_NOTSENT_LOWAT", None)
_MORE: Final = getattr(socket, "MSG_MORE", 0)
"""The flag that tells the kernel that a file range follows, so that the header gets no packet of its own."""


class Outbox:
    """The unsent bytes of one connection.

    `on_moved` is called when the client has accepted more of the queued bytes. `on_drained` is called when
    everything has been sent after `is_blocked` was true.

    Attributes:
        is_blocked: Whether bytes are queued.
        sendfile: Whether file ranges are sent from the file to the socket without a copy.
    """

    def __init__(
        self, transport: asyncio.Transport, on_moved: Callable[[], None], on_drained: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._on_moved = on_moved
        self._on_drained = on_drained
        self._queue: deque[memoryview | LogSlice] = deque()
        self.is_blocked = False
        self._paused = False  # Whether the transport still has buffered bytes.
        self._resuming = False  # Whether `_resume_source` is scheduled, because the transport's buffer is empty.
        self._waiting = False  # Whether a file range is waiting for the socket.
        self._direct: socket.socket | None = None
        self._loop = asyncio.get_running_loop()
        # With TLS, this process encrypts the bytes, so `sendfile` cannot be used.
        self.sendfile = HAS_SENDFILE and transport.get_extra_info("sslcontext") is None
        if _NOTSENT_LOWAT is not None:
            with contextlib.suppress(OSError, AttributeError):  # This fails if the socket is not a TCP socket.
                transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, _MAX_UNSENT_BYTES)

    def send(self, data: bytearray, splices: Splices) -> None:
        """Send `data`, with each splice inserted at its position."""
        if self._transport.is_closing():
            return
        # If the queue is empty, the bytes can go directly to the transport. Otherwise they would overtake queued bytes.
        if not self._queue and (splices or len(data) <= _MAX_WHOLE_BYTES):
            if not splices:
                self._transport.write(data)
                return
            size = 0
            for _, splice in splices:
                size += splice.size
            # Copying small ranges is cheaper: `sendfile` takes two system calls and a second descriptor.
            if size <= MAX_COPIED_BYTES:
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
                # The file cannot be opened, or a later request has deleted it, so the response cannot be sent.
                self._transport.abort()
                return
            self._queue.append(part)
            sent = position
        self._queue.extend(view[begin : begin + _CHUNK_BYTES] for begin in range(sent, len(view), _CHUNK_BYTES))
        self._send_queued()

    def _send_joined(self, data: bytearray, splices: Splices) -> None:
        """Send `data` with copies of the file ranges inserted at their positions."""
        view = memoryview(data)
        parts: list[memoryview | bytes] = []
        sent = 0
        try:
            for position, splice in splices:
                part = cast("LogSlice", splice)
                piece = part.read()
                if len(piece) < part.size:
                    # The file was truncated after the response's length was encoded, so the response cannot be
                    # completed.
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
        """Stop sending because the transport's buffer is full."""
        self.is_blocked = self._paused = True
        self._resuming = False

    def resume(self) -> None:
        """Continue sending because the transport's buffer is empty."""
        # Continue in the next turn, because asyncio reports a lost connection twice if a write fails within
        # `resume_writing`.
        self._resuming = True
        self._loop.call_soon(self._resume_source)

    def _resume_source(self) -> None:
        if not self._resuming:
            return
        self._resuming = self._paused = False
        self._on_moved()
        self._send_queued()
        if not self.is_blocked:
            self._on_drained()

    def close(self) -> None:
        """Drop the queued bytes and release their files. Nothing more will be sent."""
        self._resuming = False
        self._stop_waiting()
        for item in self._queue:
            if isinstance(item, LogSlice):
                item.handle.unpin()
        self._queue.clear()
        if self._direct is not None:
            self._direct.close()
            self._direct = None

    def _send_queued(self) -> None:
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
            # Keep the range in the queue until it is sent, so that `close` can always unpin it.
            remainder = self._send_range(item)
            if remainder is None:
                queue.popleft()
                item.handle.unpin()
            else:
                queue[0] = remainder
        self.is_blocked = self._paused or bool(queue)

    def _send_ahead(self, item: memoryview) -> memoryview:
        """Send bytes that precede a file range, in one packet with the range if possible.

        Returns:
            The bytes that the socket did not accept.
        """
        direct = self._get_socket()
        if direct is not None:
            # After an error that is not temporary, the next write of the transport fails, too, and reports it.
            with contextlib.suppress(OSError):
                return item[direct.send(item, _MORE) :]
        return item

    def _send_range(self, item: LogSlice) -> LogSlice | None:
        """Send as much of a range as the socket accepts, and return the remainder, or None."""
        direct = self._get_socket() if self.sendfile else None
        if direct is None:
            return self._send_copy(item)
        handle, position, size = item
        try:
            with handle as fd:  # The file was pinned before, so the descriptor is valid even if the file was deleted.
                while size:
                    sent = os.sendfile(direct.fileno(), fd, position, size)
                    if sent == 0:
                        # The file was truncated after the response's length was sent, so the response cannot be
                        # completed.
                        self._transport.abort()
                        return None
                    position += sent
                    size -= sent
        except (BlockingIOError, InterruptedError):
            # Watch the duplicated socket, because the event loop refuses a writer for the transport's own descriptor.
            self._waiting = True
            self._loop.add_writer(direct.fileno(), self._on_writable)
        except ConnectionError:
            self._transport.abort()
            return None
        except OSError:
            # The file system does not support `sendfile`, so the remainder is copied.
            self.sendfile = False
        return item._replace(position=position, size=size) if size else None

    def _send_copy(self, item: LogSlice) -> LogSlice | None:
        """Read a chunk and write it to the transport. Return the remainder, or None."""
        try:
            with item.handle as fd:
                piece = os.pread(fd, min(item.size, _CHUNK_BYTES), item.position)
        except OSError:
            piece = b""
        if not piece:
            self._transport.abort()
            return None
        self._transport.write(piece)
        remainder = item._replace(position=item.position + len(piece), size=item.size - len(piece))
        return remainder if remainder.size else None

    def _get_socket(self) -> socket.socket | None:
        """Return the second descriptor of the socket, or None while descriptors are short."""
        if self._direct is None:
            # Duplicate the descriptor, because asyncio does not allow others to watch the transport's own.
            try:
                direct: socket.socket = self._transport.get_extra_info("socket").dup()
            except OSError:
                return None
            if is_reserved(direct.fileno()):
                direct.close()
                return None
            direct.setblocking(False)
            self._direct = direct
        return self._direct

    def _stop_waiting(self) -> None:
        if self._waiting and self._direct is not None:
            self._loop.remove_writer(self._direct.fileno())
        self._waiting = False

    def _on_writable(self) -> None:
        self._on_moved()
        self._stop_waiting()
        self._send_queued()
        if not self.is_blocked:
            self._on_drained()
