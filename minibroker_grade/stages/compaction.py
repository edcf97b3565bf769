"""Stage 11: compaction."""

from typing import Final

from minibroker_grade.check import Stage
from minibroker_grade.records import (
    EARLIEST,
    LATEST,
    OFFSET,
    PRODUCE_ERROR,
    TIME,
    batches_in,
    check_end,
    fetch,
    list_offsets,
    new_records,
    records_in,
    send,
)
from minibroker_grade.subject import Subject
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord, Record

STAGE: Final = Stage("compaction", "11 Compaction", "The cleaner keeps the last record of each key, with its offset.")
_SOURCE: Final = "LogCleaner, Cleaner"
_LIMIT_S: Final = 120.0


def _create_compacted_topic(b: Subject) -> str:
    """Create a topic that is cleaned as soon as possible."""
    return b.topic(
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.001",
        segment_ms="100",
        delete_retention_ms="86400000",
        min_compaction_lag_ms="0",
    )


def _produce_record(b: Subject, topic: str, key: str, value: str | None, time: int) -> None:
    record = NewRecord(key.encode(), None if value is None else value.encode(), time)
    b.same(send(b, topic, build_batch([record])), PRODUCE_ERROR, 0)


def _produce_rounds(b: Subject, topic: str) -> None:
    """Write two rounds of values for three keys. Each batch is a segment, and the last one stays dirty."""
    for turn, key in enumerate("abcabc"):
        _produce_record(b, topic, key, f"{key}{turn}", TIME - 40000 + turn * 1000)
    _produce_record(b, topic, "d", None, TIME - 20000)
    _produce_record(b, topic, "last", "x", TIME)


def _fetch_all(b: Subject, topic: str) -> list[Record]:
    """Return all records of a topic, across segment boundaries."""
    records: list[Record] = []
    end: int = list_offsets(b, topic, LATEST).topics[0].partitions[0].offset
    offset = 0
    while offset < end:
        answer = fetch(b, topic, offset)
        batches = batches_in(answer)
        if not batches:
            break
        records += [record for record in records_in(answer) if record.offset >= offset]
        offset = max(batches[-1].header.last_offset, offset) + 1
    return records


def _wait_until_cleaned(b: Subject, topic: str) -> list[Record]:
    """Wait until the log has been cleaned, and return its records."""
    cleaned: list[Record] = b.until(
        lambda: _fetch_all(b, topic),
        lambda records: [record.offset for record in records][:3] == [3, 4, 5],
        "the offsets 3, 4 and 5 first: a cleaned log",
        lambda records: f"the offsets {[record.offset for record in records]}",
    )
    return cleaned


@STAGE.check(_SOURCE, look="Copy the last record of each key into new segments, and swap them in.", limit=_LIMIT_S)
def the_last_value_of_each_key_stays(b: Subject) -> None:
    """Of several records with the same key, only the last one is kept. The active segment is not cleaned."""
    topic = _create_compacted_topic(b)
    _produce_rounds(b, topic)
    values = {bytes(record.key or b""): record.value for record in _wait_until_cleaned(b, topic)}
    b.equal([values.get(key) for key in (b"a", b"b", b"c")], [b"a3", b"b4", b"c5"], "the values of a, b and c")


@STAGE.check(_SOURCE, look="Do not change offsets: compaction leaves gaps.", limit=_LIMIT_S)
def offsets_stay_as_they_were(b: Subject) -> None:
    """A record keeps its offset forever, and the start and end of the log do not move."""
    topic = _create_compacted_topic(b)
    _produce_rounds(b, topic)
    records = _wait_until_cleaned(b, topic)
    b.equal([record.offset for record in records], [3, 4, 5, 6, 7], "the offsets")
    check_end(b, topic, 8)
    b.same(list_offsets(b, topic, EARLIEST), OFFSET, 0)


@STAGE.check(_SOURCE, look="Return the next batch for an offset that no longer exists.", limit=_LIMIT_S)
def a_fetch_in_a_gap_starts_at_the_next_record(b: Subject) -> None:
    """A consumer can fetch an offset that no longer exists. The response starts at the next record, without error."""
    topic = _create_compacted_topic(b)
    _produce_rounds(b, topic)
    _wait_until_cleaned(b, topic)
    answer = fetch(b, topic, 1)
    b.same(answer, "responses[0].partitions[0].error_code", 0)
    first = [record.offset for record in records_in(answer) if record.offset >= 1][:1]
    b.equal(first, [3], "the first offset", answer, "responses[0].partitions[0].records")


@STAGE.check("KIP-534, Cleaner.shouldRetainRecord", look="Keep tombstones for delete.retention.ms.", limit=_LIMIT_S)
def tombstones_stay_for_their_time(b: Subject) -> None:
    """A record without a value deletes its key. It is kept for delete.retention.ms so that consumers can read it."""
    topic = _create_compacted_topic(b)
    _produce_rounds(b, topic)
    values = {bytes(record.key or b""): record.value for record in _wait_until_cleaned(b, topic)}
    b.holds(b"d" in values and values[b"d"] is None, "the tombstone of d", actual=f"the keys {sorted(values)}")


@STAGE.check(
    "DefaultRecordBatch, MemoryRecords.filterTo", look="Compute the checksums of rewritten batches.", limit=_LIMIT_S
)
def cleaned_batches_have_fitting_checksums(b: Subject) -> None:
    """Batches that lost records are rewritten with valid checksums."""
    topic = _create_compacted_topic(b)
    send(b, topic, build_batch(new_records("one", key="a") + new_records("two", key="b")))
    _produce_record(b, topic, "a", "three", TIME + 5000)
    _produce_record(b, topic, "last", "x", TIME + 10000)
    answer = b.until(
        lambda: fetch(b, topic),
        lambda answer: [record.offset for record in records_in(answer)][:1] == [1],
        "offset 1 first: a cleaned log",
        lambda answer: f"the offsets {[record.offset for record in records_in(answer)]}",
    )
    for batch in batches_in(answer):
        b.attempt(batch.check_crc, "a checksum that fits", answer, "responses[0].partitions[0].records")
