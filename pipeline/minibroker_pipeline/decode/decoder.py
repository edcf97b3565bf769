"""Bytes of a log to Arrow batches: chunk by chunk, with either engine."""

import gc
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from minibroker_pipeline.decode.blocks import ENTRY, IS_BAD, RecordEngine, record_groups
from minibroker_pipeline.decode.columns import ColumnBuilder
from minibroker_pipeline.decode.headers import (
    DamageHandler,
    Selection,
    as_bytes,
    chosen,
    fault_of,
    find_positions,
    read_headers,
)
from minibroker_pipeline.decode.request import CHUNK_BYTES, DecodeReport, DecodeRequest, Engine, engine_named
from minibroker_protocol.records.varint import INT32_MAX

_MODULES: Final = {"numba": "numba_engine", "numpy": "numpy_engine"}
_loaded: Final[dict[str, RecordEngine]] = {}


def decode(
    data: bytes | bytearray | memoryview, request: DecodeRequest, report: DecodeReport | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of the whole log entries in `data`, of whatever message formats and codecs, in their order.

    Batches have the schema `schema_of(request.columns)`, at least one row each, and refer to nothing in `data`, which
    is read as the rows are taken. An entry that is cut short at the end is left alone: `report.consumed` says where it
    begins. `DamagedLogError` under "failfast". `ImportError` when an engine that was asked for is not there.
    """
    report = DecodeReport() if report is None else report
    view = memoryview(data).cast("B").toreadonly()
    return _Decoding(view, request, report).batches()


def prepare(engine: Engine = "auto") -> Engine:
    """Load (at first, compile) what `engine` needs, and say which one "auto" is. A driver does it before its workers.

    `ImportError` when it is not there.
    """
    loaded = load_engine(engine_named(engine))
    return "numba" if loaded is _loaded.get("numba") else "numpy"


def load_engine(engine: Engine = "auto") -> RecordEngine:
    """Load an engine, for "auto" the fastest that works here. Raise ImportError if it is not there."""
    if engine == "auto":
        try:
            return load_engine("numba")
        except ImportError:
            engine = "numpy"
    if engine not in _loaded:
        module = import_module(f"minibroker_pipeline.decode.{_MODULES[engine]}")
        _loaded[engine] = cast("RecordEngine", module.ENGINE)
    return _loaded[engine]


def coalesce(batches: Iterable[pa.RecordBatch], *, target_bytes: int = CHUNK_BYTES) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: small ones are joined until they have `target_bytes`. All have one schema."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= target_bytes:
            yield from _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) == 1:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


class _Decoding:
    """One call of `decode`."""

    def __init__(self, view: memoryview, request: DecodeRequest, report: DecodeReport) -> None:
        self._view = view
        self._request = request
        self._report = report
        self._data = as_bytes(view)
        self._engine = load_engine(request.engine)
        self._chunk_bytes = request.chunk_bytes * self._engine.chunks_at_once
        self._builder = ColumnBuilder(request.columns, request.topic, request.partition, self._engine)
        self._selection = Selection(request)
        self._damage = DamageHandler(view, request, report)

    def batches(self) -> Iterator[pa.RecordBatch]:
        position, end = 0, len(self._view)
        before = self._report.consumed
        while position < end:
            positions, behind = self._chunk(position)
            if len(positions):
                headers = read_headers(self._data, positions)
                position = behind
                damaged = len(self._report.damage)
                for batch in self._rows(headers):
                    self._report.consumed = before + position
                    yield batch
                self._report.damage[damaged:] = sorted(self._report.damage[damaged:])  # as found: checksums first
            else:
                found = self._damage.go_on_behind(position)
                if found is None:
                    break
                position = found
        self._report.consumed = before + position

    def _chunk(self, position: int) -> tuple[NDArray[np.int64], int]:
        """Where the next entries begin, about a chunk of them, and where they end."""
        until = position + self._chunk_bytes
        positions, behind = find_positions(self._data, position, until, self._engine.chase)
        if behind - position > INT32_MAX and len(positions) > 1:  # the engines count bytes in int32
            behind = int(positions[-1])
            positions = positions[:-1]
        return positions, behind

    def _rows(self, headers: NDArray[Any]) -> Iterator[pa.RecordBatch]:
        lines = self._selection.lines(headers)
        wrong = self._engine.wrong_crcs(self._view, chosen(headers, lines)) if self._request.verify_crc else []
        first_wrong = lines[wrong[0]] if wrong else None
        if first_wrong is not None and self._request.mode == "failfast":
            lines = lines[: wrong[0]]  # what comes before it may be damaged too, and is then what to report
        elif wrong:
            for line in lines[wrong].tolist():
                self._refuse(headers[line])
            lines = np.delete(lines, wrong)
        if len(lines):
            is_failfast = self._request.mode == "failfast"
            for data, blocks in record_groups(
                self._view,
                headers,
                lines,
                self._refuse,
                group_bytes=self._chunk_bytes,
                max_size=self._request.max_decompressed_size,
                gives_rest=is_failfast,  # what comes before a damaged entry are rows, before the error
            ):
                yield from self._walk(data, blocks, headers)
        if first_wrong is not None and self._request.mode == "failfast":
            self._refuse(headers[first_wrong])

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
        self._damage.entry(position, int(header["base_offset"]), size, message)


_settled: Final[set[Engine]] = set()


def settle(engine: Engine = "auto") -> None:
    """Load the decoder and let the garbage collector pass over all that is there now. Called before each task.

    Spark's worker collects garbage after every task. Of what numba has loaded there is none, but to look through it
    takes 70 ms, as long as a task that decodes 30 MB. `ImportError` when the engine is not there.
    """
    if engine not in _settled:
        prepare(engine)
        gc.collect()
        gc.freeze()
        _settled.add(engine)
