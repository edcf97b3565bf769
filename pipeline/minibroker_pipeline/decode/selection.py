"""Selection of log entries: those that can hold rows which a request asks for."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.request import DecodeRequest
from minibroker_protocol.records.header import CONTROL_FLAG, TRANSACTIONAL_FLAG


class Selection:
    """A request's choice among entries, by their headers alone."""

    def __init__(self, request: DecodeRequest) -> None:
        self._first = request.first_offset
        self._end = request.end_offset
        self._include_control = request.include_control
        aborted = request.aborted if request.isolation == "read_committed" else ()
        self._aborted = _by_producer(aborted)

    def lines(self, headers: NDArray[Any]) -> NDArray[np.int64]:
        """The lines of these headers that are wanted, ascending."""
        attributes = headers["attributes"]
        selected = headers["last_offset"] >= self._first
        is_wrapper = headers["record_count"] < 0  # where it begins, its header does not say
        selected &= is_wrapper | (headers["base_offset"] < self._end)
        is_control = attributes & CONTROL_FLAG != 0
        if not self._include_control:
            selected &= ~is_control
        if self._aborted:
            selected &= is_control | ~self._are_aborted(headers, attributes & TRANSACTIONAL_FLAG != 0)
        return np.flatnonzero(selected)

    def _are_aborted(self, headers: NDArray[Any], is_transactional: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which entries are data of an aborted transaction: those between its first record and its marker."""
        aborted = np.zeros(len(headers), np.bool_)
        producers = headers["producer_id"]
        offsets = headers["base_offset"]
        for producer in np.unique(producers[is_transactional]).tolist():
            ranges = self._aborted.get(producer)
            if ranges is not None:
                lines = np.flatnonzero(is_transactional & (producers == producer))
                before = np.searchsorted(ranges[0], offsets[lines], side="right") - 1
                aborted[lines] = (before >= 0) & (offsets[lines] <= ranges[1][before])
        return aborted


def _by_producer(aborted: Iterable[tuple[int, int, int]]) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """First and last offsets of each producer's aborted transactions, ascending; a producer's do not overlap."""
    found: dict[int, list[tuple[int, int]]] = {}
    for producer, first, last in aborted:
        found.setdefault(producer, []).append((first, last))
    sorted_ranges = {producer: np.array(sorted(ranges), np.int64) for producer, ranges in found.items()}
    return {
        producer: (np.ascontiguousarray(ranges[:, 0]), np.ascontiguousarray(ranges[:, 1]))
        for producer, ranges in sorted_ranges.items()
    }
