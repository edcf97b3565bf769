"""Bytes of a log to Arrow batches: chunk by chunk, with whichever engine."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from minibroker_pipeline.decode.request import DecodeReport, DecodeRequest, Engine


def decode(
    data: bytes | bytearray | memoryview, request: DecodeRequest, report: DecodeReport | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of the whole log entries in `data`, of whatever message formats and codecs, in their order.

    Batches have the schema `schema_of(request.columns)` and at least one row each; nothing in them refers to `data`. An entry that
    is cut short at the end is left alone: `report.consumed` says where it begins. `DamagedLogError` under "failfast".
    """
    raise NotImplementedError


def coalesce(batches: Iterable[pa.RecordBatch], *, target_bytes: int = 4 * 1024 * 1024) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: small ones are joined until they have `target_bytes`."""
    raise NotImplementedError


def prepare(engine: Engine = "auto") -> Engine:
    """Load (at first, compile) what `engine` needs, and say which one it is. A driver does it before its workers."""
    raise NotImplementedError
