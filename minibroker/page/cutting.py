"""Responses that have left together, cut into frames."""

from collections.abc import Iterator, Sequence

from minibroker.inspection.tape import Range

_PREFIX = 4


def frames_in(data: bytes | bytearray, ranges: Sequence[Range]) -> Iterator[tuple[bytes, int]]:
    """(frame with its length, size) for each response.

    A frame ends early where the bytes of one of its ranges were not kept.
    """
    if not ranges:
        yield from _whole_frames(data)
        return
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


def _whole_frames(data: bytes | bytearray) -> Iterator[tuple[bytes, int]]:
    view = memoryview(data)
    position, end = 0, len(data)
    while end - position >= _PREFIX:
        size = _PREFIX + int.from_bytes(view[position : position + _PREFIX], "big")
        yield bytes(view[position : position + size]), size
        position += size
