"""Scans a whole log file for faults, and collects the facts with which its indexes must agree."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode import Damage
from minibroker_pipeline.decode.blocks import (
    BASE_OFFSET,
    END,
    ENTRY,
    IS_BAD,
    KIND,
    ROWS,
    START,
    V2,
    WRAPPER_V0,
    RecordTable,
)
from minibroker_pipeline.decode.numpy_engine import RecordEngine
from minibroker_pipeline.jobs.segment_walk import (
    CUT_SHORT,
    ZEROS,
    BadBytes,
    Entries,
    WalkedRecords,
    damage_at,
    describe_entry,
    walk_records,
)
from minibroker_pipeline.jobs.verify.findings import NOTHING, RESTORE, Findings, Kind
from minibroker_pipeline.log_directories.log_end_offsets import is_abort_marker
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.header import CONTROL_FLAG, MAGIC_V2, TIMESTAMP_TYPE_FLAG, TRANSACTIONAL_FLAG
from minibroker_protocol.records.legacy import check_inner_crcs
from minibroker_protocol.records.varint import INT32_MAX

_Ints = NDArray[np.int64]
_ENTRY_DTYPE: Final = np.dtype(
    [
        ("position", "i8"),
        ("size", "i8"),
        ("first", "i8"),
        ("last", "i8"),
        ("missing", "i8"),  # The number of offsets from `first` to `last` that have no record.
        ("max_timestamp", "i8"),
        ("magic", "i1"),
        ("is_bad", "?"),
        ("is_behind_damage", "?"),  # Whether the bytes directly before this entry are damaged.
    ]
)


class TransactionEvent(NamedTuple):
    """A marker, or the first data of a producer's transaction in a segment. `is_abort` is None for data."""

    producer_id: int
    offset: int
    position: int
    is_abort: bool | None


class EpochChange(NamedTuple):
    """A batch whose leader epoch differs from that of the previous batch."""

    epoch: int
    offset: int
    position: int


class OffsetGap(NamedTuple):
    """A gap in the offsets: `first` up to, but excluding, `end`. The gap is at a position in the file."""

    first: int
    end: int
    position: int


@dataclass(slots=True)
class LogScan:
    """The facts found in one scan of a log file. `entries` has all whole entries, including bad ones."""

    findings: Findings
    engine: RecordEngine
    base_offset: int
    #: The base offset of the next segment, or None for the last segment.
    next_base: int | None
    #: Whether the file may end with an incomplete entry.
    may_be_torn: bool
    entries: NDArray[Any] = field(default_factory=lambda: np.empty(0, _ENTRY_DTYPE))
    epochs: list[EpochChange] = field(default_factory=list[EpochChange])
    transactions: list[TransactionEvent] = field(default_factory=list[TransactionEvent])
    records: int = 0
    _parts: list[NDArray[Any]] = field(default_factory=list[NDArray[Any]])
    _open: set[int] = field(default_factory=set[int])
    _is_behind_damage: bool = False

    def add(self, piece: Entries | BadBytes) -> None:
        """Scan the next part of the file."""
        if isinstance(piece, BadBytes):
            self._add_bad_bytes(piece)
        else:
            self._add_entries(piece)

    def finish(self) -> None:
        """Complete the scan at the end of the file."""
        if self._parts:
            self.entries = np.concatenate(self._parts)
        self._check_offsets()

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        good = self.entries[~self.entries["is_bad"]]
        return int(good["last"][-1]) + 1 if len(good) else self.base_offset

    @property
    def ends_in_damage(self) -> bool:
        """Whether the file ends with bytes from which no offset can be read."""
        return self._is_behind_damage or bool(len(self.entries) and self.entries["is_bad"][-1])

    def find_gaps(self) -> list[OffsetGap]:
        """Return the ranges of missing offsets, except those explained by damage."""
        good = self.entries[~self.entries["is_bad"]]
        if not len(good):
            return []
        gaps = [
            OffsetGap(first, last + 1, position)
            for first, last, position in good[good["missing"] > 0][["first", "last", "position"]].tolist()
        ]
        previous_lasts = np.concatenate(([self.base_offset - 1], good["last"][:-1]))
        is_explained = self._find_explained(good)
        gaps += [
            OffsetGap(int(previous_lasts[line]) + 1, int(good["first"][line]), int(good["position"][line]))
            for line in np.flatnonzero((good["first"] > previous_lasts + 1) & ~is_explained).tolist()
        ]
        return sorted(gaps)

    def _find_explained(self, good: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the good entries that follow damage. Gaps before them are explained by the damage."""
        after_bad = np.append(False, self.entries["is_bad"][:-1])
        is_explained: NDArray[np.bool_] = good["is_behind_damage"] | after_bad[~self.entries["is_bad"]]
        return is_explained

    def _add_bad_bytes(self, invalid: BadBytes) -> None:
        self._is_behind_damage = True
        if invalid.reason in {CUT_SHORT, ZEROS}:
            if self.may_be_torn:
                message = f"{invalid.size} bytes at the end are no whole entry: {invalid.reason}"
                self.findings.add(Kind.TORN, invalid.position, message, NOTHING, is_damage=False)
            else:
                self.findings.add(Kind.TORN, invalid.position, f"{invalid.size} bytes: {invalid.reason}", RESTORE)
        else:
            message = f"{invalid.size} bytes are no entry: {invalid.reason}"
            self.findings.add(Kind.ENTRY, invalid.position, message, RESTORE)

    def _add_entries(self, entries: Entries) -> None:
        headers = entries.headers
        part = np.zeros(len(headers), _ENTRY_DTYPE)
        part["position"] = headers["position"] + entries.position
        for name in ("size", "max_timestamp", "magic"):
            part[name] = headers[name]
        part["first"], part["last"] = headers["base_offset"], headers["last_offset"]
        part["is_behind_damage"][0] = self._is_behind_damage
        self._is_behind_damage = False
        wrong = self.engine.find_wrong_crcs(entries.data, headers)
        part["is_bad"][wrong] = True
        for line in wrong:
            self._report_damage(Kind.CHECKSUM, describe_entry(entries, headers[line]))
        self._add_records(entries, part)
        good = np.flatnonzero(~part["is_bad"] & (part["magic"] == MAGIC_V2))
        self._track_epochs(headers[good], entries.position)
        self._track_transactions_in(entries, good)
        self._parts.append(part)

    def _add_records(self, entries: Entries, part: NDArray[Any]) -> None:
        damage: list[Damage] = []
        for walked in walk_records(entries, np.flatnonzero(~part["is_bad"]), self.engine, damage):
            self._check_records(entries, part, walked)
        for item in damage:
            part["is_bad"][np.searchsorted(part["position"], item.position)] = True
            self._report_damage(Kind.RECORDS, item)

    def _report_damage(self, kind: Kind, damage: Damage) -> None:
        message = f"offset {damage.offset}, {damage.size} bytes: {damage.message}"
        self.findings.add(kind, damage.position, message, RESTORE)

    def _check_records(self, entries: Entries, part: NDArray[Any], walked: WalkedRecords) -> None:
        blocks = walked.blocks[walked.blocks[:, IS_BAD] == 0]
        lines, row_counts = blocks[:, ENTRY], blocks[:, ROWS]
        is_wrapper = blocks[:, KIND] >= WRAPPER_V0
        part["first"][lines[is_wrapper]] = blocks[is_wrapper, BASE_OFFSET]
        part["missing"][lines] = part["last"][lines] - part["first"][lines] + 1 - row_counts
        self.records += int(row_counts.sum())
        full = np.flatnonzero(row_counts)
        if len(full):
            starts = (np.cumsum(row_counts) - row_counts)[full]
            self._check_order(part, lines[full], starts, row_counts[full], walked.table)
            self._check_times(entries.headers, part, lines[full], starts, walked.table, blocks[full, KIND] == V2)
        for start, end, line in blocks[is_wrapper][:, (START, END, ENTRY)].tolist():
            self._check_inner(entries.headers[line], entries, walked.table.data[start:end].tobytes())

    def _check_order(self, part: NDArray[Any], lines: _Ints, starts: _Ints, rows: _Ints, table: RecordTable) -> None:
        """Check that offsets ascend within each entry, and stay within the range given by its header."""
        offsets = table.offsets[: table.rows]
        rises = np.append(True, offsets[1:] > offsets[:-1])
        rises[starts] = offsets[starts] >= part["first"][lines]
        wrong = ~np.logical_and.reduceat(rises, starts)
        wrong |= offsets[starts + rows - 1] > part["last"][lines]
        for line in lines[wrong].tolist():
            first, last = int(part["first"][line]), int(part["last"][line])
            message = f"offsets {first} to {last}: those of the records do not rise, or lie elsewhere"
            self.findings.add(Kind.OFFSETS, int(part["position"][line]), message, RESTORE)

    def _check_times(
        self,
        headers: NDArray[Any],
        part: NDArray[Any],
        lines: _Ints,
        starts: _Ints,
        table: RecordTable,
        is_v2: NDArray[np.bool_],
    ) -> None:
        largest = np.maximum.reduceat(table.timestamps[: table.rows], starts)
        stated = headers["max_timestamp"][lines]
        is_created = headers["attributes"][lines] & TIMESTAMP_TYPE_FLAG == 0
        for index in np.flatnonzero(is_v2 & is_created & (largest != stated)).tolist():
            line = int(lines[index])
            message = (
                f"offset {int(part['first'][line])}: the largest timestamp is {largest[index]}, the batch says"
                f" {stated[index]}"
            )
            self.findings.add(Kind.TIMESTAMP, int(part["position"][line]), message, RESTORE)
        part["max_timestamp"][lines] = largest

    def _check_inner(self, header: Any, entries: Entries, messages: bytes) -> None:
        """Check the checksums of the messages in a wrapper."""
        try:
            check_inner_crcs(messages, int(header["magic"]))
        except DecodeError as error:
            self._report_damage(Kind.CHECKSUM, damage_at(entries, header, str(error)))

    def _track_epochs(self, headers: NDArray[Any], position: int) -> None:
        headers = headers[headers["leader_epoch"] >= 0]
        latest = self.epochs[-1].epoch if self.epochs else -1
        changed = headers[np.diff(headers["leader_epoch"], prepend=latest) != 0]
        for epoch, offset, at in changed[["leader_epoch", "base_offset", "position"]].tolist():
            self.epochs.append(EpochChange(epoch, offset, position + at))

    def _track_transactions_in(self, entries: Entries, good: _Ints) -> None:
        attributes = entries.headers["attributes"][good]
        for header in entries.headers[good[attributes & TRANSACTIONAL_FLAG != 0]]:
            producer, offset = int(header["producer_id"]), int(header["base_offset"])
            position = int(header["position"])
            is_abort = is_abort_marker(entries.data, position) if header["attributes"] & CONTROL_FLAG else None
            if is_abort is not None:
                self._open.discard(producer)
            elif producer in self._open:
                continue
            else:
                self._open.add(producer)
            self.transactions.append(TransactionEvent(producer, offset, entries.position + position, is_abort))

    def _check_offsets(self) -> None:
        """Check that each entry begins after the previous one ends, and that all offsets are within the segment."""
        good = self.entries[~self.entries["is_bad"]]
        if not len(good):
            return
        limit = min(self.base_offset + INT32_MAX + 1, self.next_base or self.base_offset + INT32_MAX + 1)
        outside = (good["first"] < self.base_offset) | (good["last"] >= limit)
        outside |= good["last"] < good["first"]
        overlaps = np.append(False, good["first"][1:] <= good["last"][:-1])
        for line in np.flatnonzero(outside | overlaps).tolist():
            first, last, position = (int(good[name][line]) for name in ("first", "last", "position"))
            if outside[line]:
                message = f"offsets {first} to {last}, but the segment has {self.base_offset} to {limit - 1}"
            else:
                message = f"offsets {first} to {last} follow offset {int(good['last'][line - 1])}"
            self.findings.add(Kind.OFFSETS, position, message, RESTORE)
