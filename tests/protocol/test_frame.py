"""Cutting a stream of bytes into frames, and reading headers."""

import errno
import mmap
import resource
import struct
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibroker_protocol.codec import response_encoder_for
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.frame import MIN_READ_BYTES, SCRATCH_SIZE, BufferPool, FrameReader, read_request_header
from minibroker_protocol.schema import Int32, Records, message

MAX_SIZE = 100 << 20


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


class Peer:
    """Feeds a reader like an event loop: as many bytes as fit into `buffer()`, round by round."""

    def __init__(self, pool: BufferPool | None = None, max_size: int = MAX_SIZE) -> None:
        self.pool = pool or BufferPool()
        self.reader = FrameReader(self.pool, max_size)
        self.frames: list[bytes] = []

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            buffer = self.reader.buffer()
            assert len(buffer) > 0
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            self.reader.received(count)
            while (frame := self.reader.next_frame()) is not None:
                self.frames.append(bytes(frame))
            self.reader.settle()


def test_a_frame_comes_out_without_its_length() -> None:
    peer = Peer()
    peer.send(framed(b"hello"))
    assert peer.frames == [b"hello"]
    assert peer.reader.pending == 0


def test_frames_that_arrive_together_come_out_one_by_one() -> None:
    peer = Peer()
    peer.send(framed(b"one", b"", b"three"))
    assert peer.frames == [b"one", b"", b"three"]


def test_a_frame_that_arrives_byte_by_byte_comes_out_when_it_is_whole() -> None:
    peer = Peer()
    data = framed(b"hello")
    for index in range(len(data)):
        assert peer.frames == []
        peer.send(data[index : index + 1])
    assert peer.frames == [b"hello"]


@settings(deadline=None)
@given(bodies=st.lists(st.binary(max_size=9000), max_size=6), data=st.data())
def test_any_cutting_of_the_stream_yields_the_same_frames(bodies: list[bytes], data: st.DataObject) -> None:
    stream = framed(*bodies)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))
    peer = Peer()
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        peer.send(stream[start:stop])
    assert peer.frames == bodies
    assert peer.reader.pending == 0


@given(streams=st.lists(st.lists(st.binary(max_size=5000), max_size=4), min_size=2, max_size=4), data=st.data())
def test_connections_that_share_a_pool_do_not_see_each_others_bytes(
    streams: list[list[bytes]], data: st.DataObject
) -> None:
    pool = BufferPool()
    peers = [Peer(pool) for _ in streams]
    left = [framed(*bodies) for bodies in streams]
    while any(left):
        turn = data.draw(st.sampled_from([index for index, rest in enumerate(left) if rest]))
        size = data.draw(st.integers(1, len(left[turn])))
        peers[turn].send(left[turn][:size])
        left[turn] = left[turn][size:]
    assert [peer.frames for peer in peers] == streams


@pytest.mark.parametrize("chunk", [4096, 65_536, SCRATCH_SIZE, 10 * SCRATCH_SIZE])
@pytest.mark.parametrize("size", [SCRATCH_SIZE - 4, SCRATCH_SIZE - 3, 5 * SCRATCH_SIZE + 17])
def test_a_frame_may_be_larger_than_the_shared_buffer(size: int, chunk: int) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    stream = framed(b"before", body, b"after")
    peer = Peer()
    for start in range(0, len(stream), chunk):
        peer.send(stream[start : start + chunk])
    assert peer.frames == [b"before", body, b"after"]


def test_within_a_frame_the_buffer_ends_with_the_frame() -> None:
    peer = Peer()
    peer.send(framed(bytes(3000))[:1000])
    assert len(peer.reader.buffer()) == 2004
    peer.send(bytes(2003))
    assert len(peer.reader.buffer()) == 1
    peer.send(b"\0")
    assert peer.frames == [bytes(3000)]


@pytest.mark.parametrize("length", [-1, -(2**31), MAX_SIZE + 1, 2**31 - 1])
def test_a_length_that_is_negative_or_too_large_is_refused(length: int) -> None:
    reader = FrameReader(BufferPool(), MAX_SIZE)
    head = struct.pack(">i", length)
    reader.buffer()[:4] = head
    reader.received(4)
    with pytest.raises(DecodeError, match=f"frame length {length} is not in"):
        reader.next_frame()
    reader.close()
    assert reader.pending == 0


def test_a_length_at_the_limit_is_taken() -> None:
    peer = Peer(max_size=10)
    peer.send(framed(bytes(10)))
    with pytest.raises(DecodeError):
        peer.send(framed(bytes(11)))
    assert peer.frames == [bytes(10)]


def test_a_bad_length_behind_a_frame_that_is_still_being_served_waits_for_its_turn() -> None:
    reader = FrameReader(BufferPool(), MAX_SIZE)
    data = framed(b"served") + b"\xff\xff\xff\xff"
    reader.buffer()[: len(data)] = data
    reader.received(len(data))
    assert bytes(reader.next_frame() or b"") == b"served"
    reader.settle()
    assert len(reader.buffer()) > 0
    assert reader.pending == 4
    with pytest.raises(DecodeError):
        reader.next_frame()


def test_frames_that_are_not_taken_wait_for_the_next_round() -> None:
    reader = FrameReader(BufferPool(), MAX_SIZE)
    for part in (framed(b"one", b"two")[:-1], b"o" + framed(b"three")):
        buffer = reader.buffer()
        size = min(len(buffer), len(part))
        buffer[:size] = part[:size]
        reader.received(size)
        reader.settle()
        if part[size:]:
            rest = part[size:]
            reader.buffer()[: len(rest)] = rest
            reader.received(len(rest))
            reader.settle()
    assert [bytes(frame) for frame in iter(reader.next_frame, None)] == [b"one", b"two", b"three"]


def resident() -> int:
    """Return the resident memory of this process in bytes, or 0 if the system does not report it."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * resource.getpagesize() if statm.exists() else 0


def test_a_length_of_100_mb_alone_costs_little_memory() -> None:
    peers = [Peer(pool) for pool in [BufferPool()] * 10]
    tracemalloc.start()
    before = resident()
    try:
        for peer in peers:
            peer.send(struct.pack(">i", MAX_SIZE) + bytes(100))
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 100_000
    assert resident() - before < 10 * (2 << 20)


def test_a_large_frame_is_never_copied_and_comes_in_pieces() -> None:
    peer = Peer()
    stream = framed(bytes(40 << 20))
    own = None
    for start in range(0, len(stream), 1 << 20):
        peer.send(stream[start : start + (1 << 20)])
        own = own or peer.reader._own  # The test is about the memory that a connection holds.
        assert peer.reader._own is (own if start + (1 << 20) < len(stream) else None)
        assert len(peer.reader.buffer()) <= SCRATCH_SIZE
    assert own is not None
    assert peer.frames == [bytes(40 << 20)]


@pytest.mark.parametrize(("size", "is_copied"), [(100, True), (SCRATCH_SIZE - 5, True), (SCRATCH_SIZE, False)])
def test_a_frame_may_be_kept_and_a_large_one_is_not_copied(size: int, *, is_copied: bool) -> None:
    reader = FrameReader(BufferPool(), MAX_SIZE)

    def received(data: bytes) -> memoryview:
        view = memoryview(data)
        while True:
            buffer = reader.buffer()
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            reader.received(count)
            if (frame := reader.next_frame()) is not None:
                assert not view
                return frame
            reader.settle()

    frame = received(framed(b"a" * size))
    kept = reader.keep(frame)
    assert (kept is frame) is not is_copied
    reader.settle()
    assert received(framed(b"b" * size)) == b"b" * size
    assert kept == b"a" * size
    assert not kept.readonly


@pytest.mark.parametrize("reason", ["has not logged in", "gets no more addresses"])
def test_what_a_peer_is_granted_grows_with_what_it_sends(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()
    if reason == "has not logged in":
        peer.reader.grant = 0
    else:
        monkeypatch.setattr(mmap, "mmap", Mock(side_effect=OSError(errno.ENOMEM, "no addresses")))
    stream = framed(bytes(40 << 20))
    granted = []
    for start in range(0, len(stream), 1 << 20):
        peer.send(stream[start : start + (1 << 20)])
        own = peer.reader._own  # The test is about the memory that a connection holds.
        granted.append((start + (1 << 20), len(own) if own is not None else 0))
    assert all(held <= max(2 << 20, 4 * sent) for sent, held in granted)
    assert peer.frames == [bytes(40 << 20)]


def test_the_memory_of_a_large_frame_is_used_again() -> None:
    pool = BufferPool()
    peers = [Peer(pool), Peer(pool)]
    held = []
    for peer in peers:
        peer.send(framed(bytes(5 << 20))[:100])
        held.append(peer.reader._own)  # The test is about the memory that a connection holds.
        peer.send(framed(bytes(5 << 20))[100:])
    assert held[0] is not None
    assert held[0] is held[1]


def test_memory_goes_back_to_the_pool_when_a_frame_is_whole() -> None:
    pool = BufferPool()
    peer = Peer(pool)
    peer.send(framed(bytes(5000))[:100])
    held = peer.reader._own  # The test is about the memory that a connection holds.
    assert held is not None
    peer.send(framed(bytes(5000))[100:])
    assert peer.reader._own is None
    assert pool.acquire(5004) is held
    assert pool.acquire(5004) is not held


def test_an_idle_connection_holds_no_memory() -> None:
    pool = BufferPool()
    peers = [Peer(pool) for _ in range(3)]
    for peer in peers:
        peer.send(framed(b"hello"))
        assert peer.reader._own is None
        assert peer.reader.buffer() is pool.small


def test_a_connection_is_read_from_in_larger_pieces_once_it_fills_the_small_ones() -> None:
    peer = Peer()
    sizes = []
    for _ in range(5):
        sizes.append(len(peer.reader.buffer()))
        peer.send(framed(bytes(sizes[-1] - 4)))
    assert sizes == [MIN_READ_BYTES, 4 * MIN_READ_BYTES, 16 * MIN_READ_BYTES, SCRATCH_SIZE, SCRATCH_SIZE]
    peer.reader.settle(paused=True)
    assert len(peer.reader.buffer()) == MIN_READ_BYTES


def test_bytes_behind_a_delayed_request_take_a_buffer_of_their_size() -> None:
    pool = BufferPool()
    reader = FrameReader(pool, MAX_SIZE)
    data = framed(b"parked", b"next") + framed(bytes(20_000))[:5000]
    reader.buffer()[: len(data)] = data
    reader.received(len(data))
    assert bytes(reader.next_frame() or b"") == b"parked"
    for _ in range(2):
        reader.settle(paused=True)
        assert reader._own is not None
        assert len(reader._own) == reader.pending == 5008
    assert bytes(reader.next_frame() or b"") == b"next"
    assert reader.next_frame() is None
    reader.settle()
    assert len(reader.buffer()) == 15_004  # the remaining bytes of the frame
    assert reader.pending == 5000


def test_closing_gives_an_incomplete_frame_back() -> None:
    pool = BufferPool()
    peer = Peer(pool)
    peer.send(framed(bytes(5000))[:100])
    held = peer.reader._own
    peer.reader.close()
    assert peer.reader._own is None
    assert pool.acquire(5004) is held


def test_the_pool_keeps_a_bounded_amount() -> None:
    pool = BufferPool()
    buffers = [pool.acquire(1 << 20) for _ in range(20)]
    for buffer in buffers:
        pool.release(buffer)
    again = [pool.acquire(1 << 20) for _ in range(20)]
    assert sum(any(buffer is old for old in buffers) for buffer in again) == 8


@pytest.mark.parametrize("size", [1, 4096, 4097, 70_000])
def test_a_buffer_is_as_large_as_asked(size: int) -> None:
    assert len(BufferPool().acquire(size)) >= size


def header(frame: bytes) -> Iterable[object]:
    return read_request_header(memoryview(frame))


def test_request_headers_1_and_2_share_their_fields() -> None:
    v1 = b"\0\x03" + b"\0\x05" + b"\0\0\1\0" + b"\0\x04name"
    assert header(v1) == (3, 5, 256, "name", 14)
    assert header(v1 + b"body") == (3, 5, 256, "name", 14)
    assert header(v1 + b"\0body") == (3, 5, 256, "name", 14)  # In v2, tagged fields follow.


def test_a_client_id_may_be_null_or_empty() -> None:
    assert header(b"\0\0\0\0\0\0\0\0\xff\xff") == (0, 0, 0, None, 10)
    assert header(b"\0\0\0\0\0\0\0\0\0\0") == (0, 0, 0, "", 10)
    assert header(b"\xff\xff\xff\xff\xff\xff\xff\xff\0\0") == (-1, -1, -1, "", 10)


@pytest.mark.parametrize("cut", range(14))
def test_a_request_header_that_is_cut_is_refused(cut: int) -> None:
    with pytest.raises(DecodeError):
        header((b"\0\x03\0\x05\0\0\1\0\0\x04name")[:cut])


@pytest.mark.parametrize("tail", [b"\xff\xfe", b"\x80\0", b"\x7f\xffabc", b"\0\x02\xff\xff", b"\0\x01\x80"])
def test_a_client_id_that_is_garbage_is_refused(tail: bytes) -> None:
    with pytest.raises(DecodeError, match="client_id: "):
        header(b"\0\x03\0\x05\0\0\1\0" + tail)


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_a_header_or_refused_and_nothing_else(data: bytes) -> None:
    try:
        found = read_request_header(memoryview(data))
    except DecodeError:
        return
    assert found.body <= len(data)


@message(versions="0")
class Body:
    """A response of four bytes."""

    content: Int32


@message(versions="0")
class Fetched:
    """A response with records."""

    records: Records


class Range(NamedTuple):
    """Records that are not in memory."""

    size: int


def response_frame(response: Any, correlation_id: int, out: bytearray, *, flexible_header: bool = False) -> bytearray:
    """Append the frame of a response to `out`."""
    encoder = response_encoder_for(type(response), 0, flexible_header=flexible_header)
    encoder(response, correlation_id, out, [])
    return out


def test_a_response_has_its_length_and_correlation_id_in_front() -> None:
    out = response_frame(Body(content=int.from_bytes(b"body", "big")), -2, bytearray(b"earlier"))
    assert out == b"earlier" + b"\0\0\0\x08" + b"\xff\xff\xff\xfe" + b"body"


def test_response_header_1_ends_with_an_empty_section_of_tagged_fields() -> None:
    out = response_frame(Body(content=5), 7, bytearray(), flexible_header=True)
    assert out == b"\0\0\0\x09" + b"\0\0\0\x07" + b"\0" + b"\0\0\0\x05"


def test_the_length_of_a_response_counts_what_is_not_in_memory() -> None:
    out = response_frame(Fetched(records=Range(996)), 7, bytearray())
    assert out[:4] == (1004).to_bytes(4, "big")
