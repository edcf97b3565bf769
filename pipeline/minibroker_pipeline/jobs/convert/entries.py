"""Converts the entries of a log, a few megabytes at a time. An entry is copied, recompressed or rebuilt."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from minibroker_pipeline.decode import AbortedRange, Damage, DamagedLogError, DecodeRequest, scan_headers
from minibroker_pipeline.decode.assemble import (
    ATTRIBUTES,
    BATCH_BYTES,
    LEADER_EPOCH,
    Binary,
    EncodedBatches,
    Rows,
    check_compressible,
    encode_rows,
    groups_table,
)
from minibroker_pipeline.decode.blocks import (
    END,
    ENTRY,
    IS_BAD,
    KIND,
    ROWS,
    START,
    WRAPPER_V0,
    RecordTable,
    decompress_entry,
)
from minibroker_pipeline.decode.encoder import build_empty_headers, extract_binary
from minibroker_pipeline.decode.headers import Selection
from minibroker_pipeline.decode.numpy_engine import RecordEngine
from minibroker_pipeline.filesystem import FileSystem
from minibroker_pipeline.jobs.convert.settings import FORMATS, ConvertCounts, ConvertError, ConvertSettings, Droppable
from minibroker_pipeline.jobs.segment_walk import (
    BadBytes,
    Entries,
    WalkedRecords,
    damage_at,
    describe_entry,
    walk_records,
)
from minibroker_pipeline.jobs.sizes import BATCH_BYTES as USUAL_BATCH_BYTES
from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, compress
from minibroker_protocol.records.conversion import pack_batch
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    MAGIC_V2,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    CompressionCodec,
    read_header,
)
from minibroker_protocol.records.legacy import encode_message
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.transaction_index import AbortedTxn

_Ints = NDArray[np.int64]
COPY: Final = 0
REPACK: Final = 1
"""Keep the records' bytes, but compress them with another codec or level."""
REBUILD: Final = 2


class Conversions(NamedTuple):
    """The conversion of each entry: its kind, and the numbers of the new format and codec."""

    kind: NDArray[np.int64]
    magic: NDArray[np.int64]
    codec: NDArray[np.int64]

    def groups_of(self, headers: NDArray[Any], lines: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Split these lines into groups that can be converted together.

        The entries of a group have the same kind of conversion and the same new format, and all or none are compressed.
        """
        kind = self.kind[lines] << 4 | self.magic[lines] << 1 | (headers["codec"][lines] != 0)
        return np.split(lines, np.flatnonzero(np.diff(kind)) + 1) if len(lines) else []


def plan_conversions(headers: NDArray[Any], settings: ConvertSettings | None) -> Conversions:
    """Return the conversions of the entries with these headers. Without settings, all entries are copied."""
    own_magic, own_codec = headers["magic"].astype(np.int64), headers["codec"].astype(np.int64)
    if settings is None:
        return Conversions(np.full(len(headers), COPY), own_magic, own_codec)
    magic = own_magic if settings.magic is None else np.full(len(headers), settings.magic)
    codec = own_codec if settings.codec_id is None else np.full(len(headers), settings.codec_id)
    is_v2 = own_magic == MAGIC_V2
    attributes = headers["attributes"]
    is_other_codec = (codec != own_codec) | (np.bool_(settings.level is not None) & (codec != 0))
    is_rebatched = np.bool_(settings.batch_bytes is not None)
    is_free = (headers["producer_id"] < 0) & (attributes & _INDIVISIBLE_FLAGS == 0)
    has_records = is_v2 & (headers["record_count"] > 0) & (attributes & CONTROL_FLAG == 0)
    is_single = ~is_v2 & (own_codec == 0)
    is_wrapper = ~is_v2 & (own_codec != 0)
    is_rebuilt = (
        (magic != own_magic)
        | (is_single & (codec != 0))
        | (is_wrapper & ((codec == 0) | is_rebatched))
        | (has_records & is_free & is_rebatched)
    )
    is_repacked = is_other_codec & (has_records | is_wrapper)
    kind = np.where(is_rebuilt, REBUILD, np.where(is_repacked, REPACK, COPY))
    return Conversions(kind.astype(np.int64), magic, codec)


_INDIVISIBLE_FLAGS: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG
"""Attributes of batches whose records belong together. Such batches are neither joined nor split."""


def find_invalid_entries(walked: WalkedRecords, engine: RecordEngine) -> dict[int, str]:
    """Return the faults of entries whose records are readable but invalid, by the line of the entry."""
    table, blocks = walked.table, walked.blocks
    faults: dict[int, str] = {}
    falls = np.flatnonzero(np.diff(table.offsets[: table.rows]) <= 0) + 1
    if len(falls):
        ends = np.cumsum(blocks[:, ROWS])
        for block in np.unique(np.searchsorted(ends, falls, side="right")).tolist():
            faults[int(blocks[block, ENTRY])] = "the offsets of the records do not rise"
    wrappers = blocks[(blocks[:, KIND] >= WRAPPER_V0) & (blocks[:, IS_BAD] == 0)]
    # Check all wrappers together first, because one call per wrapper costs more than checking its messages.
    if len(wrappers) and not _are_valid_messages(table.data[wrappers[0, START] : wrappers[-1, END]], engine):
        for start, end, entry in wrappers[:, (START, END, ENTRY)].tolist():
            if has_wrong_checksums(table.data.data[start:end], engine):
                faults[entry] = "the checksum of a message in it"
    return faults


def _are_valid_messages(messages: NDArray[np.uint8], engine: RecordEngine) -> bool:
    """Return whether these bytes consist only of messages with correct checksums."""
    headers = scan_headers(messages.data)
    is_all = bool(len(headers)) and int(headers["position"][-1] + headers["size"][-1]) == len(messages)
    return is_all and not engine.find_wrong_crcs(messages.data, headers)


def has_wrong_checksums(messages: memoryview, engine: RecordEngine) -> bool:
    """Return whether a wrapper's message set has a message with a wrong checksum."""
    return bool(engine.find_wrong_crcs(messages, scan_headers(messages)))


def drop_entries(walked: WalkedRecords, lines: list[int]) -> WalkedRecords:
    """Return the records, except those of the entries at these lines."""
    table, blocks = walked.table, walked.blocks
    is_kept = ~np.isin(blocks[:, ENTRY], lines)
    is_kept_row = np.repeat(is_kept, blocks[:, ROWS])
    arrays: Any = [array[: table.rows][is_kept_row] for array in table[2:]]
    return WalkedRecords(RecordTable(table.data, int(np.count_nonzero(is_kept_row)), *arrays), blocks[is_kept])


def _to_binary(array: pa.BinaryArray) -> Binary:
    return extract_binary(array, len(array), "headers")


_HINT: Final = " (--mode permissive leaves damaged entries out)"


class SegmentTask(NamedTuple):
    """A segment to convert, as listed, and the staging directory for the result."""

    topic: str
    partition: int
    filesystem: FileSystem
    path: str
    base_offset: int
    #: The base offset of the next segment, or the offset after the log's last entry.
    end_offset: int
    size: int
    identity: int
    #: `aborted` contains the aborted transactions with markers in this segment. `uncommitted` contains the aborted and
    #: open transactions that may have records in this segment.
    aborted: tuple[AbortedTxn, ...]
    uncommitted: tuple[AbortedRange, ...]
    settings: ConvertSettings
    staging: str


class EntryConverter:
    """Converts the entries of one segment, or copies them if the settings do not apply to its topic.

    Raises:
        DamagedLogError: an entry is damaged, in failfast mode.
        ConvertError: an entry has something that the new format cannot store and that must not be dropped.
    """

    def __init__(self, task: SegmentTask, engine: RecordEngine) -> None:
        self.counts = ConvertCounts()
        self._task = task
        self._settings = task.settings
        self._engine = engine
        self._committed = Selection(DecodeRequest(isolation="read_committed", aborted=task.uncommitted))
        self._end_offset = min(task.end_offset, task.base_offset + INT32_MAX + 1)
        self._last_offset = task.base_offset - 1

    def convert(self, piece: Entries | BadBytes) -> Iterator[EncodedBatches]:
        """Yield the converted entries of the next part of the log."""
        if isinstance(piece, BadBytes):
            self._refuse(Damage(piece.position, piece.offset, piece.size, piece.reason))
            return
        self.counts.entries_before += len(piece.headers)
        self.counts.bytes_before += int(piece.headers["size"].sum(dtype=np.int64))
        for encoded in self._convert_entries(piece):
            ordered = self._drop_unordered(encoded)
            self.counts.entries_after += len(ordered.headers)
            self.counts.bytes_after += int(ordered.headers["size"].sum(dtype=np.int64))
            if len(ordered.headers):
                yield ordered

    def _convert_entries(self, entries: Entries) -> Iterator[EncodedBatches]:
        headers = entries.headers
        wrong = self._engine.find_wrong_crcs(entries.data, headers)
        for line in wrong:
            self._refuse(describe_entry(entries, headers[line]))
        lines = np.delete(np.arange(len(headers)), wrong)
        plan = plan_conversions(headers, self._settings if self._settings.changes(self._task.topic) else None)
        lines = self._storable_lines(headers, lines, plan)
        self._check_codecs(headers, lines, plan)
        for run in plan.groups_of(headers, lines):
            kind, magic = int(plan.kind[run[0]]), int(plan.magic[run[0]])
            if kind == COPY:
                self.counts.copied += len(run)
                yield EncodedBatches(entries.data, headers[run])
            elif kind == REPACK:
                yield self._repack_entries(entries, run, plan)
            else:
                yield from self._rebuild_entries(entries, run, plan, magic)

    def _storable_lines(self, headers: NDArray[Any], lines: _Ints, plan: Conversions) -> _Ints:
        """Return the lines without transaction markers and uncommitted records, which older formats cannot store."""
        is_older = (plan.magic < headers["magic"]) & (headers["magic"] == MAGIC_V2)
        if not is_older.any():
            return lines
        entry_headers, is_older = headers[lines], is_older[lines]
        offsets = entry_headers["base_offset"]
        is_marker = is_older & (entry_headers["attributes"] & CONTROL_FLAG != 0)
        in_transaction = is_older & (entry_headers["attributes"] & TRANSACTIONAL_FLAG != 0)
        self._check_loss("transactions", offsets[in_transaction | is_marker])
        is_committed = np.zeros(len(lines), np.bool_)
        is_committed[self._committed.lines(entry_headers)] = True
        is_uncommitted = is_older & ~is_marker & ~is_committed
        self.counts.markers += int(np.count_nonzero(is_marker))
        self.counts.uncommitted += int(np.maximum(entry_headers["record_count"][is_uncommitted], 0).sum())
        is_kept = ~(is_marker | is_uncommitted) & ~(is_older & (entry_headers["record_count"] == 0))
        self.counts.producers += int(np.count_nonzero(is_older & is_kept & (entry_headers["producer_id"] >= 0)))
        kept_lines: _Ints = lines[is_kept]
        return kept_lines

    def _check_codecs(self, headers: NDArray[Any], lines: _Ints, plan: Conversions) -> None:
        is_zstd = (plan.codec == CompressionCodec.ZSTD) & (plan.magic < MAGIC_V2) & (plan.kind != COPY)
        for line in lines[is_zstd[lines]][:1].tolist():
            raise ConvertError(
                f"{self._location(int(headers['base_offset'][line]))}: zstd, which message format"
                f" {FORMATS[int(plan.magic[line])]} does not know; name another codec, or format v2"
            )

    def _check_loss(self, part: Droppable, offsets: NDArray[np.int64]) -> None:
        if len(offsets) and part not in self._settings.drop:
            raise ConvertError(
                f"{self._location(int(offsets[0]))}: {part}, which message format {self._settings.format} has no place"
                f" for; --drop {part} leaves them out"
            )

    def _repack_entries(self, entries: Entries, run: _Ints, plan: Conversions) -> EncodedBatches:
        """Return entries with another codec and no other change."""
        out = bytearray()
        level = self._settings.level
        for line in run.tolist():
            header = entries.headers[line]
            position, size = int(header["position"]), int(header["size"])
            entry = entries.data[position : position + size]
            try:
                records = decompress_entry(entry, header, MAX_DECOMPRESSED_SIZE)
            except DecodeError as error:
                self._refuse(damage_at(entries, header, str(error)))
                continue
            codec = CompressionCodec(int(plan.codec[line]))
            if codec:
                self._check_size(records, header)
            if header["magic"] == MAGIC_V2:
                out += pack_batch(read_header(entry), compress(codec, records, level=level), codec)[0]
            elif has_wrong_checksums(memoryview(records), self._engine):
                self._refuse(damage_at(entries, header, "the checksum of a message in it"))
                continue
            else:
                out += _build_wrapper(header, records, codec, level)
            self.counts.recompressed += 1
        view = memoryview(out)
        return EncodedBatches(view, scan_headers(view))

    def _check_size(self, records: bytes | bytearray | memoryview, header: Any) -> None:
        try:
            check_compressible(records)
        except EncodeError as error:
            raise ConvertError(f"{self._location(int(header['base_offset']))}: {error}") from None

    def _rebuild_entries(self, entries: Entries, run: _Ints, plan: Conversions, magic: int) -> Iterator[EncodedBatches]:
        damages: list[Damage] = []
        for walked in walk_records(entries, run, self._engine, damages):
            faults = find_invalid_entries(walked, self._engine)
            for line, fault in sorted(faults.items()):
                self._refuse(damage_at(entries, entries.headers[line], fault))
            if faults:
                walked = drop_entries(walked, list(faults))  # noqa: PLW2901 - what is left of it
            self._refuse_all(damages)
            if not walked.table.rows:
                continue
            self._count_losses(walked.table, magic)
            blocks = walked.blocks[walked.blocks[:, ROWS] > 0]
            try:
                groups = self._group_blocks(blocks, entries.headers, plan)
                encoded = encode_rows(
                    self._read_rows(walked.table, magic), groups, magic=magic, level=self._settings.level
                )
            except EncodeError as error:
                raise ConvertError(f"{self._location(int(walked.table.offsets[0]))}: {error}") from None
            self.counts.rebuilt += len(blocks)
            yield encoded
        self._refuse_all(damages)

    def _count_losses(self, table: RecordTable, magic: int) -> None:
        """Count the headers and timestamps that format `magic` cannot store.

        Raises:
            ConvertError: they must not be dropped.
        """
        if magic == MAGIC_V2:
            return
        offsets, timestamps = table.offsets[: table.rows], table.timestamps[: table.rows]
        with_headers = offsets[table.header_count[: table.rows] > 0]
        with_timestamps = offsets[timestamps < NO_TIMESTAMP if magic else timestamps != NO_TIMESTAMP]
        self._check_loss("headers", with_headers)
        self._check_loss("timestamps", with_timestamps)
        self.counts.headers += len(with_headers)
        self.counts.timestamps += len(with_timestamps)

    def _read_rows(self, table: RecordTable, magic: int) -> Rows:
        rows = table.rows
        timestamps = table.timestamps[:rows]
        has_headers = magic == MAGIC_V2 and table.header_count[:rows].any()
        return Rows(
            table.offsets[:rows],
            timestamps if magic == MAGIC_V2 else np.maximum(timestamps, NO_TIMESTAMP),
            Binary(table.data, table.key_at[:rows], table.key_size[:rows]),
            Binary(table.data, table.value_at[:rows], table.value_size[:rows]),
            *(self._read_headers(table) if has_headers else build_empty_headers(rows)),
        )

    def _read_headers(self, table: RecordTable) -> tuple[NDArray[np.int32], NDArray[np.int32], Binary, Binary]:
        _, lists, keys, values = self._engine.headers(table)
        bounds = np.frombuffer(lists, np.int32)[: table.rows + 1]
        return bounds[:-1], np.diff(bounds), _to_binary(keys), _to_binary(values)

    def _group_blocks(self, blocks: _Ints, headers: NDArray[Any], plan: Conversions) -> _Ints:
        """Group the blocks that can share batches. Each group has the attributes that its blocks have in common."""
        lines = blocks[:, ENTRY]
        entries = headers[lines]
        codec = plan.codec[lines]
        is_append_time = (entries["attributes"] & TIMESTAMP_TYPE_FLAG != 0) & (entries["magic"] > 0)
        attributes = codec | np.where(is_append_time, TIMESTAMP_TYPE_FLAG, 0)
        common = np.stack(
            [attributes, entries["leader_epoch"], np.where(is_append_time, entries["max_timestamp"], 0)], axis=1
        )
        is_single = (entries["magic"] < MAGIC_V2) & (entries["codec"] == 0)
        is_joined = np.ones(len(lines), np.bool_) if self._settings.batch_bytes is not None else is_single
        begins = np.ones(len(lines), np.bool_)
        begins[1:] = (common[1:] != common[:-1]).any(axis=1) | ~(is_joined[1:] & is_joined[:-1])
        firsts = np.flatnonzero(begins)
        ends = np.cumsum(blocks[:, ROWS])[np.append(firsts[1:], len(lines)) - 1]
        groups = groups_table(ends)
        groups[:, ATTRIBUTES] = attributes[firsts]
        groups[:, LEADER_EPOCH] = entries["leader_epoch"][firsts]
        limit = min(self._settings.batch_bytes or USUAL_BATCH_BYTES, MAX_DECOMPRESSED_SIZE)
        groups[:, BATCH_BYTES] = np.where(is_joined[firsts], limit, INT32_MAX)
        return groups

    def _drop_unordered(self, encoded: EncodedBatches) -> EncodedBatches:
        """Return the entries with ascending offsets that are within the segment."""
        headers = encoded.headers
        if not len(headers):
            return encoded
        is_wrong = headers["last_offset"] >= self._end_offset
        is_wrong |= headers["last_offset"] < headers["base_offset"]
        reached = np.where(is_wrong, self._last_offset, headers["last_offset"])
        lasts = np.maximum.accumulate(np.append(self._last_offset, reached))
        is_wrong |= headers["base_offset"] <= lasts[:-1]
        for line in np.flatnonzero(is_wrong).tolist():
            offset = int(headers["base_offset"][line])
            message = f"its offsets do not follow {lasts[line]}, or are not the segment's"
            self._refuse(Damage(0, offset, int(headers["size"][line]), message))
        kept_headers = headers[~is_wrong]
        if len(kept_headers):
            self._last_offset = int(kept_headers["last_offset"][-1])
        return EncodedBatches(encoded.data, kept_headers)

    def _refuse_all(self, damage: list[Damage]) -> None:
        for item in sorted(damage):
            self._refuse(item)
        damage.clear()

    def _refuse(self, damage: Damage) -> None:
        if self._settings.mode == "failfast":
            raise DamagedLogError(self._task.path, damage._replace(message=damage.message + _HINT))
        self.counts.damaged += 1
        self.counts.damaged_bytes += damage.size

    def _location(self, offset: int) -> str:
        return f"{self._task.topic}-{self._task.partition}, offset {offset}"


def _build_wrapper(header: Any, messages: bytes, codec: CompressionCodec, level: int | None) -> bytes:
    """Return a wrapper for a message set. The wrapper differs from the old one only in its codec."""
    magic = int(header["magic"])
    return encode_message(
        int(header["last_offset"]),
        None,
        compress(codec, messages, magic=magic, level=level),
        magic=magic,
        timestamp=int(header["max_timestamp"]),
        attributes=int(header["attributes"]) & ~CODEC_MASK | codec,
    )
