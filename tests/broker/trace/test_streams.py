"""Streams that are split into frames on their way: no byte changes, wherever the network splits them."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from minibroker_lab.trace.conversation import RequestStream, ResponseStream
from tests.broker.socket_client import framed

FRAMES = st.lists(st.binary(max_size=40), max_size=8)
CUTS = st.lists(st.integers(1, 30), min_size=1, max_size=12)
MAX_KEPT_BYTES = 20


class RecordingConversation:
    """A conversation that records its frames and holds those with an even length."""

    def __init__(self) -> None:
        self.frames: list[tuple[bytes, int]] = []

    def request(self, frame: bytes | bytearray, size: int) -> None:
        self.frames.append((bytes(frame), size))

    def holds(self, head: bytes, size: int) -> bool:
        return size % 2 == 0 and len(head) <= 8

    def response(self, frame: bytes | bytearray, size: int) -> bytes | bytearray:
        self.frames.append((bytes(frame), size))
        return b"<" + bytes(frame) + b">" if len(frame) == size and size % 2 == 0 else frame


def with_length(frame: bytes) -> bytes:
    return framed(frame)


def pieces(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    """Yield the data in pieces of these sizes, which repeat."""
    position, number = 0, 0
    while position < len(data):
        size = cuts[number % len(cuts)]
        yield data[position : position + size]
        position, number = position + size, number + 1


@given(FRAMES, CUTS)
def test_requests_are_found_however_they_are_cut(frames: list[bytes], cuts: list[int]) -> None:
    conversation: Any = RecordingConversation()
    stream = RequestStream(conversation, MAX_KEPT_BYTES)
    for piece in pieces(b"".join(map(with_length, frames)), cuts):
        stream.feed(piece)
    assert conversation.frames == [(with_length(frame)[:MAX_KEPT_BYTES], 4 + len(frame)) for frame in frames]


@given(FRAMES, CUTS)
def test_responses_pass_in_order_and_held_ones_pass_changed(frames: list[bytes], cuts: list[int]) -> None:
    conversation: Any = RecordingConversation()
    stream = ResponseStream(conversation, MAX_KEPT_BYTES)
    passed = b"".join(b"".join(stream.feed(piece)) for piece in pieces(b"".join(map(with_length, frames)), cuts))
    assert passed == b"".join(
        b"<" + with_length(frame) + b">" if len(frame) % 2 == 0 else with_length(frame) for frame in frames
    )
    assert [size for _, size in conversation.frames] == [4 + len(frame) for frame in frames]
    for (recorded, size), frame in zip(conversation.frames, frames, strict=True):
        assert with_length(frame).startswith(recorded)
        assert len(recorded) >= min(size, MAX_KEPT_BYTES)


@given(FRAMES, st.integers(-(2**31), -1), st.binary(max_size=50), CUTS)
def test_what_is_not_kafkas_protocol_passes_as_it_is(
    frames: list[bytes], length: int, rest: bytes, cuts: list[int]
) -> None:
    odd = [frame + b"x" * (len(frame) % 2 == 0) for frame in frames]
    data = b"".join(map(with_length, odd)) + struct.pack(">i", length) + rest
    conversation: Any = RecordingConversation()
    requests, responses = RequestStream(conversation, MAX_KEPT_BYTES), ResponseStream(conversation, MAX_KEPT_BYTES)
    passed = b""
    for piece in pieces(data, cuts):
        requests.feed(piece)
        passed += b"".join(responses.feed(piece))
    assert passed == data
    assert requests.is_opaque
    assert responses.is_opaque
    assert len(conversation.frames) == 2 * len(frames)


def test_a_large_response_is_not_kept_back_and_a_large_request_not_kept() -> None:
    conversation: Any = RecordingConversation()
    stream = ResponseStream(conversation, MAX_KEPT_BYTES)
    assert stream.feed(struct.pack(">ii", 1 << 30 | 1, 7)) == [struct.pack(">ii", 1 << 30 | 1, 7)]
    assert stream.feed(b"x" * 1000) == [b"x" * 1000]
    assert not conversation.frames
