"""Reads the headers of log entries into one array, the first step of decoding, and describes damaged entries."""

from binascii import crc32
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.request import DecodeRequest
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_LENGTH,
    MIN_MESSAGE_LENGTH_V1,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    UNKNOWN_RECORD_COUNT,
    crc32c,
)
from minibroker_protocol.records.varint import INT32_MAX

HEADER_DTYPE: Final = np.dtype(
    [
        ("position", "i8"),  # The position of the entry's first byte in the data.
        ("size", "i4"),  # The size of the whole entry in bytes.
        ("base_offset", "i8"),  # In a v0 or v1 wrapper, this is the offset of the last record.
        ("last_offset", "i8"),
        ("leader_epoch", "i4"),
        ("magic", "i1"),
        ("crc", "u4"),  # CRC-32C of a v2 batch, CRC-32 of a v0 or v1 message.
        ("attributes", "i2"),
        ("base_timestamp", "i8"),  # Milliseconds, or -1 in v0.
        ("max_timestamp", "i8"),
        ("producer_id", "i8"),  # -1 without a producer, like the next two fields.
        ("producer_epoch", "i2"),
        ("base_sequence", "i4"),
        ("record_count", "i4"),  # -1 for a v0 or v1 wrapper, whose header lacks the count.
        ("codec", "i1"),  # The codec id in bits 0 to 2 of the attributes.
    ]
)
"""The header of a log entry: a v2 batch, or a message of v0 or v1. The values are as stored, and not checked."""

Chase = Callable[[NDArray[np.uint8], int, int, int, NDArray[np.int64]], tuple[int, int]]
"""The type of `find_entries`."""

V2_LAYOUT: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_V0_FIELDS: Final = [("base_offset", ">i8"), ("length", ">i4"), ("crc", ">u4"), ("magic", "i1"), ("attributes", "i1")]
MESSAGE_LAYOUTS: Final = (np.dtype(_V0_FIELDS), np.dtype([*_V0_FIELDS, ("timestamp", ">i8")]))
_MIN_LENGTHS: Final = (MIN_MESSAGE_LENGTH, MIN_MESSAGE_LENGTH_V1, RECORD_BATCH_OVERHEAD - LOG_OVERHEAD)
_LENGTH: Final = Struct(">i")
_MAX_LENGTH: Final = INT32_MAX - LOG_OVERHEAD
_INITIAL_CAPACITY: Final = 1024


def as_bytes(data: bytes | bytearray | memoryview | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return `data` as a read-only array, without copying."""
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    return array


def find_entries(
    data: NDArray[np.uint8], position: int, until: int, count: int, positions: NDArray[np.int64]
) -> tuple[int, int]:
    """Store the positions of whole entries in `positions`, after the first `count` elements, which are already set.

    The search begins at `position`. It ends at `until`, when the array is full, or before an entry that is
    incomplete or has an invalid size or magic. This is `kernel.chase` without numba.

    Returns:
        The number of elements that are now set, and the position where the next entry would begin.
    """
    view = data.data
    unpack = _LENGTH.unpack_from
    capacity = len(positions)
    last = len(data) - LOG_OVERHEAD
    while position < until and count < capacity and last - position >= MAGIC_AT - LOG_OVERHEAD + 1:
        (length,) = unpack(view, position + LENGTH_AT)
        magic = view[position + MAGIC_AT]
        if length > min(last - position, _MAX_LENGTH) or magic > MAGIC_V2 or length < _MIN_LENGTHS[magic]:
            break
        positions[count] = position
        count += 1
        position += LOG_OVERHEAD + length
    return count, position


_chases: Final[list[Chase]] = [find_entries]


def use_chase(chase: Chase) -> None:
    """Make `scan_headers` use a faster function, once that function is loaded for an engine.

    Loading it only for `scan_headers` would take longer than it saves.
    """
    _chases[:] = [chase]


def find_positions(data: NDArray[np.uint8], position: int, until: int, chase: Chase) -> tuple[NDArray[np.int64], int]:
    """Return the positions of the whole entries that begin before `until`, and the position after the last one."""
    positions = np.empty(_INITIAL_CAPACITY, np.int64)
    count, position = chase(data, position, until, 0, positions)
    while count == len(positions):
        positions = np.concatenate((positions, np.empty(len(positions), np.int64)))
        count, position = chase(data, position, until, count, positions)
    return positions[:count], position


def read_headers(data: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[Any]:
    """Return the headers of the entries at these positions (see `find_positions`)."""
    formats = data[positions + MAGIC_AT]
    if len(positions) and formats.min() == formats.max():
        return _read_format(data, positions, int(formats[0]))
    headers = np.empty(len(positions), HEADER_DTYPE)
    for magic in np.unique(formats).tolist():
        lines = np.flatnonzero(formats == magic)
        headers[lines] = _read_format(data, positions[lines], magic)
    return headers


def _read_format(data: NDArray[np.uint8], positions: NDArray[np.int64], magic: int) -> NDArray[Any]:
    """Return the headers of entries that all have the format `magic`."""
    layout = V2_LAYOUT if magic == MAGIC_V2 else MESSAGE_LAYOUTS[magic]
    windows = np.ndarray((len(data) - layout.itemsize + 1, layout.itemsize), np.uint8, data, strides=(1, 1))
    fields: NDArray[Any] = windows[positions].view(layout)[:, 0]
    headers = np.empty(len(positions), HEADER_DTYPE)
    for name in set(layout.names or ()).intersection(HEADER_DTYPE.names or ()):
        headers[name] = fields[name]
    headers["position"] = positions
    headers["size"] = fields["length"] + np.int32(LOG_OVERHEAD)
    headers["codec"] = fields["attributes"] & CODEC_MASK
    if magic == MAGIC_V2:
        headers["last_offset"] = headers["base_offset"] + fields["last_offset_delta"]
        return headers
    headers["attributes"] &= CODEC_MASK | TIMESTAMP_TYPE_FLAG if magic else CODEC_MASK
    headers["last_offset"] = fields["base_offset"]
    headers["base_timestamp"] = headers["max_timestamp"] = fields["timestamp"] if magic else NO_TIMESTAMP
    headers["leader_epoch"] = NO_PARTITION_LEADER_EPOCH
    headers["producer_id"] = NO_PRODUCER_ID
    headers["producer_epoch"] = NO_PRODUCER_EPOCH
    headers["base_sequence"] = NO_SEQUENCE
    headers["record_count"] = np.where(headers["codec"] != 0, UNKNOWN_RECORD_COUNT, 1)
    return headers


def select_headers(headers: NDArray[Any], lines: NDArray[np.int64]) -> NDArray[Any]:
    """Return these ascending lines of `headers`. If all lines are chosen, the result is not a copy."""
    return headers if len(lines) == len(headers) else headers[lines]


def scan_headers(data: bytes | bytearray | memoryview, *, position: int = 0) -> NDArray[Any]:
    """Return the headers of all whole entries in `data` from `position` on, as an array of `HEADER_DTYPE`.

    The scan ends, without an error, before an entry that is incomplete or has an invalid size or magic. It can
    therefore end before the end of the data. Checksums are not verified. In a memory-mapped file, only pages that
    contain headers are read.
    """
    array = as_bytes(data)
    positions, _ = find_positions(array, position, len(array), _chases[0])
    return read_headers(array, positions)


def find_wrong_crcs(view: memoryview, headers: NDArray[Any]) -> list[int]:
    """Return the lines of `headers` (`HEADER_DTYPE`) for entries in `view` that have a wrong checksum."""
    wrong: list[int] = []
    columns = (headers[name].tolist() for name in ("position", "size", "crc", "magic"))
    for line, (position, size, crc, magic) in enumerate(zip(*columns, strict=True)):
        entry = view[position : position + size]
        computed = crc32c(entry[CRC_COVERS_FROM:]) if magic == MAGIC_V2 else crc32(entry[MAGIC_AT:])
        if computed != crc:
            wrong.append(line)
    return wrong


class Selection:
    """Selects entries for a request by their headers alone."""

    def __init__(self, request: DecodeRequest) -> None:
        self._first = request.first_offset
        self._end = request.end_offset
        self._include_control = request.include_control
        aborted: dict[int, list[tuple[int, int]]] = {}
        for producer, first, last in sorted(request.aborted if request.isolation == "read_committed" else ()):
            aborted.setdefault(producer, []).append((first, last))
        #: Maps each producer to the first and last offsets of its aborted transactions, which do not overlap.
        self._aborted = {producer: np.array(ranges, np.int64).T for producer, ranges in aborted.items()}

    def lines(self, headers: NDArray[Any]) -> NDArray[np.int64]:
        """Return the lines of the selected headers, in ascending order."""
        attributes = headers["attributes"]
        selected = headers["last_offset"] >= self._first
        # A wrapper's header lacks the offset of its first record, so the end of the range is not compared.
        is_wrapper = headers["record_count"] < 0
        selected &= is_wrapper | (headers["base_offset"] < self._end)
        is_control = attributes & CONTROL_FLAG != 0
        if not self._include_control:
            selected &= ~is_control
        if self._aborted:
            selected &= is_control | ~self._are_aborted(headers, attributes & TRANSACTIONAL_FLAG != 0)
        return np.flatnonzero(selected)

    def _are_aborted(self, headers: NDArray[Any], is_transactional: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask of the data entries of aborted transactions.

        These entries are between a transaction's first record and its marker.
        """
        aborted = np.zeros(len(headers), np.bool_)
        producers = headers["producer_id"]
        offsets = headers["base_offset"]
        for producer in np.unique(producers[is_transactional]).tolist():
            ranges = self._aborted.get(producer)
            if ranges is not None:
                lines = np.flatnonzero(is_transactional & (producers == producer))
                slots = np.searchsorted(ranges[0], offsets[lines], side="right") - 1
                aborted[lines] = (slots >= 0) & (offsets[lines] <= ranges[1][slots])
        return aborted


_SEARCH_WINDOW: Final = 1024 * 1024
_MIN_ENTRY_BYTES: Final = LOG_OVERHEAD + MIN_MESSAGE_LENGTH


def fault_of(view: memoryview, position: int, size: int, request: DecodeRequest) -> str:
    """Return the fault of the entry at a position, as an error message of the protocol's own record reader."""
    try:
        entry = view[position : position + size]
        batch = next(iter_batches(entry, max_decompressed_size=request.max_decompressed_size), None)
        if batch is None:
            return "the entry is cut short"
        if request.verify_crc:
            batch.check_crc()
        for _ in batch:
            pass
    except DecodeError as error:
        return str(error)
    return "the records cannot be read"


def stop_fault(view: memoryview, position: int) -> str | None:
    """Return the reason why no entry begins at a position, or None if the data merely ends within an entry."""
    if len(view) - position < LOG_OVERHEAD:
        return None
    length = int.from_bytes(view[position + LENGTH_AT : position + LOG_OVERHEAD], "big", signed=True)
    if length < MIN_MESSAGE_LENGTH:
        return f"batch length: {length}"
    if length > len(view) - position - LOG_OVERHEAD:
        return None
    magic = view[position + MAGIC_AT]
    if magic > MAGIC_V2:
        return f"magic: {magic}"
    if length > INT32_MAX - LOG_OVERHEAD:
        return f"batch length: {length}, more than is read here"
    return f"batch length: {length}, less than format v{magic} takes"


def offset_at(view: memoryview, position: int) -> int | None:
    """Return the number in the offset field of an entry at this position, or None if the data ends before it."""
    if len(view) - position < LENGTH_AT:
        return None
    return int.from_bytes(view[position : position + LENGTH_AT], "big", signed=True)


def next_entry(view: memoryview, position: int) -> int | None:
    """Return the position of the first whole entry after `position` that has a correct checksum, or None."""
    data = np.frombuffer(view, np.uint8)
    position += 1
    while len(data) - position >= _MIN_ENTRY_BYTES:
        for candidate in _find_candidates(
            data, position, min(position + _SEARCH_WINDOW, len(data) - _MIN_ENTRY_BYTES + 1)
        ):
            try:
                next(iter_batches(view[candidate:])).check_crc()
            except (DecodeError, StopIteration):
                continue
            return candidate
        position += _SEARCH_WINDOW
    return None


def find_damage(view: memoryview, position: int) -> tuple[int, str | None]:
    """Return the end and the fault of the bytes at a position that are not an entry.

    The fault is None if the data merely ends within an entry.
    """
    fault, following = stop_fault(view, position), next_entry(view, position)
    if following is None:
        return len(view), fault
    return following, fault or "batch length: it reaches beyond entries that follow"


def _find_candidates(data: NDArray[np.uint8], position: int, until: int) -> list[int]:
    """Return the positions in [position, until) with a valid magic and a length that ends within the data."""
    candidates = np.flatnonzero(data[position + MAGIC_AT : until + MAGIC_AT] <= MAGIC_V2) + position
    lengths = np.zeros(len(candidates), np.int64)
    for index in range(LENGTH_AT, LOG_OVERHEAD):
        lengths = lengths << 8 | data[candidates + index]
    fits = (lengths >= MIN_MESSAGE_LENGTH) & (lengths <= len(data) - LOG_OVERHEAD - candidates)
    fitting_positions: list[int] = candidates[fits].tolist()
    return fitting_positions
