"""Frames and headers: what stands around every request and response.

A frame is an int32 length and that many bytes. `FrameReader` cuts a stream of bytes into frames without doing I/O:
the caller receives into `buffer()`, says how much came with `received(n)`, takes frames with `next_frame()`, and ends
each round with `settle()`. Frames are views into memory that is used again: copy bytes that you keep past
`settle()`.

Most frames are whole when they arrive, so all connections receive into one shared scratch buffer, and a connection
owns memory only while a frame of its is incomplete. That makes idle connections free, and memory proportional to what
peers really sent: a length prefix of 100 MB alone allocates nothing of that size. With a buffer each, a thousand idle
connections would take a gigabyte of address space, and the processor's cache would be cold.

A frame of more than `FIRST_GRANT` bytes gets addresses for all of it: the system gives memory page by page as the bytes
arrive. A buffer that doubles would copy them, and a `bytearray` fills its memory with zeros first, which takes 100 ms
for 64 MiB. Such a frame is received in pieces of `SCRATCH_SIZE`, so that others have their turns.

A connection is offered a small part of the scratch buffer at first, and a larger one after each read that fills it.
Once one of its requests is delayed it starts small again: bytes behind a delayed request have to be kept, so few of
them may come in one read.
"""

import contextlib
import mmap
import struct
from typing import Final, NamedTuple

from minibroker_protocol.errors import DecodeError

SCRATCH_SIZE: Final = 1 << 20
"""Large enough for a produce request with a batch of librdkafka's default size (1,000,000 bytes)."""

SMALLEST_READ: Final = 1 << 14
"""Bytes that a new connection, or one with a delayed request, is read from at once."""
_READ_GROWTH: Final = 4

_LENGTH: Final = struct.Struct(">i")
_LENGTH_SIZE: Final = _LENGTH.size
_REQUEST_START: Final = struct.Struct(">hhih")
_CLIENT_ID_LENGTH: Final = 2
_CONTROLLED_SHUTDOWN: Final = 7
_SMALLEST_BUFFER: Final = 1 << 12
FIRST_GRANT: Final = 1 << 21
"""Bytes that a client is granted ahead of what it sends, once it has logged in."""
_POOLED_BYTES: Final = 1 << 23


class RequestHeader(NamedTuple):
    """The fields of request headers v1 and v2; v0, of ControlledShutdown v0 alone, has no client id.

    Attributes:
        body: position of the first byte after the part that v1 and v2 share.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


def read_request_header(frame: memoryview) -> RequestHeader:
    """Read what all headers share. DecodeError when it is cut or the client id is not text."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST_START.unpack_from(frame)
        # Header version 0, of this one request: it has no client id.
        if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None, _REQUEST_START.size - _CLIENT_ID_LENGTH)
        end = _REQUEST_START.size + max(length, 0)
        if length < -1 or end > len(frame):
            raise DecodeError(f"client_id: length {length} with {len(frame) - _REQUEST_START.size} bytes left")
        client_id = None if length < 0 else str(frame[_REQUEST_START.size : end], "utf-8")
    except struct.error:
        raise DecodeError(f"a request header takes {_REQUEST_START.size} bytes, {len(frame)} came") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"client_id: not UTF-8: {error.reason}") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, end)


class BufferPool:
    """The scratch buffer of all connections, and buffers for incomplete frames that are used again while warm."""

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(SCRATCH_SIZE))
        #: The start of the scratch buffer, for connections that may not have all of it.
        self.small = self.scratch[:SMALLEST_READ]
        self._free: dict[int, list[memoryview]] = {}
        self._free_bytes = 0

    def acquire(self, size: int) -> memoryview:
        """A buffer of at least `size` bytes, with undefined content."""
        # Powers of two: few sizes, so that a buffer that is free is likely to fit.
        capacity = max(_SMALLEST_BUFFER, 1 << (size - 1).bit_length())
        free = self._free.get(capacity)
        if free:
            self._free_bytes -= capacity
            return free.pop()
        return memoryview(bytearray(capacity))

    def reserve(self, size: int) -> memoryview | None:
        """As `acquire` for a large frame, in memory that the system gives when it is used. None where it refuses."""
        capacity = 1 << (size - 1).bit_length()
        if self._free.get(capacity):
            return self.acquire(size)
        with contextlib.suppress(OSError):  # a limit on addresses
            return memoryview(mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        return None

    def release(self, buffer: memoryview) -> None:
        """Give a buffer back; kept for the next one who asks unless enough are kept already, or its size is odd."""
        capacity = len(buffer)
        # Not one of the pool's: a paused connection keeps its bytes in a buffer of just their size.
        if capacity & (capacity - 1):
            return
        if self._free_bytes + capacity <= _POOLED_BYTES:
            self._free_bytes += capacity
            self._free.setdefault(capacity, []).append(buffer)


class FrameReader:
    """The incoming half of one connection.

    `max_size` bounds a frame's length (Kafka's `socket.request.max.bytes`), and `grant` the memory that is given to a
    frame of which next to nothing has come.

    Attributes:
        pending: bytes received and not yet taken.
    """

    __slots__ = ("_end", "_offer", "_own", "_pool", "_start", "_view", "grant", "max_size", "pending")

    def __init__(self, pool: BufferPool, max_size: int) -> None:
        self._pool = pool
        self.max_size = max_size
        self.grant = FIRST_GRANT
        self._own: memoryview | None = None  # a buffer of this connection alone, while a frame is incomplete
        self._offer = pool.small  # the part of the scratch buffer that the next read may fill
        self._view = pool.scratch  # what is being parsed: `_own` or the scratch buffer
        self._start = 0
        self._end = 0
        self.pending = 0

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty. Within an incomplete frame it ends with that frame."""
        own = self._own
        if own is None:
            return self._offer
        frame_end = self._start + self._frame_size()
        if self._end - self._start >= _LENGTH.size and self._end < frame_end <= len(own):
            return own[self._end : min(frame_end, self._end + SCRATCH_SIZE)]
        return own[self._end :]

    def received(self, count: int) -> None:
        """`count` bytes were put into the last `buffer()`."""
        if self._own is None:
            self._view, self._start, self._end = self._pool.scratch, 0, count
            self.pending = count
            # The read filled all that it was offered, so more is likely to come at once.
            if count == len(self._offer) < SCRATCH_SIZE:
                self._offer = self._pool.scratch[: count * _READ_GROWTH]
        else:
            self._end += count
            self.pending += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length, or None. DecodeError when its length is negative or too large."""
        start = self._start + _LENGTH_SIZE
        if start > self._end:
            return None
        length: int = _LENGTH.unpack_from(self._view, self._start)[0]
        # Before anything is allocated: the first bytes of a TLS handshake or of HTTP are a length of gigabytes.
        if not 0 <= length <= self.max_size:
            raise DecodeError(f"frame length {length} is not in 0..{self.max_size}")
        stop = start + length
        if stop > self._end:
            return None
        self._start = stop
        self.pending = self._end - stop
        return self._view[start:stop]

    @property
    def is_cut(self) -> bool:
        """Whether the next frame is incomplete, and small enough to be received while no frames are taken."""
        return 0 < self.pending < self._frame_size() <= SCRATCH_SIZE

    def peek_frame(self) -> memoryview | None:
        """Return the next frame without taking it, or None if it is incomplete or its length is invalid."""
        size = self._frame_size()
        if not _LENGTH_SIZE < size <= self.pending:
            return None
        return self._view[self._start + _LENGTH_SIZE : self._start + size]

    def settle(self, *, paused: bool = False) -> None:
        """End of a round: what is left moves out of the shared buffer, and memory that is not needed goes back.

        With `paused` the owner takes no frames for a while, and reads nothing as long as bytes are `pending`: those are
        kept in a buffer of just their size.
        """
        if paused:
            self._offer = self._pool.small
        left = self.pending
        own = self._own
        if left == 0:
            if own is not None:
                self._pool.release(own)
                self._own = None
            self._start = self._end = 0
            return
        # The rest of an incomplete frame is where it belongs already.
        if own is not None and self._start == 0 and (self._end < len(own) or paused):
            return
        if paused:
            kept = memoryview(bytearray(self._view[self._start : self._end]))
        else:
            kept = self._grant(left)
            kept[:left] = self._view[self._start : self._end]
        if own is not None:
            self._pool.release(own)
        self._own = self._view = kept
        self._start, self._end = 0, left

    def _grant(self, left: int) -> memoryview:
        """A buffer for the first frame, of which `left` bytes are here."""
        size = self._frame_size()
        if self.grant and size > FIRST_GRANT and (reserved := self._pool.reserve(size)) is not None:
            return reserved
        # A peer is granted twice what it has sent, so that a length alone costs no memory.
        return self._pool.acquire(max(left + 1, min(size, max(self.grant, 2 * left))))

    def keep(self, frame: memoryview) -> memoryview:
        """The bytes of the frame that was taken last, in writable memory that outlives the round."""
        # A large frame alone in its buffer can be given away without a copy.
        if self._own is None or len(frame) < SCRATCH_SIZE or self.pending:
            return memoryview(bytearray(frame))
        self._own = None
        self._view = self._pool.scratch
        self._start = self._end = 0
        return frame

    def close(self) -> None:
        """Give all memory back; what was not taken is lost."""
        self._start = self._end
        self.pending = 0
        self.settle()

    def _frame_size(self) -> int:
        """Bytes that the first frame takes as far as is known; a bad length is left for `next_frame` to refuse."""
        if self._end - self._start < _LENGTH.size:
            return _LENGTH.size
        length: int = _LENGTH.unpack_from(self._view, self._start)[0]
        return _LENGTH.size + (length if 0 <= length <= self.max_size else 0)

    def peek(self, size: int) -> bytes:
        """The next bytes, at most so many."""
        return bytes(self._view[self._start : min(self._end, self._start + size)])
