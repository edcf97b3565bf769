"""Streams of bytes cut into frames while they pass.

A frame is an int32 length and that many bytes. Requests pass at once, and `RequestStream` keeps a copy of their start.
Responses pass at once, too, but for those that a conversation holds to change them: `ResponseStream` gives them out
when they are whole. A negative length is not Kafka's protocol: everything from there on passes as it is.
"""

from typing import Final, Protocol

PREFIX: Final = 4
HEAD: Final = 8
"""Length and correlation id: enough of a response to know the request."""


class Listener(Protocol):
    """A conversation, as far as streams know it."""

    def request(self, frame: bytes | bytearray, size: int) -> None:
        """A request was received; `frame` may end early, `size` is that of the whole frame with its length."""
        ...

    def holds(self, head: bytes, size: int) -> bool:
        """Whether a response has to be whole before it passes; `head` is its beginning, up to `HEAD` bytes."""
        ...

    def response(self, frame: bytes | bytearray, size: int) -> bytes | bytearray:
        """A response was received; returns the bytes for the client. Those of a response that was not held are lost."""
        ...


class RequestStream:
    """The bytes of a client. `most_kept` bytes of each frame reach the conversation."""

    def __init__(self, listener: Listener, most_kept: int) -> None:
        self._listener = listener
        self._most_kept = most_kept
        self._kept = bytearray()
        self._size = 0  # of the frame with its length; 0 as long as that is unknown
        self._seen = 0
        self.is_opaque = False

    def feed(self, data: bytes) -> None:
        """Pass on each request that ends within `data`."""
        size = len(data)
        if not self._seen and size > PREFIX and int.from_bytes(data[:PREFIX], "big") + PREFIX == size:
            self._listener.request(data[: self._most_kept], size)
        else:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        position = 0
        while position < len(data) and not self.is_opaque:
            goal = self._size or PREFIX
            part = data[position : position + goal - self._seen]
            position += len(part)
            self._seen += len(part)
            if (room := self._most_kept - len(self._kept)) > 0:
                self._kept += part[:room]
            if self._seen < goal:
                return
            if not self._size:
                length = int.from_bytes(self._kept, "big", signed=True)
                self._size = PREFIX + length
                self.is_opaque = length < 0
            if self._seen == self._size:
                frame, self._kept, self._seen, self._size = self._kept, bytearray(), 0, 0
                self._listener.request(frame, PREFIX + int.from_bytes(frame[:PREFIX], "big"))


class ResponseStream:
    """The bytes of a broker."""

    def __init__(self, listener: Listener, most_kept: int) -> None:
        self._listener = listener
        self._most_kept = most_kept
        self._held = bytearray()  # of a frame that has not passed, or the first bytes of one
        self._held_size = 0  # of a frame that is held until it is whole
        self._kept = bytearray()  # of a frame that passes
        self._left = 0
        self._size = 0
        self.is_opaque = False

    def feed(self, data: bytes) -> list[bytes | bytearray]:
        """The bytes that may pass now, in order."""
        passed: list[bytes | bytearray] = []
        position = 0
        if self._held and not self._held_size:
            data = bytes(self._held) + data
            self._held.clear()
        while position < len(data):
            if self.is_opaque:
                passed.append(data[position:])
                break
            if self._left:
                position = self._pass_on(data, position, passed)
            elif self._held_size:
                position = self._hold(data, position, passed)
            else:
                position = self._begin(data, position, passed)
        return passed

    def _begin(self, data: bytes, position: int, passed: list[bytes | bytearray]) -> int:
        """At the start of a frame."""
        head = data[position : position + HEAD]
        size = PREFIX + int.from_bytes(head[:PREFIX], "big", signed=True) if len(head) >= PREFIX else HEAD
        if size < PREFIX:
            self.is_opaque = True
        elif len(head) < min(HEAD, size):
            self._held += head
            position = len(data)
        elif position + size <= len(data):
            passed.append(self._listener.response(data[position : position + size], size))
            position += size
        elif self._listener.holds(head, size):
            self._held_size = size
        else:
            self._left = self._size = size
        return position

    def _hold(self, data: bytes, position: int, passed: list[bytes | bytearray]) -> int:
        part = data[position : position + self._held_size - len(self._held)]
        self._held += part
        if len(self._held) == self._held_size:
            frame, self._held, self._held_size = self._held, bytearray(), 0
            passed.append(self._listener.response(frame, len(frame)))
        return position + len(part)

    def _pass_on(self, data: bytes, position: int, passed: list[bytes | bytearray]) -> int:
        part = data[position : position + self._left]
        passed.append(part)
        self._left -= len(part)
        if (room := self._most_kept - len(self._kept)) > 0:
            self._kept += part[:room]
        if not self._left:
            frame, self._kept = self._kept, bytearray()
            self._listener.response(frame, self._size)
        return position + len(part)
