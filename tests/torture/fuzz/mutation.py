"""Bytes that were a request: flipped, cut, lengthened, and with other numbers where lengths may be."""

import random
import struct
from typing import Final

from minibroker_protocol.primitives import write_uvarint

_BODY_AT: Final = 8
"""Behind API key, version and correlation id, which stay most of the time: else nearly all requests are unserved."""
_NUMBERS: Final = (0, 1, -1, -2, 2**31 - 1, -(2**31), 2**15 - 1, -(2**15), 100_000, 2**24)
_PIECES: Final = (b"\0", b"\xff", b"\x80" * 5, b"\xff\xff\xff\xff\x0f", b"\x7f\xff", b"\0" * 40, b"\xff" * 8)


def mutated(rng: random.Random, frame: bytes) -> bytes:
    """A frame (without its length) with one to four faults."""
    data = bytearray(frame)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        _FAULTS[rng.randrange(len(_FAULTS))](rng, data)
    return bytes(data)


def with_unknown_tags(rng: random.Random, frame: bytes) -> bytes:
    """A flexible frame whose last tagged fields, which are none in nearly all requests, are unknown ones."""
    if not frame.endswith(b"\0"):
        return frame
    out = bytearray(frame[:-1])
    count = rng.choice([1, 2, 20, 2_000])
    write_uvarint(out, count)
    tag = rng.choice([100, 5_000, 2**31 - count - 1])
    for number in range(count):
        size = rng.choice([0, 0, 1, 100])
        write_uvarint(out, tag + number)
        write_uvarint(out, size)
        out += bytes(size)
    return bytes(out)


def _place(rng: random.Random, data: bytearray) -> int:
    first = 0 if rng.random() < 0.05 else min(_BODY_AT, len(data))
    return rng.randint(first, len(data))


def _flip(rng: random.Random, data: bytearray) -> None:
    if data:
        data[min(_place(rng, data), len(data) - 1)] ^= 1 << rng.randrange(8)


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[_place(rng, data) :]


def _remove(rng: random.Random, data: bytearray) -> None:
    at = _place(rng, data)
    del data[at : at + rng.choice([1, 2, 4, 16])]


def _insert(rng: random.Random, data: bytearray) -> None:
    at = _place(rng, data)
    data[at:at] = rng.choice(_PIECES)


def _number(rng: random.Random, data: bytearray) -> None:
    """A number of two or four bytes, or a varint, where one may have been."""
    at = _place(rng, data)
    layout, bits = rng.choice([(">i", 32), (">h", 16)])
    fitting = [value for value in _NUMBERS if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)]
    if rng.random() < 0.3:
        written = bytearray()
        write_uvarint(written, rng.choice([0, 1, 2, 127, 128, 2**21, 2**31 - 1, 2**32 - 1]))
        data[at : at + 1] = written
    else:
        data[at : at + bits // 8] = struct.pack(layout, rng.choice(fitting))


def _repeat(rng: random.Random, data: bytearray) -> None:
    at = _place(rng, data)
    piece = data[at : at + rng.choice([1, 4, 30])]
    data[at:at] = piece * rng.choice([1, 3, 50])


_FAULTS: Final = (_flip, _flip, _cut, _remove, _insert, _number, _number, _number, _repeat)
