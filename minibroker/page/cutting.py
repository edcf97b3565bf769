"""Responses that have left together, cut into frames."""

import struct
from collections.abc import Iterator, Sequence

from minibroker.inspection.tape import Range

_PREFIX = 4
_LENGTH = struct.Struct(">i")


def frames_in(data: bytes | bytearray, ranges: Sequence[Range]) -> Iterator[tuple[bytes, int]]:
    """(frame with its length, size) for each response.

    A frame ends early where the bytes of one of its ranges were not kept.
    """
    return _spliced_frames(data, ranges) if ranges else _whole_frames(bytes(data))


def _spliced_frames(data: bytes | bytearray, ranges: Sequence[Range]) -> Iterator[tuple[bytes, int]]:
    position = used = 0
    while len(data) - position >= _PREFIX:
        size = _PREFIX + int.from_bytes(data[position : position + _PREFIX], "big")
        parts: list[bytes | bytearray] = []
        left, is_whole = size, True
        while left > 0:
            part = ranges[used] if used < len(ranges) and ranges[used].position <= position + left else None
            stop = position + left if part is None else part.position
            if is_whole:
                parts.append(data[position:stop])
            left -= stop - position
            position = stop
            if part is not None:
                used += 1
                left -= part.size
                if is_whole:
                    parts.append(part.kept)
                is_whole = is_whole and len(part.kept) == part.size
        yield b"".join(parts), size


def _whole_frames(data: bytes) -> Iterator[tuple[bytes, int]]:
    length_at = _LENGTH.unpack_from
    position, end = 0, len(data)
    while end - position >= _PREFIX:
        size = _PREFIX + length_at(data, position)[0]
        yield data[position : position + size], size  # the one frame that there is: `data` itself
        position += size
