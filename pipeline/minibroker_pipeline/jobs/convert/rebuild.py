"""The records of some entries written again as entries of one format."""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from minibroker_pipeline.decode.assemble import (
    ATTRIBUTES,
    BATCH_BYTES,
    LEADER_EPOCH,
    Binary,
    EncodedBatches,
    Rows,
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
    RecordEngine,
    RecordTable,
)
from minibroker_pipeline.decode.encoder import binary_of
from minibroker_pipeline.decode.headers import scan_headers
from minibroker_pipeline.jobs.convert.settings import ConvertSettings
from minibroker_pipeline.jobs.segment_walk import Walked
from minibroker_pipeline.jobs.sizes import BATCH_BYTES as USUAL_BATCH_BYTES
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE
from minibroker_protocol.records.header import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    MAGIC_V2,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
)
from minibroker_protocol.records.varint import INT32_MAX

COPY: Final = 0
REPACK: Final = 1
"""The records' bytes stay, under another codec or level."""
REBUILD: Final = 2


class Ways(NamedTuple):
    """Of each entry: its way, and the format and codec (numbers) that it will have."""

    way: NDArray[np.int64]
    magic: NDArray[np.int64]
    codec: NDArray[np.int64]

    def runs(self, headers: NDArray[Any], lines: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """These lines, in pieces that go the same way, to one format, from records that are all plain or all packed."""
        kind = self.way[lines] << 4 | self.magic[lines] << 1 | (headers["codec"][lines] != 0)
        return np.split(lines, np.flatnonzero(np.diff(kind)) + 1) if len(lines) else []


def ways_of(headers: NDArray[Any], settings: ConvertSettings | None) -> Ways:
    """The ways of the entries with these headers; without settings all are copied."""
    own_magic, own_codec = headers["magic"].astype(np.int64), headers["codec"].astype(np.int64)
    if settings is None:
        return Ways(np.full(len(headers), COPY), own_magic, own_codec)
    magic = own_magic if settings.magic is None else np.full(len(headers), settings.magic)
    codec = own_codec if settings.codec_id is None else np.full(len(headers), settings.codec_id)
    is_v2 = own_magic == MAGIC_V2
    attributes = headers["attributes"]
    is_other_codec = (codec != own_codec) | (np.bool_(settings.level is not None) & (codec != 0))
    is_rebatched = np.bool_(settings.batch_bytes is not None)
    is_free = (headers["producer_id"] < 0) & (attributes & _KEPT_WHOLE == 0)
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
    way = np.where(is_rebuilt, REBUILD, np.where(is_repacked, REPACK, COPY))
    return Ways(way.astype(np.int64), magic, codec)


_KEPT_WHOLE: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG
"""Attributes of batches whose records mean something together: they are neither joined nor split."""


_Ints = NDArray[np.int64]
_NO_TIME: Final = 0


def unsound(walked: Walked, engine: RecordEngine) -> dict[int, str]:
    """Lines of entries whose records are readable but wrong, and why."""
    table, blocks = walked.table, walked.blocks
    found: dict[int, str] = {}
    falls = np.flatnonzero(np.diff(table.offsets[: table.rows]) <= 0) + 1
    if len(falls):
        ends = np.cumsum(blocks[:, ROWS])
        for block in np.unique(np.searchsorted(ends, falls, side="right")).tolist():
            found[int(blocks[block, ENTRY])] = "the offsets of the records do not rise"
    wrappers = blocks[(blocks[:, KIND] >= WRAPPER_V0) & (blocks[:, IS_BAD] == 0)]
    # At once if possible: a call for each wrapper takes longer than its messages do.
    if len(wrappers) and not _are_right(table.data[wrappers[0, START] : wrappers[-1, END]], engine):
        for start, end, entry in wrappers[:, (START, END, ENTRY)].tolist():
            if has_wrong_messages(table.data.data[start:end], engine):
                found[entry] = "the checksum of a message in it"
    return found


def _are_right(messages: NDArray[np.uint8], engine: RecordEngine) -> bool:
    """Whether all of it are messages with right checksums; False if something else may be between them."""
    headers = scan_headers(messages.data)
    is_all = bool(len(headers)) and int(headers["position"][-1] + headers["size"][-1]) == len(messages)
    return is_all and not engine.wrong_crcs(messages.data, headers)


def has_wrong_messages(messages: memoryview, engine: RecordEngine) -> bool:
    """Whether a wrapper's message set has a message whose checksum is not that of its bytes."""
    return bool(engine.wrong_crcs(messages, scan_headers(messages)))


def without(walked: Walked, lines: list[int]) -> Walked:
    """The same without the records of these entries."""
    table, blocks = walked.table, walked.blocks
    is_kept = ~np.isin(blocks[:, ENTRY], lines)
    kept = np.repeat(is_kept, blocks[:, ROWS])
    arrays: Any = [array[: table.rows][kept] for array in table[2:]]
    return Walked(RecordTable(table.data, int(np.count_nonzero(kept)), *arrays), blocks[is_kept])


class Rebuilder:
    """Writes records again."""

    def __init__(self, settings: ConvertSettings, engine: RecordEngine) -> None:
        self._settings = settings
        self._engine = engine

    def losses(self, table: RecordTable, magic: int) -> dict[str, NDArray[np.bool_]]:
        """Which records have headers or timestamps that format `magic` has no place for."""
        if magic == MAGIC_V2:
            return {}
        timestamps = table.timestamps[: table.rows]
        return {
            "headers": table.header_count[: table.rows] > 0,
            "timestamps": timestamps < NO_TIMESTAMP if magic else timestamps != NO_TIMESTAMP,
        }

    def rebuild(self, walked: Walked, headers: NDArray[Any], ways: Ways, magic: int) -> EncodedBatches:
        """Entries of format `magic`. What it has no place for is left out. `EncodeError`."""
        blocks = walked.blocks[walked.blocks[:, ROWS] > 0]
        rows = self._rows(walked.table, magic)
        return encode_rows(rows, self._groups(blocks, headers, ways), magic=magic, level=self._settings.level)

    def _rows(self, table: RecordTable, magic: int) -> Rows:
        rows = table.rows
        timestamps = table.timestamps[:rows]
        has_headers = magic == MAGIC_V2 and table.header_count[:rows].any()
        return Rows(
            table.offsets[:rows],
            timestamps if magic == MAGIC_V2 else np.maximum(timestamps, NO_TIMESTAMP),
            Binary(table.data, table.key_at[:rows], table.key_size[:rows]),
            Binary(table.data, table.value_at[:rows], table.value_size[:rows]),
            *(self._headers(table) if has_headers else _no_headers(rows)),
        )

    def _headers(self, table: RecordTable) -> tuple[NDArray[np.int32], NDArray[np.int32], Binary, Binary]:
        _, lists, keys, values = self._engine.headers(table)
        bounds = np.frombuffer(lists, np.int32)[: table.rows + 1]
        return bounds[:-1], np.diff(bounds), _binary(keys), _binary(values)

    def _groups(self, blocks: _Ints, headers: NDArray[Any], ways: Ways) -> _Ints:
        """Which blocks may share batches, and what these have in common."""
        lines = blocks[:, ENTRY]
        own = headers[lines]
        codec = ways.codec[lines]
        is_append_time = (own["attributes"] & TIMESTAMP_TYPE_FLAG != 0) & (own["magic"] > 0)
        attributes = codec | np.where(is_append_time, TIMESTAMP_TYPE_FLAG, 0)
        common = np.stack(
            [attributes, own["leader_epoch"], np.where(is_append_time, own["max_timestamp"], _NO_TIME)], axis=1
        )
        is_single = (own["magic"] < MAGIC_V2) & (own["codec"] == 0)
        is_joined = np.ones(len(lines), np.bool_) if self._settings.batch_bytes is not None else is_single
        begins = np.ones(len(lines), np.bool_)
        begins[1:] = (common[1:] != common[:-1]).any(axis=1) | ~(is_joined[1:] & is_joined[:-1])
        firsts = np.flatnonzero(begins)
        ends = np.cumsum(blocks[:, ROWS])[np.append(firsts[1:], len(lines)) - 1]
        groups = groups_table(ends)
        groups[:, ATTRIBUTES] = attributes[firsts]
        groups[:, LEADER_EPOCH] = own["leader_epoch"][firsts]
        limit = min(self._settings.batch_bytes or USUAL_BATCH_BYTES, MAX_DECOMPRESSED_SIZE)
        groups[:, BATCH_BYTES] = np.where(is_joined[firsts], limit, INT32_MAX)
        return groups


def _no_headers(rows: int) -> tuple[NDArray[np.int32], NDArray[np.int32], Binary, Binary]:
    zeros = np.zeros(rows, np.int32)
    nothing = binary_of(None, 0, "headers")
    return zeros, zeros, nothing, nothing


def _binary(array: pa.BinaryArray) -> Binary:
    return binary_of(array, len(array), "headers")
