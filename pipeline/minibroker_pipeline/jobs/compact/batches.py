"""Batches with some of their records, made of those that there were."""

from collections.abc import Sequence
from types import ModuleType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.blocks import END, ENTRY, ROWS, START
from minibroker_pipeline.jobs.segment_walk import Entries, Walked
from minibroker_protocol.records import (
    RECORD_BATCH_OVERHEAD,
    CompressionCodec,
    compress,
    read_entry_header,
)
from minibroker_protocol.records.header import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    TIMESTAMP_TYPE_FLAG,
)
from minibroker_protocol.records.legacy import LegacyRecordBatch
from minibroker_storage.cleaner.batch_filter import KEPT_ATTRIBUTES, rebuild_batch, rebuild_message_set, write_header
from minibroker_storage.cleaner.entry_keys import v2_data, v2_keys

_GROWTH: Final = 14
"""Bytes that a record may gain: a timestamp delta of ten bytes, and a length that says so."""

Horizons = tuple[NDArray[np.bool_], NDArray[np.int64]]
"""Of each block whether it has a delete horizon, and which (ms)."""


def rebuild_wrapper(piece: Entries, line: int, kept: Sequence[int]) -> bytes | bytearray:
    """A v0 or v1 wrapper with the messages of these numbers only."""
    entry = _bytes_of(piece, line)
    records = list(LegacyRecordBatch(memoryview(entry)))
    return rebuild_message_set(read_entry_header(entry), [records[number] for number in kept]).data


def rebuild_batches(
    piece: Entries,
    walked: Walked,
    chosen: NDArray[np.int64],
    keep: NDArray[np.bool_],
    horizons: Horizons,
    kernel: ModuleType | None,
) -> dict[int, bytes | bytearray | memoryview]:
    """By line, the v2 batches of the blocks `chosen` with the records that `keep` wants, one of each at least.

    Other fields stay, but for the timestamps, which are counted from the delete horizon where there is one.
    """
    if not len(chosen):
        return {}
    if kernel is None:
        return _rebuild_each(piece, walked, chosen, keep, horizons)
    plan = _plan(piece, walked, chosen, horizons, kernel)
    blocks = walked.blocks[chosen]
    room = (blocks[:, END] - blocks[:, START] + blocks[:, ROWS] * _GROWTH + RECORD_BATCH_OVERHEAD).sum()
    out = np.empty(int(room), np.uint8)
    kernel.rebuild(walked.table.data, keep.view(np.uint8), plan, out)
    return {
        line: _completed(piece, line, out, fields)
        for line, fields in zip(blocks[:, ENTRY].tolist(), plan[:, kernel.HAS_HORIZON :].tolist(), strict=True)
    }


def _plan(
    piece: Entries, walked: Walked, chosen: NDArray[np.int64], horizons: Horizons, kernel: ModuleType
) -> NDArray[np.int64]:
    blocks = walked.blocks
    headers = piece.headers[blocks[chosen, ENTRY]]
    plan = np.zeros((len(chosen), kernel.WIDTH), np.int64)
    plan[:, kernel.START] = blocks[chosen, START]
    plan[:, kernel.COUNT] = blocks[chosen, ROWS]
    plan[:, kernel.FIRST_ROW] = (np.cumsum(blocks[:, ROWS]) - blocks[:, ROWS])[chosen]
    plan[:, kernel.BASE_TIMESTAMP] = headers["base_timestamp"]
    plan[:, kernel.FIXED_TIMESTAMP] = headers["attributes"] & TIMESTAMP_TYPE_FLAG != 0
    plan[:, kernel.MAX_TIMESTAMP] = headers["max_timestamp"]
    plan[:, kernel.HAS_HORIZON] = horizons[0][chosen]
    plan[:, kernel.HORIZON] = horizons[1][chosen]
    return plan


def _completed(piece: Entries, line: int, out: NDArray[np.uint8], fields: Sequence[int]) -> bytearray | memoryview:
    """The batch whose records were written into `out`, where room for the header is before them.

    `fields` are those of the kernel's plan from HAS_HORIZON on.
    """
    has_horizon, _, start, end, base_timestamp, max_timestamp, count = fields
    header = read_entry_header(piece.data, int(piece.headers["position"][line]))
    attributes = header.attributes & KEPT_ATTRIBUTES
    batch: bytearray | memoryview
    if attributes & CODEC_MASK:
        records = compress(CompressionCodec(attributes & CODEC_MASK), out[start:end].data)
        batch = bytearray(RECORD_BATCH_OVERHEAD) + records
    else:
        batch = out[start - RECORD_BATCH_OVERHEAD : end].data
    attributes |= DELETE_HORIZON_FLAG if has_horizon else 0
    write_header(batch, header, attributes, base_timestamp, max_timestamp, count)
    return batch


def _rebuild_each(
    piece: Entries, walked: Walked, chosen: NDArray[np.int64], keep: NDArray[np.bool_], horizons: Horizons
) -> dict[int, bytes | bytearray | memoryview]:
    """The same, record by record, where numba is missing."""
    first_rows = np.cumsum(walked.blocks[:, ROWS]) - walked.blocks[:, ROWS]
    rebuilt: dict[int, bytes | bytearray | memoryview] = {}
    for block in chosen.tolist():
        line, count, first = int(walked.blocks[block, ENTRY]), int(walked.blocks[block, ROWS]), int(first_rows[block])
        entry = _bytes_of(piece, line)
        header = read_entry_header(entry)
        data, position = v2_data(entry, header)
        kept = np.flatnonzero(keep[first : first + count]).tolist()
        horizon = int(horizons[1][block]) if horizons[0][block] else None
        rebuilt[line] = rebuild_batch(data, header, v2_keys(data, position, header).bounds, kept, horizon).data
    return rebuilt


def _bytes_of(piece: Entries, line: int) -> bytes:
    header = piece.headers[line]
    position = int(header["position"])
    return bytes(piece.data[position : position + int(header["size"])])
