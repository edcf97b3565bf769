"""Entries of one log, a few megabytes at a time, to what they are converted to."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode import AbortedRange, Damage, DamagedLogError, DecodeRequest, scan_headers
from minibroker_pipeline.decode.assemble import EncodedBatches, check_compressible
from minibroker_pipeline.decode.blocks import ROWS, RecordEngine, inflate
from minibroker_pipeline.decode.headers import Selection
from minibroker_pipeline.jobs.convert.rebuild import (
    COPY,
    REPACK,
    Rebuilder,
    Ways,
    has_wrong_messages,
    unsound,
    ways_of,
    without,
)
from minibroker_pipeline.jobs.convert.report import ConvertCounts
from minibroker_pipeline.jobs.convert.settings import FORMATS, ConvertError, ConvertSettings, Droppable
from minibroker_pipeline.jobs.segment_walk import Entries, NoEntries, describe_entry, walk_records
from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, compress
from minibroker_protocol.records.conversion import pack_batch
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CONTROL_FLAG,
    MAGIC_V2,
    TRANSACTIONAL_FLAG,
    CompressionCodec,
    read_header,
)
from minibroker_protocol.records.legacy import encode_message

_Ints = NDArray[np.int64]
_HINT: Final = " (--mode permissive leaves damaged entries out)"


class Source(NamedTuple):
    """A segment's log to convert, and the offsets that it can have. `uncommitted` are transactions."""

    topic: str
    partition: int
    path: str
    first_offset: int
    end_offset: int
    uncommitted: Sequence[AbortedRange] = ()


class EntryConverter:
    """Converts the entries of one segment. `settings` None copies them.

    `DamagedLogError` under failfast, `ConvertError` for what has no place in the wanted format and may not be dropped.
    """

    def __init__(self, source: Source, settings: ConvertSettings | None, mode: str, engine: RecordEngine) -> None:
        self.counts = ConvertCounts()
        self._source = source
        self._settings = settings
        self._is_permissive = mode == "permissive"
        self._engine = engine
        self._rebuilder = None if settings is None else Rebuilder(settings, engine)
        request = DecodeRequest(isolation="read_committed", aborted=tuple(source.uncommitted))
        self._committed = Selection(request)
        self._last_offset = source.first_offset - 1

    def convert(self, piece: Entries | NoEntries) -> Iterator[EncodedBatches]:
        """The converted entries of the next stretch of the log."""
        if isinstance(piece, NoEntries):
            self._refuse(Damage(piece.position, piece.offset, piece.size, piece.reason))
            return
        self.counts.entries_before += len(piece.headers)
        self.counts.bytes_before += int(piece.headers["size"].sum(dtype=np.int64))
        for found in self._converted(piece):
            kept = self._in_order(found)
            self.counts.entries_after += len(kept.headers)
            self.counts.bytes_after += int(kept.headers["size"].sum(dtype=np.int64))
            if len(kept.headers):
                yield kept

    def _converted(self, entries: Entries) -> Iterator[EncodedBatches]:
        headers = entries.headers
        lines = np.arange(len(headers))
        wrong = self._engine.wrong_crcs(entries.data, headers)
        for line in wrong:
            self._refuse(describe_entry(entries, headers[line]))
        lines = np.delete(lines, wrong)
        ways = ways_of(headers, self._settings)
        lines = self._holdable(headers, lines, ways)
        self._check_codecs(headers, lines, ways)
        for run in ways.runs(headers, lines):
            way, magic = int(ways.way[run[0]]), int(ways.magic[run[0]])
            if way == COPY:
                self.counts.copied += len(run)
                yield EncodedBatches(entries.data, headers[run])
            elif way == REPACK:
                yield self._repacked(entries, run, ways)
            else:
                yield from self._rebuilt(entries, run, ways, magic)

    def _holdable(self, headers: NDArray[Any], lines: _Ints, ways: Ways) -> _Ints:
        """The lines without what an older format has no place for: markers, and what was not committed."""
        is_older = (ways.magic < headers["magic"]) & (headers["magic"] == MAGIC_V2)
        if not is_older.any():
            return lines
        own, is_older = headers[lines], is_older[lines]
        offsets = own["base_offset"]
        is_marker = is_older & (own["attributes"] & CONTROL_FLAG != 0)
        in_transaction = is_older & (own["attributes"] & TRANSACTIONAL_FLAG != 0)
        self._lose("transactions", offsets[in_transaction | is_marker])
        is_committed = np.zeros(len(lines), np.bool_)
        is_committed[self._committed.lines(own)] = True
        is_uncommitted = is_older & ~is_marker & ~is_committed
        self.counts.markers += int(np.count_nonzero(is_marker))
        self.counts.uncommitted += int(np.maximum(own["record_count"][is_uncommitted], 0).sum())
        kept = ~(is_marker | is_uncommitted) & ~(is_older & (own["record_count"] == 0))
        self.counts.producers += int(np.count_nonzero(is_older & kept & (own["producer_id"] >= 0)))
        left: _Ints = lines[kept]
        return left

    def _check_codecs(self, headers: NDArray[Any], lines: _Ints, ways: Ways) -> None:
        is_zstd = (ways.codec == CompressionCodec.ZSTD) & (ways.magic < MAGIC_V2) & (ways.way != COPY)
        for line in lines[is_zstd[lines]][:1].tolist():
            raise ConvertError(
                f"{self._where(int(headers['base_offset'][line]))}: zstd, which message format"
                f" {FORMATS[int(ways.magic[line])]} does not know; name another codec, or format v2"
            )

    def _lose(self, part: Droppable, offsets: NDArray[np.int64]) -> None:
        if len(offsets) and self._settings is not None and part not in self._settings.drop:
            raise ConvertError(
                f"{self._where(int(offsets[0]))}: {part}, which message format {self._settings.format} has no place"
                f" for; --drop {part} leaves them out"
            )

    def _repacked(self, entries: Entries, run: _Ints, ways: Ways) -> EncodedBatches:
        """Entries under another codec, all else as it was."""
        out = bytearray()
        level = None if self._settings is None else self._settings.level
        for line in run.tolist():
            header = entries.headers[line]
            position, size = int(header["position"]), int(header["size"])
            entry = entries.data[position : position + size]
            try:
                records = inflate(entry, header, MAX_DECOMPRESSED_SIZE)
            except DecodeError as error:
                self._refuse(Damage(entries.position + position, int(header["base_offset"]), size, str(error)))
                continue
            codec = CompressionCodec(int(ways.codec[line]))
            if codec:
                self._check_size(records, header)
            if header["magic"] == MAGIC_V2:
                out += pack_batch(read_header(entry), compress(codec, records, level=level), codec)[0]
            elif has_wrong_messages(memoryview(records), self._engine):
                self._refuse_entry(entries, header, "the checksum of a message in it")
                continue
            else:
                out += _wrapper(header, records, codec, level)
            self.counts.recompressed += 1
        view = memoryview(out)
        return EncodedBatches(view, scan_headers(view))

    def _check_size(self, records: bytes | bytearray | memoryview, header: Any) -> None:
        try:
            check_compressible(records)
        except EncodeError as error:
            raise ConvertError(f"{self._where(int(header['base_offset']))}: {error}") from None

    def _rebuilt(self, entries: Entries, run: _Ints, ways: Ways, magic: int) -> Iterator[EncodedBatches]:
        assert self._rebuilder is not None, "entries are copied without settings"
        found: list[Damage] = []
        for walked in walk_records(entries, run, self._engine, found):
            faults = unsound(walked, self._engine)
            for line, fault in sorted(faults.items()):
                self._refuse_entry(entries, entries.headers[line], fault)
            if faults:
                walked = without(walked, list(faults))  # noqa: PLW2901 - what is left of it
            self._refuse_all(found)
            if not walked.table.rows:
                continue
            for loss, is_lost in self._rebuilder.losses(walked.table, magic).items():
                offsets = walked.table.offsets[: walked.table.rows][is_lost]
                self._lose("headers" if loss == "headers" else "timestamps", offsets)
                setattr(self.counts, loss, getattr(self.counts, loss) + len(offsets))
            try:
                encoded = self._rebuilder.rebuild(walked, entries.headers, ways, magic)
            except EncodeError as error:
                raise ConvertError(f"{self._where(int(walked.table.offsets[0]))}: {error}") from None
            self.counts.rebuilt += int(np.count_nonzero(walked.blocks[:, ROWS]))
            yield encoded
        self._refuse_all(found)

    def _in_order(self, piece: EncodedBatches) -> EncodedBatches:
        """The entries whose offsets lie behind those before them, and in the segment."""
        headers = piece.headers
        if not len(headers):
            return piece
        is_wrong = headers["last_offset"] >= self._source.end_offset
        is_wrong |= headers["last_offset"] < headers["base_offset"]
        reached = np.where(is_wrong, self._last_offset, headers["last_offset"])
        lasts = np.maximum.accumulate(np.append(self._last_offset, reached))
        is_wrong |= headers["base_offset"] <= lasts[:-1]
        for line in np.flatnonzero(is_wrong).tolist():
            offset = int(headers["base_offset"][line])
            message = f"its offsets do not follow {lasts[line]}, or are not the segment's"
            self._refuse(Damage(0, offset, int(headers["size"][line]), message))
        kept = headers[~is_wrong]
        if len(kept):
            self._last_offset = int(kept["last_offset"][-1])
        return EncodedBatches(piece.data, kept)

    def _refuse_entry(self, entries: Entries, header: Any, message: str) -> None:
        position = entries.position + int(header["position"])
        self._refuse(Damage(position, int(header["base_offset"]), int(header["size"]), message))

    def _refuse_all(self, damage: list[Damage]) -> None:
        for one in sorted(damage):
            self._refuse(one)
        damage.clear()

    def _refuse(self, damage: Damage) -> None:
        if not self._is_permissive:
            raise DamagedLogError(self._source.path, damage._replace(message=damage.message + _HINT))
        self.counts.damaged += 1
        self.counts.damaged_bytes += damage.size

    def _where(self, offset: int) -> str:
        return f"{self._source.topic}-{self._source.partition}, offset {offset}"


def _wrapper(header: Any, messages: bytes, codec: CompressionCodec, level: int | None) -> bytes:
    """A message set in a wrapper that is the old one but for its codec."""
    magic = int(header["magic"])
    return encode_message(
        int(header["last_offset"]),
        None,
        compress(codec, messages, magic=magic, level=level),
        magic=magic,
        timestamp=int(header["max_timestamp"]),
        attributes=int(header["attributes"]) & ~CODEC_MASK | codec,
    )
