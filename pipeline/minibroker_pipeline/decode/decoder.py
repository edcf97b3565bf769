"""Decodes the bytes of a log into Arrow batches, chunk by chunk, with either engine."""

import gc
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from minibroker_pipeline.decode.blocks import ENTRY, IS_BAD, record_groups
from minibroker_pipeline.decode.columns import ColumnBuilder
from minibroker_pipeline.decode.headers import (
    Selection,
    as_bytes,
    fault_of,
    find_damage,
    find_positions,
    offset_at,
    read_headers,
    select_headers,
    stop_fault,
)
from minibroker_pipeline.decode.numpy_engine import RecordEngine
from minibroker_pipeline.decode.request import (
    CHUNK_BYTES,
    Damage,
    DamagedLogError,
    DecodeReport,
    DecodeRequest,
    Engine,
    engine_named,
)
from minibroker_protocol.records.varint import INT32_MAX


def decode(
    data: bytes | bytearray | memoryview, request: DecodeRequest, report: DecodeReport | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the whole log entries in `data`, in order. The entries may have any message formats and codecs.

    The batches have the schema `schema_of(request.columns)` and at least one row each. They do not refer to `data`,
    which is read while the batches are consumed. An incomplete entry at the end is ignored, and `report.consumed`
    is the position where that entry begins.

    Raises:
        DamagedLogError: an entry is damaged, in failfast mode.
        ImportError: the requested engine is not available.
    """
    report = DecodeReport() if report is None else report
    view = memoryview(data).cast("B").toreadonly()
    return _Decoding(view, request, report).batches()


def prepare(engine: Engine = "auto") -> Engine:
    """Load an engine and return its name.

    A driver calls this before its workers start, because the first load compiles the engine.

    Raises:
        ImportError: the engine is not available.
    """
    return "numpy" if load_engine(engine_named(engine)) is load_engine("numpy") else "numba"


def load_engine(engine: Engine = "auto") -> RecordEngine:
    """Load and return an engine. "auto" means the fastest engine that works on this machine.

    Raises:
        ImportError: the engine is not available.
    """
    if engine == "auto":
        try:
            return load_engine("numba")
        except ImportError:
            engine = "numpy"
    return cast("RecordEngine", import_module(f"minibroker_pipeline.decode.{engine}_engine").ENGINE)


def coalesce(batches: Iterable[pa.RecordBatch], *, target_bytes: int = CHUNK_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches.

    Small batches are joined until they have `target_bytes`. All batches must have the same schema.
    """
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        pending.append(batch)
        size += batch.nbytes
        if size >= target_bytes:
            yield from _join_batches(pending)
            pending, size = [], 0
    if pending:
        yield from _join_batches(pending)


def _join_batches(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) == 1:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


class _Decoding:
    """The state of one `decode` call."""

    def __init__(self, view: memoryview, request: DecodeRequest, report: DecodeReport) -> None:
        self._view = view
        self._request = request
        self._report = report
        self._data = as_bytes(view)
        self._engine = load_engine(request.engine)
        self._chunk_bytes = request.chunk_bytes * self._engine.chunk_factor
        self._builder = ColumnBuilder(request.columns, request.topic, request.partition, self._engine)
        self._selection = Selection(request)

    def batches(self) -> Iterator[pa.RecordBatch]:
        position, end = 0, len(self._view)
        consumed_before = self._report.consumed
        while position < end:
            positions, end_position = self._next_chunk(position)
            if len(positions):
                headers = read_headers(self._data, positions)
                position = end_position
                damaged = len(self._report.damage)
                for batch in self._decode_rows(headers):
                    self._report.consumed = consumed_before + position
                    yield batch
                # All checksums are verified before any records are decoded, so the damage is not in log order yet.
                self._report.damage[damaged:] = sorted(self._report.damage[damaged:])
            elif (next_position := self._skip_damage(position)) is None:
                break
            else:
                position = next_position
        self._report.consumed = consumed_before + position

    def _next_chunk(self, position: int) -> tuple[NDArray[np.int64], int]:
        """Return the positions of about a chunk of entries, and the position after the last one."""
        until = position + self._chunk_bytes
        positions, end_position = find_positions(self._data, position, until, self._engine.chase)
        # Leave the last entry for the next chunk, because the engines store positions within a chunk as int32.
        if end_position - position > INT32_MAX and len(positions) > 1:
            end_position = int(positions[-1])
            positions = positions[:-1]
        return positions, end_position

    def _decode_rows(self, headers: NDArray[Any]) -> Iterator[pa.RecordBatch]:
        lines = self._selection.lines(headers)
        wrong = (
            self._engine.find_wrong_crcs(self._view, select_headers(headers, lines)) if self._request.verify_crc else []
        )
        is_failfast = self._request.mode == "failfast"
        wrong_headers = headers[lines[wrong]]
        if wrong and is_failfast:
            # Decode the earlier entries first, because damage in one of them must be reported instead.
            lines = lines[: wrong[0]]
        elif wrong:
            for header in wrong_headers:
                self._refuse(header)
            lines = np.delete(lines, wrong)
        for data, blocks in record_groups(
            self._view,
            headers,
            lines,
            self._refuse,
            group_bytes=self._chunk_bytes,
            max_size=self._request.max_decompressed_size,
            # In failfast mode, the rows before a damaged entry are yielded before the error is raised.
            gives_rest=is_failfast,
        ):
            yield from self._walk(data, blocks, headers)
        if wrong and is_failfast:
            self._refuse(wrong_headers[0])

    def _walk(
        self, data: NDArray[np.uint8], blocks: NDArray[np.int64], headers: NDArray[Any]
    ) -> Iterator[pa.RecordBatch]:
        table = self._engine.walk(data, blocks, self._request.first_offset, self._request.end_offset)
        bad = np.flatnonzero(blocks[:, IS_BAD])
        for block in bad.tolist():
            self._refuse(headers[blocks[block, ENTRY]])
        self._report.batches += len(blocks) - len(bad)
        self._report.rows += table.rows
        if table.rows:
            yield self._builder.build(table, blocks, headers)

    def _refuse(self, header: Any, message: str = "") -> None:
        position, size = int(header["position"]), int(header["size"])
        message = message or fault_of(self._view, position, size, self._request)
        self._add_damage(position, int(header["base_offset"]), size, message)

    def _skip_damage(self, position: int) -> int | None:
        """Return the position where the log continues after damage, or None if the data ends within an entry.

        Raises:
            DamagedLogError: the mode is "failfast", and the data does not merely end within an entry.
        """
        if self._request.mode == "failfast":
            end, fault = len(self._view), stop_fault(self._view, position)
        else:
            end, fault = find_damage(self._view, position)
        if fault is None:
            return None
        self._add_damage(position, offset_at(self._view, position), end - position, fault)
        return end

    def _add_damage(self, position: int, offset: int | None, size: int, message: str) -> None:
        damage = Damage(self._request.position + position, offset, size, message)
        if self._request.mode == "failfast":
            raise DamagedLogError(self._request.file, damage)
        self._report.add_damage(damage)


_prepared_engines: Final[set[Engine]] = set()


def prepare_worker(engine: Engine = "auto") -> None:
    """Load the decoder and exempt all existing objects from garbage collection. Called before each task.

    Spark's worker collects garbage after every task. The objects that numba loads are permanent, but scanning them
    takes 70 ms, as long as a task that decodes 30 MB.

    Raises:
        ImportError: the engine is not available.
    """
    if engine not in _prepared_engines:
        prepare(engine)
        gc.collect()
        gc.freeze()
        _prepared_engines.add(engine)
