"""Checks many records with the same layout at once, column by column.

Producers usually write records whose fields have the same lengths and positions but different contents. Such a *run*
of records is a table with one record per row. Each column of lengths must have the same value as in the first record,
and the column of offset deltas must count up. A column is one strided slice, so a run costs a few calls instead of
dozens of bytecodes per record. If the first record is valid, so are all others, because every byte that determines
where a field ends is the same.

A run ends where the layout changes, including where the offset delta (at record 64) or the timestamp delta needs a
second byte. This module rejects nothing: `walk_records` checks the remaining records and raises any error.
"""

from typing import Final, NamedTuple

from minibroker_protocol.records.record import walk_records
from minibroker_protocol.records.varint import CONTINUES

MIN_RUN_RECORDS: Final = 4
"""Minimum length of a run. Fewer records are faster to walk."""
MIN_RECORDS_FOR_RUNS: Final = 8
"""Minimum record count of a batch for which runs are faster."""
WINDOW_BYTES: Final = 65_536
"""Bytes to copy at a time: a strided slice of `bytes` takes a tenth of the time of one of a memoryview."""
_FIRST_THREE_BYTE_DELTA: Final = 8_192
"""The first offset delta that takes three bytes."""
_MAX_TIMESTAMP_DELTA_BYTES: Final = 4
"""Maximum size of a timestamp delta in bytes, enough for 37 hours. Records with longer ones are walked."""
_FIRST_TWO_BYTE_DELTA: Final = CONTINUES // 2
"""The first offset delta that takes two bytes."""

# The offset delta of record i is encoded as 2 * i. Seven bits of this are in the low byte of the varint, and the high
# byte is i // 64.
_LOW_BYTES: Final = bytes(range(0, CONTINUES, 2)) + bytes(range(CONTINUES, 256, 2)) * (
    _FIRST_THREE_BYTE_DELTA // _FIRST_TWO_BYTE_DELTA - 1
)
_HIGH_BYTES: Final = b"".join(
    bytes((high,)) * _FIRST_TWO_BYTE_DELTA for high in range(_FIRST_THREE_BYTE_DELTA // _FIRST_TWO_BYTE_DELTA)
)
_SEVEN_BITS: Final = 0x7F
_EVEN: Final = bytes(range(0, 256, 2))
_CONTINUING: Final = bytes(range(CONTINUES, 256))


class CheckedRuns(NamedTuple):
    """The number of valid records, and the position after them.

    `largest` is the raw value of the largest timestamp delta, or -1 if there are no records.
    """

    records: int
    position: int
    largest: int


def check_records(data: bytes | memoryview, position: int, count: int) -> int:
    """Check records like `walk_records`, but faster if most of them have the same layout."""
    checked = check_runs(data, position, count)
    return max(checked.largest >> 1, walk_records(data, checked.position, count, checked.records))


def check_runs(data: bytes | memoryview, position: int, count: int) -> CheckedRuns:
    """Check the runs at the beginning of the `count` records that start at `position` in `data`.

    Records after these runs can also be valid.
    """
    index, largest = 0, -1
    start = position
    window = b""
    while count - index >= MIN_RUN_RECORDS:
        if position + WINDOW_BYTES // 2 > start + len(window) and start + len(window) < len(data):
            start = position
            window = bytes(data[start : start + WINDOW_BYTES])
        at = position - start
        try:
            size, times, offsets, fixed = _read_layout(window, at)
        except IndexError:
            break
        rows = min(
            count - index,
            (len(window) - at) // size,
            (_FIRST_TWO_BYTE_DELTA if index < _FIRST_TWO_BYTE_DELTA else _FIRST_THREE_BYTE_DELTA) - index,
        )
        if rows >= MIN_RUN_RECORDS:
            rows = _count_alike(window, at, size, rows, fixed)
        if rows < MIN_RUN_RECORDS:
            break
        end = at + rows * size
        is_next = window[offsets:end:size] == _LOW_BYTES[index : index + rows] and (
            index < _FIRST_TWO_BYTE_DELTA or window[offsets + 1 : end : size] == _HIGH_BYTES[index : index + rows]
        )
        highest = _largest_time([window[column:end:size] for column in range(times, offsets)])
        if not is_next or highest < 0:
            break
        largest = max(largest, highest)
        index += rows
        position += rows * size
    return CheckedRuns(index, position, largest)


def _count_alike(window: bytes, at: int, size: int, rows: int, fixed: list[int]) -> int:
    """Return the number of leading records, at most `rows`, that equal the first one at all positions in `fixed`."""
    end = at + rows * size
    for position in fixed:
        column = window[position:end:size]
        first = column[:1]
        if column != first * rows:
            rows -= len(column.lstrip(first))
            if rows < MIN_RUN_RECORDS:
                break
            end = at + rows * size
    return rows


def _largest_time(columns: list[bytes]) -> int:
    """Return the largest raw timestamp delta, or -1 if a delta is negative or not as long as the first one."""
    if columns[0].translate(None, _EVEN) or not columns[-1].isascii():
        return -1
    if len(columns) == 1:
        return max(columns[0])
    if any(column.translate(None, _CONTINUING) for column in columns[:-1]):
        return -1
    raw = 0
    # Compare the last bytes first, because they are the most significant.
    for byte in max(zip(*reversed(columns), strict=True)):
        raw = raw << 7 | byte & _SEVEN_BITS
    return raw


def _read_layout(window: bytes, at: int) -> tuple[int, int, int, list[int]]:
    """Return the size of the record at `at`, the positions of its two deltas, and the positions of its lengths.

    Raises:
        IndexError: the record is invalid or unusual, or is not followed by a record of the same size.
    """
    raw = window[at]
    position = at + 1
    fixed = [at]
    if raw >= CONTINUES:
        raw = _add_second_byte(window[position], raw)
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
    if offsets - times > _MAX_TIMESTAMP_DELTA_BYTES:
        raise IndexError
    position = _skip_fields(window, position, fixed, 2, of_headers=False)
    fixed.append(position)
    header_count = window[position]
    if header_count & 1 or header_count >= CONTINUES:
        raise IndexError
    if header_count:
        # The encoded count is twice the number of headers, and so equals the number of their keys and values.
        position = _skip_fields(window, position + 1, fixed, header_count, of_headers=True) - 1
    if position + 1 != end:
        raise IndexError
    return end - at, times, offsets, fixed


def _add_second_byte(byte: int, raw: int) -> int:
    """Return the raw length encoded in the bytes `raw` and `byte`.

    Raises:
        IndexError: a third byte follows.
    """
    if byte >= CONTINUES:
        raise IndexError
    return raw + (byte << 7) - CONTINUES


def _skip_fields(window: bytes, position: int, fixed: list[int], count: int, *, of_headers: bool) -> int:
    """Append the positions of the lengths of `count` alternating keys and values to `fixed`.

    Returns:
        The position after these fields.
    """
    for number in range(count):
        fixed.append(position)
        raw = window[position]
        position += 1
        if raw >= CONTINUES:
            raw = _add_second_byte(window[position], raw)
            fixed.append(position)
            position += 1
        if not raw & 1:
            position += raw >> 1
        elif of_headers and not number & 1:  # A header's key is never null.
            raise IndexError
    return position
