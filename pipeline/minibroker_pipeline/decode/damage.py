"""Damaged log entries: a description of the fault, and the position where the log goes on."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.request import Damage, DamagedLogError, DecodeReport, DecodeRequest
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.batch import Batch, iter_batches
from minibroker_protocol.records.header import LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2, MIN_MESSAGE_LENGTH
from minibroker_protocol.records.varint import INT32_MAX

_SEARCH_WINDOW: Final = 1024 * 1024
_SMALLEST: Final = LOG_OVERHEAD + MIN_MESSAGE_LENGTH


def batch_at(view: memoryview, position: int, size: int, max_decompressed_size: int) -> Batch:
    """The entry there. `DecodeError`."""
    entry = view[position : position + size]
    batch = next(iter_batches(entry, max_decompressed_size=max_decompressed_size), None)
    if batch is None:
        raise DecodeError("the entry is cut short")
    return batch


def fault_of(view: memoryview, position: int, size: int, request: DecodeRequest) -> str:
    """The fault of the entry there, in the words of the record formats' own reader."""
    try:
        batch = batch_at(view, position, size, request.max_decompressed_size)
        if request.verify_crc:
            batch.check_crc()
        for _ in batch:
            pass
    except DecodeError as error:
        return str(error)
    return "the records cannot be read"


def stop_fault(view: memoryview, position: int) -> str | None:
    """Why no entry begins there; None when the entry is just cut short by the end of the data."""
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
    """The number in the place of an entry's offset."""
    if len(view) - position < LENGTH_AT:
        return None
    return int.from_bytes(view[position : position + LENGTH_AT], "big", signed=True)


def next_entry(view: memoryview, position: int) -> int | None:
    """Where behind `position` the next whole entry with a right checksum begins. None when there is none."""
    data = np.frombuffer(view, np.uint8)
    position += 1
    while len(data) - position >= _SMALLEST:
        for candidate in _candidates(data, position, min(position + _SEARCH_WINDOW, len(data) - _SMALLEST + 1)):
            try:
                next(iter_batches(view[candidate:])).check_crc()
            except (DecodeError, StopIteration):
                continue
            return candidate
        position += _SEARCH_WINDOW
    return None


def _candidates(data: NDArray[np.uint8], position: int, until: int) -> list[int]:
    """Places in [position, until) that have a magic and a length that ends in the data."""
    places = np.flatnonzero(data[position + MAGIC_AT : until + MAGIC_AT] <= MAGIC_V2) + position
    lengths = np.zeros(len(places), np.int64)
    for index in range(LENGTH_AT, LOG_OVERHEAD):
        lengths = lengths << 8 | data[places + index]
    fits = (lengths >= MIN_MESSAGE_LENGTH) & (lengths <= len(data) - LOG_OVERHEAD - places)
    found: list[int] = places[fits].tolist()
    return found


class DamageHandler:
    """Raises or counts, as the request says."""

    def __init__(self, view: memoryview, request: DecodeRequest, report: DecodeReport) -> None:
        self._view = view
        self._request = request
        self._report = report

    def entry(self, position: int, offset: int | None, size: int, message: str) -> None:
        """One entry is no good. `DamagedLogError` under failfast."""
        damage = Damage(self._request.position + position, offset, size, message)
        if self._request.mode == "failfast":
            raise DamagedLogError(self._request.file, damage)
        self._report.add_damage(damage)

    def go_on_behind(self, position: int) -> int | None:
        """Where the log goes on, no whole entry being at `position`; None when it does not, because data end there.

        `DamagedLogError` under failfast unless the data end within an entry.
        """
        fault = stop_fault(self._view, position)
        end = len(self._view)
        if self._request.mode == "failfast":
            if fault is not None:
                self.entry(position, offset_at(self._view, position), end - position, fault)
            return None
        found = next_entry(self._view, position)
        if found is None and fault is None:
            return None
        behind = end if found is None else found
        reason = fault or "batch length: it reaches beyond entries that follow"
        self.entry(position, offset_at(self._view, position), behind - position, reason)
        return behind
