"""The check of records that have one layout: all of them at once, column by column.

Producers mostly write records that look alike: the same lengths at the same places, and other contents. Such a *run* of
records is a table with one record a row. Its columns of lengths must hold one value each, that of the first record; the
column of offset deltas must count up. A column is one strided slice, so that a run costs some calls instead of some
dozens of bytecodes for each record. What is valid of the first record is then valid of all, since every byte that says
where a field ends is the same.

A run ends where the layout changes. That also happens where the offset delta takes a second byte (record 64), or the
timestamp delta does. Nothing is refused here: records in doubt are left to `walk_records`, which says what is wrong.
"""

from typing import Final, NamedTuple

from minibroker_protocol.records.record import walk_records
from minibroker_protocol.records.varint import CONTINUES

SHORTEST_RUN: Final = 4
"""Fewer records are walked in less time."""
WORTHWHILE: Final = 8
"""In batches of fewer records there is nothing to gain."""
WINDOW: Final = 65_536
"""Bytes that are copied at once: a strided slice of `bytes` takes a tenth of the time of one of a memoryview."""
_MOST: Final = 8_192
"""Offset deltas from here on take three bytes."""
_LONGEST: Final = 4
"""Bytes of a timestamp delta of 37 hours; with longer ones records are walked."""
_ONE_BYTE: Final = CONTINUES // 2
"""Offset deltas from here on take two bytes."""

# The raw offset delta of record i is 2 * i: seven bits of it in the low byte, i // 64 in the high one.
_LOW_BYTES: Final = bytes(range(0, CONTINUES, 2)) + bytes(range(CONTINUES, 256, 2)) * (_MOST // _ONE_BYTE - 1)
_HIGH_BYTES: Final = b"".join(bytes((high,)) * _ONE_BYTE for high in range(_MOST // _ONE_BYTE))
_SEVEN_BITS: Final = 0x7F
_EVEN: Final = bytes(range(0, 256, 2))
_CONTINUING: Final = bytes(range(CONTINUES, 256))


class Passed(NamedTuple):
    """The number of valid records, and the position behind them.

    `largest` is the raw form of the largest timestamp delta, or -1 without a record.
    """

    records: int
    position: int
    largest: int


def check_records(data: bytes | memoryview, position: int, count: int) -> int:
    """`walk_records`, where most records are expected to be alike."""
    passed = pass_runs(data, position, count)
    return max(passed.largest >> 1, walk_records(data, passed.position, count, passed.records))


def pass_runs(data: bytes | memoryview, position: int, count: int) -> Passed:
    """The runs with which `count` records begin, that stand in `data` from `position` on.

    Records behind them may be valid, too.
    """
    index, largest = 0, -1
    start = position
    window = b""
    while count - index >= SHORTEST_RUN:
        if position + WINDOW // 2 > start + len(window) and start + len(window) < len(data):
            start = position
            window = bytes(data[start : start + WINDOW])
        at = position - start
        try:
            size, times, offsets, fixed = _layout(window, at)
        except IndexError:
            break
        rows = min(count - index, (len(window) - at) // size, (_ONE_BYTE if index < _ONE_BYTE else _MOST) - index)
        if rows >= SHORTEST_RUN:
            rows = _alike(window, at, size, rows, fixed)
        if rows < SHORTEST_RUN:
            break
        end = at + rows * size
        is_next = window[offsets:end:size] == _LOW_BYTES[index : index + rows] and (
            index < _ONE_BYTE or window[offsets + 1 : end : size] == _HIGH_BYTES[index : index + rows]
        )
        highest = _largest_time([window[place:end:size] for place in range(times, offsets)])
        if not is_next or highest < 0:
            break
        largest = max(largest, highest)
        index += rows
        position += rows * size
    return Passed(index, position, largest)


def _alike(window: bytes, at: int, size: int, rows: int, fixed: list[int]) -> int:
    """The number of records, of `rows`, that have the same bytes as the first one at all places of `fixed`."""
    end = at + rows * size
    for place in fixed:
        column = window[place:end:size]
        first = column[:1]
        if column != first * rows:
            rows -= len(column.lstrip(first))
            if rows < SHORTEST_RUN:
                break
            end = at + rows * size
    return rows


def _largest_time(columns: list[bytes]) -> int:
    """The largest raw timestamp delta; -1 where one is negative, or is not as long as that of the first record."""
    if columns[0].translate(None, _EVEN) or not columns[-1].isascii():
        return -1
    if len(columns) == 1:
        return max(columns[0])
    if any(column.translate(None, _CONTINUING) for column in columns[:-1]):
        return -1
    raw = 0
    for byte in max(zip(*reversed(columns), strict=True)):  # the last byte weighs most
        raw = raw << 7 | byte & _SEVEN_BITS
    return raw


def _layout(window: bytes, at: int) -> tuple[int, int, int, list[int]]:
    """The size of the record at `at`, the places of its timestamp delta and offset delta, and those of its lengths.

    `IndexError` where the record is not valid, is unusual, or has no record of its size behind it.
    """
    raw = window[at]
    position = at + 1
    fixed = [at]
    if raw >= CONTINUES:
        raw = _second(window[position], raw)
        fixed.append(position)
        position += 1
    end = position + (raw >> 1)
    if raw & 1 or window[at] != window[end]:
        raise IndexError
    position = times = position + 1
    while window[position] >= CONTINUES:
        position += 1
    position = offsets = position + 1
    while window[position] >= CONTINUES:
        position += 1
    position += 1
    if offsets - times > _LONGEST:
        raise IndexError
    position = _pass_fields(window, position, fixed, 2, of_headers=False)
    fixed.append(position)
    if window[position]:
        position = _pass_headers(window, position, fixed)
    if position + 1 != end:
        raise IndexError
    return end - at, times, offsets, fixed


def _second(byte: int, raw: int) -> int:
    """The raw length of the two bytes `raw` and `byte`. `IndexError` if a third one follows."""
    if byte >= CONTINUES:
        raise IndexError
    return raw + (byte << 7) - CONTINUES


def _pass_headers(window: bytes, position: int, fixed: list[int]) -> int:
    """The last byte of the headers whose count is at `position`; the places of their lengths go to `fixed`."""
    count = window[position]
    if count & 1 or count >= CONTINUES:
        raise IndexError
    # The raw count is twice the count, and each header has a key and a value.
    return _pass_fields(window, position + 1, fixed, count, of_headers=True) - 1


def _pass_fields(window: bytes, position: int, fixed: list[int], count: int, *, of_headers: bool) -> int:
    """The position behind `count` keys and values in turns; the places of their lengths go to `fixed`."""
    for number in range(count):
        fixed.append(position)
        raw = window[position]
        position += 1
        if raw >= CONTINUES:
            raw = _second(window[position], raw)
            fixed.append(position)
            position += 1
        if not raw & 1:
            position += raw >> 1
        elif of_headers and not number & 1:  # a header's key is never null
            raise IndexError
    return position
