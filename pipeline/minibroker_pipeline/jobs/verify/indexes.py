"""A segment's offset index and time index against its log."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.jobs.verify.findings import REBUILD, Findings, What
from minibroker_pipeline.log_directories.index_files import OFFSET_ENTRY, TIME_ENTRY
from minibroker_protocol.records.header import MAGIC_V2

INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's default of `index.interval.bytes`."""
_COPIED_AT_ONCE: Final = 1024 * 1024
"""`replica.fetch.max.bytes`."""


def check_offset_index(data: bytes, log: NDArray[Any], base_offset: int, found: Findings, *, has_room: bool) -> None:
    """Each entry names the last offset of a batch, and the byte where that batch begins.

    In a replica's index the offset may be that of a later batch: it copies several at once. `log` is what a `LogScan`
    has; `has_room` allows zeros behind the entries, which a broker keeps in the newest segment.
    """
    entries = _entries(data, OFFSET_ENTRY, found, What.OFFSET_INDEX, has_room=has_room)
    offsets = entries["offset"].astype(np.int64) + base_offset
    positions = entries["position"].astype(np.int64)
    _check_rising(offsets, positions, OFFSET_ENTRY.itemsize, found)
    lines = np.searchsorted(log["position"], positions)
    there = np.zeros(len(lines), np.bool_)
    inside = lines < len(log)
    there[inside] = log["position"][lines[inside]] == positions[inside]
    for slot in np.flatnonzero(~there).tolist():
        message = f"offset {offsets[slot]} points to byte {positions[slot]}, where no entry of the log begins"
        found.add(What.OFFSET_INDEX, slot * OFFSET_ENTRY.itemsize, message, REBUILD)
    later = 0
    nexts = np.append(positions[1:], np.iinfo(np.int64).max)
    for slot in np.flatnonzero(there).tolist():
        line = int(lines[slot])
        if log["is_bad"][line] or log["last"][line] == offsets[slot]:
            continue
        behind = int(np.searchsorted(log["position"], nexts[slot]))
        if offsets[slot] in log["last"][line:behind]:
            later += 1
            continue
        message = f"offset {offsets[slot]} points to byte {positions[slot]}, whose batch ends at {log['last'][line]}"
        found.add(What.OFFSET_INDEX, slot * OFFSET_ENTRY.itemsize, message, REBUILD)
    if later and not (log["magic"] < MAGIC_V2).any():
        message = f"{later} entries name the end of a later batch, as in the log of a replica; look-ups find the same"
        found.add(What.OFFSET_INDEX, None, message, "nothing", is_damage=False)


def _check_rising(offsets: NDArray[np.int64], positions: NDArray[np.int64], size: int, found: Findings) -> None:
    falls = (offsets[1:] <= offsets[:-1]) | (positions[1:] <= positions[:-1])
    for slot in (np.flatnonzero(falls) + 1).tolist():
        message = f"offset {offsets[slot]} at byte {positions[slot]} does not follow the entry before it"
        found.add(What.OFFSET_INDEX, slot * size, message, REBUILD)


def check_reach(data: bytes, log: NDArray[Any], interval: int | None, found: Findings) -> None:
    """No entry of an offset index is missing at its end. `interval` is `index.interval.bytes`, None if unknown.

    An append of several batches gets one entry: sets of old messages, and what a replica copies at once, at most
    `replica.fetch.max.bytes`. So a short index need not be damaged, and look-ups in it only take longer. The indexes
    that compaction makes are as sparse as its buffer was large.
    """
    if not len(log) or (log["magic"] < MAGIC_V2).any():
        return
    positions = _written(data, OFFSET_ENTRY)["position"]
    last = int(positions[-1]) if len(positions) else 0
    usual = interval or max(INDEX_INTERVAL_BYTES, 2 * last // len(positions) if len(positions) else 0)
    left = int(log["position"][-1]) - last
    if left > usual:
        message = f"the last entry points to byte {last}, and {left:,} bytes of batches follow without any"
        position = len(positions) * OFFSET_ENTRY.itemsize
        is_damage = left > usual + _COPIED_AT_ONCE
        found.add(What.OFFSET_INDEX, position, message, REBUILD, is_damage=is_damage)


def check_time_index(
    data: bytes, log: NDArray[Any], base_offset: int, found: Findings, *, has_room: bool, is_open: bool
) -> None:
    """Each entry has the largest timestamp up to its offset, which is in the batch that has it.

    The last entry has the largest of all, but for a log that is being written.
    """
    entries = _entries(data, TIME_ENTRY, found, What.TIME_INDEX, has_room=has_room)
    timestamps = entries["timestamp"].astype(np.int64)
    offsets = entries["offset"].astype(np.int64) + base_offset
    size = TIME_ENTRY.itemsize
    for slot in (np.flatnonzero((timestamps[1:] <= timestamps[:-1]) | (offsets[1:] < offsets[:-1])) + 1).tolist():
        message = f"time {timestamps[slot]} at offset {offsets[slot]} does not follow the entry before it"
        found.add(What.TIME_INDEX, slot * size, message, REBUILD)
    if not len(log):
        for slot in range(min(len(entries), 1)):
            found.add(What.TIME_INDEX, slot, f"offset {offsets[slot]} is in no batch", REBUILD)
        return
    known = np.where(log["is_bad"], -1, log["max_timestamp"])
    largest = np.maximum.accumulate(known)
    order = np.maximum.accumulate(log["last"])
    lines = np.minimum(np.searchsorted(order, offsets), len(log) - 1)
    for slot, line in enumerate(lines.tolist()):
        entry = log[line]
        if entry["is_bad"]:
            continue
        if not entry["first"] <= offsets[slot] <= entry["last"]:
            message = f"offset {offsets[slot]} is in no batch"
        elif entry["max_timestamp"] != timestamps[slot]:
            message = f"time {timestamps[slot]} at offset {offsets[slot]}, whose batch has {entry['max_timestamp']}"
        elif largest[line] > timestamps[slot]:
            message = f"time {timestamps[slot]} at offset {offsets[slot]}, but {largest[line]} comes before it"
        else:
            continue
        found.add(What.TIME_INDEX, slot * size, message, REBUILD)
    end = int(timestamps[-1]) if len(timestamps) else -1
    if not is_open and not log["is_bad"].any() and largest[-1] > max(end, 0):
        message = f"the last entry has time {end}, but {largest[-1]} is in the log"
        found.add(What.TIME_INDEX, len(entries) * size, message, REBUILD)


def _entries(data: bytes, layout: np.dtype[Any], found: Findings, kind: What, *, has_room: bool) -> NDArray[Any]:
    """The entries before the zeros at the end; says what is wrong behind them."""
    size = layout.itemsize
    if left := len(data) % size:
        message = f"{left} of an entry's {size} bytes at the end"
        found.add(kind, len(data) - left, message, REBUILD)
    entries, slots = _written(data, layout), len(data) // size
    empty = slots - len(entries)
    if empty and not has_room and not (kind is What.TIME_INDEX and slots == 1):
        message = f"{empty} empty entries at the end, though nothing is written here any more"
        found.add(kind, len(entries) * size, message, REBUILD)
    return entries


def _written(data: bytes, layout: np.dtype[Any]) -> NDArray[Any]:
    """The entries before the zeros at the end."""
    entries = np.frombuffer(data, layout, count=len(data) // layout.itemsize)
    filled = np.zeros(len(entries), np.bool_)
    for name in layout.names or ():
        filled |= entries[name] != 0
    used = np.flatnonzero(filled)
    return entries[: int(used[-1]) + 1 if len(used) else 0]
