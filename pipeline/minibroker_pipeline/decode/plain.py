"""The plain engine: rows by `minibroker_protocol`, one Python object per record. Slow; the others must equal it."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from minibroker_pipeline.decode.columns import CODEC_NAMES, text_of
from minibroker_pipeline.decode.damage import DamageHandler
from minibroker_pipeline.decode.request import DecodeReport, DecodeRequest
from minibroker_pipeline.decode.schema import schema_of
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records import NO_SEQUENCE, Batch, Record, increment_sequence, iter_batches
from minibroker_protocol.records.varint import INT64_MAX, wrap_int64

_MICROSECONDS: Final = 1000
_MOST_MILLISECONDS: Final = INT64_MAX // _MICROSECONDS

_Row = tuple[Record, Batch, int]
"""A record, its batch, and the batch's base offset."""


def decode_plainly(view: memoryview, request: DecodeRequest, report: DecodeReport) -> Iterator[pa.RecordBatch]:
    """See `engine.decode`."""
    damage = DamageHandler(view, request, report)
    before = report.consumed
    rows: list[_Row] = []
    size = position = 0
    while position < len(view):
        batch = _entry_at(view, position, request)
        if batch is None:
            found = damage.go_on_behind(position)
            if found is None:
                break
            position = found
            continue
        length = batch.header.size_in_bytes
        if _is_wanted(batch, request):
            try:
                if request.verify_crc:
                    batch.check_crc()
                rows += _rows(batch, request)
                report.batches += 1
            except DecodeError as error:
                damage.entry(position, batch.header.base_offset, length, str(error))
            size += length
        position += length
        if size >= request.chunk_bytes and rows:
            report.consumed = before + position
            yield _finish(rows, request, report)
            size, rows = 0, []
    report.consumed = before + position
    if rows:
        yield _finish(rows, request, report)


def _entry_at(view: memoryview, position: int, request: DecodeRequest) -> Batch | None:
    """The entry there, None when none is."""
    try:
        return next(iter_batches(view[position:], max_decompressed_size=request.max_decompressed_size), None)
    except DecodeError:
        return None


def _is_wanted(batch: Batch, request: DecodeRequest) -> bool:
    header = batch.header
    starts_behind = header.record_count >= 0 and header.base_offset >= request.end_offset
    if wrap_int64(header.last_offset) < request.first_offset or starts_behind:
        return False
    if header.is_control:
        return request.include_control
    return not (
        request.isolation == "read_committed"
        and header.is_transactional
        and any(
            producer == header.producer_id and first <= header.base_offset <= last
            for producer, first, last in request.aborted
        )
    )


def _rows(batch: Batch, request: DecodeRequest) -> list[_Row]:
    records = [record._replace(offset=wrap_int64(record.offset)) for record in batch]
    is_wrapper = batch.header.record_count < 0
    base_offset = records[0].offset if is_wrapper else batch.header.base_offset
    return [
        (record, batch, base_offset) for record in records if request.first_offset <= record.offset < request.end_offset
    ]


def _finish(rows: list[_Row], request: DecodeRequest, report: DecodeReport) -> pa.RecordBatch:
    schema = schema_of(request.columns)
    constants = {"topic": request.topic, "partition": request.partition}
    report.rows += len(rows)
    columns: list[list[Any]] = [
        [constants[name]] * len(rows) if name in constants else [_FIELDS[name](*row) for row in rows]
        for name in request.columns
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _timestamp(record: Record, _batch: Batch, _base: int) -> int | None:
    milliseconds = record.timestamp
    return milliseconds * _MICROSECONDS if abs(milliseconds) <= _MOST_MILLISECONDS else None


def _headers(record: Record, _batch: Batch, _base: int) -> list[tuple[str, bytes | None]] | None:
    if not record.headers:
        return None
    return [(text_of(key.encode("utf-8", "surrogateescape")), value) for key, value in record.headers]


def _sequence(record: Record, batch: Batch, base: int) -> int:
    first = batch.header.base_sequence
    return NO_SEQUENCE if first < 0 else increment_sequence(first, record.offset - base)


_FIELDS: Final[dict[str, Callable[[Record, Batch, int], Any]]] = {
    "key": lambda record, _batch, _base: record.key,
    "value": lambda record, _batch, _base: record.value,
    "offset": lambda record, _batch, _base: record.offset,
    "timestamp": _timestamp,
    "timestampType": lambda record, _batch, _base: int(record.timestamp_type),
    "headers": _headers,
    "magic": lambda _record, batch, _base: batch.header.magic,
    "codec": lambda _record, batch, _base: CODEC_NAMES[batch.header.codec],
    "producerId": lambda _record, batch, _base: batch.header.producer_id,
    "producerEpoch": lambda _record, batch, _base: batch.header.producer_epoch,
    "sequence": _sequence,
    "isTransactional": lambda _record, batch, _base: batch.header.is_transactional,
    "isControl": lambda _record, batch, _base: batch.header.is_control,
    "leaderEpoch": lambda _record, batch, _base: batch.header.partition_leader_epoch,
    "batchBaseOffset": lambda _record, _batch, base: base,
    "batchSize": lambda _record, batch, _base: batch.header.size_in_bytes,
}
