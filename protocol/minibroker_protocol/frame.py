"""Frames and headers of requests and responses.

A frame is an int32 length followed by that many bytes. `FrameReader` divides a stream of bytes into frames without
I/O. The caller receives into `buffer()`, reports the number of bytes with `received(n)`, takes frames with
`next_frame()`, and ends each round with `settle()`. Frames are views of memory that is reused, so copy any bytes that
you need after `settle()`.

Most frames are complete when they arrive. All connections therefore receive into one shared scratch buffer, and a
connection owns memory only while it has an incomplete frame. Idle connections take no memory. The memory of the other
connections is proportional to the bytes that their peers have sent: a length prefix of 100 MB alone does not
allocate 100 MB. With one buffer per connection, a thousand idle connections would take a gigabyte of address space, and
the processor's cache would be cold.

For a frame of more than `FIRST_GRANT_BYTES`, address space is reserved for the whole frame, and the system provides the
memory page by page as bytes arrive. A buffer that doubles in size would copy the bytes each time. A `bytearray` would
be filled with zeros first, which takes 100 ms for 64 MiB. A large frame is received in parts of `SCRATCH_SIZE`, to let
other connections proceed.

A connection is offered a small part of the scratch buffer at first, and a larger one after each read that fills the
part. After one of its requests is delayed, the connection starts with a small part again: bytes that follow a delayed
request must be stored, so each read should receive only a few.
"""

import contextlib
import mmap
import struct
from typing import Final, NamedTuple

from minibroker_protocol.errors import DecodeError

SCRATCH_SIZE: Final = 1 << 20
"""Large enough for a Produce request with a batch of librdkafka's default size (1,000,000 bytes)."""

MIN_READ_BYTES: Final = 1 << 14
"""Bytes per read of a new connection, or of one with a delayed request."""
_READ_GROWTH: Final = 4

_LENGTH: Final = struct.Struct(">i")
_LENGTH_SIZE: Final = _LENGTH.size
_REQUEST_START: Final = struct.Struct(">hhih")
_CLIENT_ID_LENGTH: Final = 2
_CONTROLLED_SHUTDOWN: Final = 7
_MIN_BUFFER_BYTES: Final = 1 << 12
FIRST_GRANT_BYTES: Final = 1 << 21
"""Bytes of memory that an authenticated client is granted before it sends them."""
_POOLED_BYTES: Final = 1 << 23


class RequestHeader(NamedTuple):
    """The fields of request headers v1 and v2. Header v0 has no client id; only ControlledShutdown v0 uses it.

    Attributes:
        body: position of the first byte after the part that v1 and v2 share.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


def read_request_header(frame: memoryview) -> RequestHeader:
    """Read the fields of a request header of any version, up to the client id.

    Raises:
        DecodeError: the header is truncated, or the client id is not UTF-8.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_START.unpack_from(frame)
        # This request uses header v0, which has no client id.
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
    """The scratch buffer shared by all connections, and a pool of buffers for incomplete frames.

    Released buffers are reused, because their memory is likely still in the processor's cache.
    """

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(SCRATCH_SIZE))
        # The start of the scratch buffer, for connections that start with small reads.
        self.small = self.scratch[:MIN_READ_BYTES]
        self._free: dict[int, list[memoryview]] = {}
        self._free_bytes = 0

    def acquire(self, size: int) -> memoryview:
        """Return a buffer of at least `size` bytes with undefined contents."""
        # Sizes are powers of two: with few sizes, a free buffer is likely to fit.
        capacity = max(_MIN_BUFFER_BYTES, 1 << (size - 1).bit_length())
        free = self._free.get(capacity)
        if free:
            self._free_bytes -= capacity
            return free.pop()
        return memoryview(bytearray(capacity))

    def reserve(self, size: int) -> memoryview | None:
        """Return a buffer for a large frame, or None if the system refuses the address space.

        The system provides the memory of the buffer page by page, on first use.
        """
        capacity = 1 << (size - 1).bit_length()
        if self._free.get(capacity):
            return self.acquire(size)
        with contextlib.suppress(OSError):  # mmap() fails if the address space of the process is limited.
            return memoryview(mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        return None

    def release(self, buffer: memoryview) -> None:
        """Return a buffer to the pool.

        The buffer is dropped if the pool is full, or if the buffer's size is not a power of two.
        """
        capacity = len(buffer)
        # A paused connection keeps its bytes in a buffer of their exact size, which is not from the pool.
        if capacity & (capacity - 1):
            return
        if self._free_bytes + capacity <= _POOLED_BYTES:
            self._free_bytes += capacity
            self._free.setdefault(capacity, []).append(buffer)


class FrameReader:
    """Divides the incoming bytes of one connection into frames.

    `max_size` limits the length of a frame (Kafka's `socket.request.max.bytes`). `grant` limits the memory that is
    allocated for a frame before its bytes arrive.

    Attributes:
        pending: number of bytes that were received, but not yet taken as part of a frame.
    """

    __slots__ = ("_end", "_offer", "_own", "_pool", "_start", "_view", "grant", "max_size", "pending")

    def __init__(self, pool: BufferPool, max_size: int) -> None:
        self._pool = pool
        self.max_size = max_size
        self.grant = FIRST_GRANT_BYTES
        # The connection's own buffer, which exists only while a frame is incomplete.
        self._own: memoryview | None = None
        self._offer = pool.small  # The part of the scratch buffer that the next read can fill.
        self._view = pool.scratch  # The buffer being parsed: `_own` or the scratch buffer.
        self._start = 0
        self._end = 0
        self.pending = 0

    def buffer(self) -> memoryview:
        """Return the memory into which to receive the next bytes. It is never empty.

        While a frame is incomplete, the memory ends where the frame ends.
        """
        own = self._own
        if own is None:
            return self._offer
        frame_end = self._start + self._frame_size()
        if self._end - self._start >= _LENGTH.size and self._end < frame_end <= len(own):
            return own[self._end : min(frame_end, self._end + SCRATCH_SIZE)]
        return own[self._end :]

    def received(self, count: int) -> None:
        """Record that `count` bytes were received into the last `buffer()`."""
        if self._own is None:
            self._view, self._start, self._end = self._pool.scratch, 0, count
            self.pending = count
            # The read filled the whole buffer, so more bytes are probably waiting: offer a larger one next time.
            if count == len(self._offer) < SCRATCH_SIZE:
                self._offer = self._pool.scratch[: count * _READ_GROWTH]
        else:
            self._end += count
            self.pending += count

    def next_frame(self) -> memoryview | None:
        """Return the next complete frame without its length, or None if there is none.

        Raises:
            DecodeError: the length is negative or above the limit.
        """
        start = self._start + _LENGTH_SIZE
        if start > self._end:
            return None
        length: int = _LENGTH.unpack_from(self._view, self._start)[0]
        # Check the length before allocating memory. The first bytes of a TLS handshake or an HTTP request, read as a
        # length, would be gigabytes.
        if not 0 <= length <= self.max_size:
            raise DecodeError(f"frame length {length} is not in 0..{self.max_size}")
        stop = start + length
        if stop > self._end:
            return None
        self._start = stop
        self.pending = self._end - stop
        return self._view[start:stop]

    @property
    def awaits_small_frame(self) -> bool:
        """Whether the next frame is incomplete, and small enough to be received while no frames are taken."""
        return 0 < self.pending < self._frame_size() <= SCRATCH_SIZE

    def peek_frame(self) -> memoryview | None:
        """Return the next frame without taking it, or None if it is incomplete or its length is invalid."""
        size = self._frame_size()
        if not _LENGTH_SIZE < size <= self.pending:
            return None
        return self._view[self._start + _LENGTH_SIZE : self._start + size]

    def settle(self, *, paused: bool = False) -> None:
        """End a round: move the pending bytes out of the shared buffer, and release unneeded memory.

        If `paused` is true, the caller stops taking frames for a while, and receives nothing while bytes are
        `pending`. The pending bytes are then kept in a buffer of their exact size.
        """
        if paused:
            self._offer = self._pool.small
        pending = self.pending
        own = self._own
        if pending == 0:
            if own is not None:
                self._pool.release(own)
                self._own = None
            self._start = self._end = 0
            return
        # The incomplete frame already begins at the start of the connection's own buffer, so nothing is moved.
        if own is not None and self._start == 0 and (self._end < len(own) or paused):
            return
        if paused:
            buffer = memoryview(bytearray(self._view[self._start : self._end]))
        else:
            buffer = self._buffer_for_first(pending)
            buffer[:pending] = self._view[self._start : self._end]
        if own is not None:
            self._pool.release(own)
        self._own = self._view = buffer
        self._start, self._end = 0, pending

    def _buffer_for_first(self, received: int) -> memoryview:
        """Return a buffer for the first frame, of which `received` bytes have arrived."""
        size = self._frame_size()
        if self.grant and size > FIRST_GRANT_BYTES and (reserved := self._pool.reserve(size)) is not None:
            return reserved
        # Beyond the grant, allocate at most twice the bytes received, so that a peer cannot reserve memory just by
        # sending a large length.
        return self._pool.acquire(max(received + 1, min(size, max(self.grant, 2 * received))))

    def keep(self, frame: memoryview) -> memoryview:
        """Return the last taken frame in writable memory that stays valid after the round."""
        # A large frame that is alone in its buffer can be returned without a copy.
        if self._own is None or len(frame) < SCRATCH_SIZE or self.pending:
            return memoryview(bytearray(frame))
        self._own = None
        self._view = self._pool.scratch
        self._start = self._end = 0
        return frame

    def close(self) -> None:
        """Release all memory, and discard all pending bytes."""
        self._start = self._end
        self.pending = 0
        self.settle()

    def _frame_size(self) -> int:
        """Return the size of the first frame, including its length field.

        While the length is unknown, return the size of the length field. An invalid length counts as 0, because
        `next_frame` rejects it.
        """
        if self._end - self._start < _LENGTH.size:
            return _LENGTH.size
        length: int = _LENGTH.unpack_from(self._view, self._start)[0]
        return _LENGTH.size + (length if 0 <= length <= self.max_size else 0)

    def peek(self, size: int) -> bytes:
        """Return up to `size` of the next bytes without consuming them."""
        return bytes(self._view[self._start : min(self._end, self._start + size)])
