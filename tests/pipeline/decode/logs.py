"""Logs for the decoder's tests, with entries of every format, as brokers of all versions leave them."""

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from minibroker_pipeline.decode import BATCH_COLUMNS, RECORD_COLUMNS, DecodeReport, DecodeRequest, Engine, decode
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import (
    CRC_AT,
    HEADER,
    RECORD_BATCH_OVERHEAD,
    CompressionCodec,
    TimestampType,
    compute_crc,
    read_header,
)
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord

ALL_COLUMNS = (*RECORD_COLUMNS, "headers", *BATCH_COLUMNS)
ENGINES: tuple[Engine, ...] = ("numba", "numpy")

_bytes = st.none() | st.binary(max_size=40) | st.builds(bytes, st.integers(60, 300))
_header_key = st.text(max_size=5) | st.sampled_from(["", "ü", "a-key", "鍵", "\udcff", "\udce4b"])
headers = st.lists(st.tuples(_header_key, st.none() | st.binary(max_size=200)), max_size=3).map(tuple)
timestamps = st.sampled_from([0, 1, 63, 64, 1_700_000_000_000, -1]) | st.integers(0, 2**40)
odd_timestamps = timestamps | st.integers(-(2**63), 2**63 - 1)


def records(*, with_headers: bool = True, most: int = 12, odd: bool = False) -> st.SearchStrategy[list[NewRecord]]:
    times = odd_timestamps if odd else timestamps
    record = st.builds(NewRecord, _bytes, _bytes, times, headers if with_headers else st.just(()))
    return st.lists(record, min_size=1, max_size=most)


def stamped(batch: bytearray, **changes: int) -> bytes:
    """Return the batch with changed header fields and a matching checksum."""
    header = read_header(batch)._replace(**changes)
    HEADER.pack_into(batch, 0, *header)
    batch[CRC_AT : CRC_AT + 4] = compute_crc(memoryview(batch)).to_bytes(4, "big")
    return bytes(batch)


def emptied(base_offset: int, last_offset_delta: int, **changes: int) -> bytes:
    """Return the empty batch that compaction leaves to preserve sequence numbers."""
    batch = build_batch([NewRecord(None, None, 5)], base_offset=base_offset)[:RECORD_BATCH_OVERHEAD]
    length = RECORD_BATCH_OVERHEAD - 12
    return stamped(batch, record_count=0, last_offset_delta=last_offset_delta, batch_length=length, **changes)


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    """Return a transaction marker. Kind 0 aborts, and kind 1 commits."""
    control = NewRecord(bytes((0, 0, 0, kind)), bytes(6), 50)
    options: dict[str, Any] = {"is_transactional": True, "is_control": True}
    return bytes(build_batch([control], base_offset=offset, producer_id=producer_id, producer_epoch=0, **options))


@st.composite
def _v2(draw: st.DrawFn, offset: int, odd: bool) -> tuple[bytes, int]:  # noqa: FBT001 - drawn
    if draw(st.integers(0, 9)) == 0:
        delta = draw(st.integers(0, 5))
        return emptied(offset, delta, producer_id=4, producer_epoch=0, base_sequence=9), offset + delta + 1
    chosen = draw(records(odd=odd))
    kind = draw(st.sampled_from(["plain", "plain", "idempotent", "transactional", "control"]))
    producer: dict[str, Any] = {}
    if kind != "plain":
        sequence = draw(st.sampled_from([0, 5, 2**31 - 3])) if kind != "control" else -1
        producer = {"producer_id": draw(st.integers(0, 2)), "producer_epoch": 3, "base_sequence": sequence}
        producer |= {"is_transactional": kind != "idempotent", "is_control": kind == "control"}
    if kind == "control":
        chosen = [NewRecord(b"\0\0\0" + draw(st.sampled_from([b"\0", b"\1"])), b"\0" * 6, 7)]
    batch = build_batch(
        chosen,
        base_offset=offset,
        codec=draw(st.sampled_from(list(CompressionCodec)[1:])) if draw(st.booleans()) else CompressionCodec.NONE,
        timestamp_type=draw(st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME])),
        partition_leader_epoch=draw(st.integers(-1, 3)),
        delete_horizon_ms=draw(st.none() | st.just(1000)),
        **producer,
    )
    gap = draw(st.integers(0, 3))
    if gap:
        return stamped(batch, last_offset_delta=len(chosen) - 1 + gap), offset + len(chosen) + gap
    return bytes(batch), offset + len(chosen)


@st.composite
def _legacy(draw: st.DrawFn, offset: int) -> tuple[bytes, int]:
    chosen = draw(records(with_headers=False, most=5))
    gaps = draw(st.lists(st.integers(1, 3), min_size=len(chosen), max_size=len(chosen)))
    offsets = [offset + sum(gaps[: index + 1]) - 1 for index in range(len(chosen))]
    message_set = build_message_set(
        chosen,
        magic=draw(st.integers(0, 1)),
        base_offset=offset,
        offsets=offsets,
        codec=draw(st.sampled_from(list(CompressionCodec)[:4])),
        timestamp_type=draw(st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME])),
    )
    return bytes(message_set), offsets[-1] + 1


@st.composite
def logs(draw: st.DrawFn, *, most: int = 6, odd: bool = False) -> bytes:
    """Draw whole entries with ascending offsets."""
    offset = draw(st.sampled_from([0, 0, 17, 2**40]))
    entries: list[bytes] = []
    for is_legacy in draw(st.lists(st.sampled_from([False, False, True]), max_size=most)):
        entry, offset = draw(_legacy(offset) if is_legacy else _v2(offset, odd))
        entries.append(entry)
        offset += draw(st.integers(0, 2))
    return b"".join(entries)


def read(data: Any, engine: Engine, columns: tuple[str, ...] = ALL_COLUMNS, **options: Any) -> pa.Table:
    """Return all rows as a validated Arrow table."""
    return read_and_report(data, engine, columns, **options)[0]


def read_and_report(
    data: Any, engine: Engine, columns: tuple[str, ...] = ALL_COLUMNS, **options: Any
) -> tuple[pa.Table, DecodeReport]:
    request = DecodeRequest(topic="orders", partition=3, columns=columns, engine=engine, **options)
    report = DecodeReport()
    batches = list(decode(data, request, report))
    assert all(batch.num_rows for batch in batches)
    table = pa.Table.from_batches(batches, schema=batches[0].schema if batches else pa.schema([]))
    table.validate(full=True)
    assert report.rows == table.num_rows
    return table, report
