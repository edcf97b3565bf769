"""Produce and Fetch with message formats v0 and v1, for old clients and for topics with these formats."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.fetch import PartitionData
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import _load_module
from minibroker_protocol.records.conversion import MAX_PIECE_RECORDS
from minibroker_protocol.records.header import CompressionCodec, TimestampType, compute_crc
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord, Record, encode_record
from tests.broker.harness import Harness, batch, bytes_in, values_in

OLD_CODECS = [CompressionCodec.NONE, CompressionCodec.GZIP, CompressionCodec.SNAPPY, CompressionCodec.LZ4]
NOW = 1_700_000_000_000
SAMPLE = [NewRecord(b"k1", b"v1", NOW + 1), NewRecord(None, b"v2", NOW + 3), NewRecord(b"k3", None, NOW + 2)]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """A broker without sockets and topics."""
    broker = Harness(str(tmp_path / "data"))
    yield broker
    broker.services.close()


def records_in(data: PartitionData) -> list[Record]:
    records: list[Record] = []
    for stored_batch in iter_batches(bytes_in(data)):
        stored_batch.check_crc()
        records += stored_batch
    return records


def magics_in(data: PartitionData) -> set[int]:
    return {batch.header.magic for batch in iter_batches(bytes_in(data))}


def test_zstd_is_withheld_from_old_consumers(harness: Harness) -> None:
    harness.create()
    harness.produce(batch(b"a", codec=CompressionCodec.ZSTD))
    for version in (0, 3):
        data = harness.fetch_one(version=version)
        assert data.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert bytes_in(data) == b""


@pytest.mark.parametrize(
    ("magic", "codec"),
    [(2, CompressionCodec.ZSTD), *((magic, codec) for magic in (0, 1, 2) for codec in OLD_CODECS[1:])],
)
def test_a_codec_that_the_installation_lacks_is_unsupported(
    harness: Harness, codec: CompressionCodec, magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("t", 1, cleanup_policy="compact")
    sent = (
        build_message_set(SAMPLE[:1], magic=magic, codec=codec) if magic < 2 else build_batch(SAMPLE[:1], codec=codec)
    )
    monkeypatch.setitem(sys.modules, f"minibroker_protocol.records.codecs.{codec.name.lower()}_codec", None)
    _load_module.cache_clear()
    version = 7 if magic == 2 else magic
    assert harness.produce(sent, version=version).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    harness.create("s", 1, compression_type=codec.name.lower())
    assert harness.produce(batch(b"a"), "s").error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_conversion_can_be_forbidden(harness: Harness) -> None:
    harness.create("t", 1, message_downconversion_enable="false")
    harness.produce(batch(b"a"))
    assert harness.fetch_one(version=3).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert values_in(bytes_in(harness.fetch_one(version=4))) == [(0, b"a")]


def test_hard_limits_of_old_fetches_are_answered_with_a_message_that_is_not_whole(harness: Harness) -> None:
    harness.create()
    harness.produce(batch(b"x" * 5_000))
    for version in (0, 2):
        data = harness.fetch_one(version=version, partition_max_bytes=200)
        assert data.error_code == 0
        records = bytes_in(data)
        assert 12 <= len(records) <= 201
        assert int.from_bytes(records[8:12], "big") > len(records) - 12
        assert not records_in(data)
    assert values_in(bytes_in(harness.fetch_one(version=3, partition_max_bytes=200))) == [(0, b"x" * 5_000)]


def test_a_converted_answer_keeps_to_its_limit(harness: Harness) -> None:
    harness.create()
    for _ in range(50):
        harness.produce(batch(*[b""] * 100))  # A record takes four times the space in v1.
    size = len(bytes_in(harness.fetch_one(version=3, partition_max_bytes=2_000)))
    assert 0 < size <= 2_000 + 100 * 34


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize(("version", "magic"), [("0.9.0", 0), ("0.10.2", 1)])
def test_topics_of_old_formats_survive_restarts_and_serve_everyone(
    harness: Harness, version: str, magic: int, codec: CompressionCodec
) -> None:
    harness.create("t", 1, message_format_version=version, segment_bytes="300")
    for number in range(8):
        record = [NewRecord(b"k", b"%d" % number * 40, NOW + number), NewRecord(None, b"second", NOW + number)]
        sent = build_batch(record, codec=codec) if number % 2 else build_message_set(record, magic=1, codec=codec)
        assert harness.produce(bytes(sent), version=9 if number % 2 else 2).base_offset == 2 * number
    for _ in range(2):
        for fetch_version in (0, 2, 12):
            offset, records = 0, []
            while data := bytes_in(harness.fetch_one(offset, version=fetch_version)):
                piece = [record for stored_batch in iter_batches(data) for record in stored_batch]
                records += [record for record in piece if record.offset >= offset]
                offset = piece[-1].offset + 1
            assert [record.offset for record in records] == list(range(16))
            assert [record.value for record in records[::2]] == [b"%d" % number * 40 for number in range(8)]
        assert magics_in(harness.fetch_one(12, version=12)) == {magic}
        assert harness.fetch_one(12, version=12).high_watermark == 16
        harness.crash()
        harness.restart()


def test_idempotent_batches_cannot_be_kept_in_old_formats(harness: Harness) -> None:
    harness.create("t", 1, message_format_version="0.10.2")
    outcome = harness.produce(batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0))
    assert outcome.error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_old_message_sets_need_an_old_produce_request(harness: Harness) -> None:
    harness.create()
    outcome = harness.produce(bytes(build_message_set(SAMPLE, magic=1)), version=3)
    assert outcome.error_code == ErrorCode.INVALID_RECORD
    assert harness.fetch_one().high_watermark == 0


@pytest.mark.parametrize("version", [2, 9])
def test_the_broker_can_stamp_the_time_of_the_append(harness: Harness, version: int) -> None:
    harness.create("t", 1, message_timestamp_type="LogAppendTime")
    sent: Any = build_batch(SAMPLE) if version == 9 else bytes(build_message_set(SAMPLE, magic=1))
    outcome = harness.produce(sent, version=version)
    assert outcome.log_append_time_ms == harness.clock.now_ms()
    for fetch_version in (2, 12):
        records = records_in(harness.fetch_one(version=fetch_version))
        assert {record.timestamp for record in records} == {harness.clock.now_ms()}
        assert {record.timestamp_type for record in records} == {TimestampType.LOG_APPEND_TIME}
    assert harness.produce(batch(b"x"), topic="t").log_append_time_ms == harness.clock.now_ms()


def test_timestamps_out_of_bounds_are_refused_with_the_record_at_fault(harness: Harness) -> None:
    harness.create("t", 1, message_timestamp_difference_max_ms="1000")
    now = harness.clock.now_ms()
    records = [
        NewRecord(None, b"right", now),
        NewRecord(None, b"late", now - 1_001),
        NewRecord(None, b"y", now + 1_001),
    ]
    outcome = harness.produce(build_batch(records))
    assert outcome.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in outcome.record_errors] == [1, 2]
    assert harness.produce(build_batch(records[:1])).error_code == 0


def test_idempotent_producers_are_recognised_behind_the_validator(harness: Harness) -> None:
    harness.create("t", 1, compression_type="gzip", message_timestamp_type="LogAppendTime")
    sent = batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    first = harness.produce(bytes(sent))
    again = harness.produce(bytes(sent))
    assert (first.error_code, again.error_code) == (0, 0)
    assert (first.base_offset, again.base_offset) == (0, 0)
    assert harness.fetch_one().high_watermark == 2
    late = harness.produce(bytes(batch(b"c", producer_id=7, producer_epoch=0, base_sequence=5)))
    assert late.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_size_limit_counts_as_it_came_and_as_it_is_kept(harness: Harness) -> None:
    harness.create("t", 1, compression_type="uncompressed", max_message_bytes="1000")
    packed = build_batch([NewRecord(None, b"x" * 5_000, NOW)], codec=CompressionCodec.GZIP)
    assert len(packed) < 1_000
    assert harness.produce(packed).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert harness.produce(build_batch([NewRecord(None, b"x" * 900, NOW)])).error_code == 0


@pytest.mark.parametrize(("version", "magic"), [("0.9.0", 0), ("0.10.2", 1)])
def test_no_byte_of_an_old_message_is_taken_for_a_codec(harness: Harness, version: str, magic: int) -> None:
    harness.create("t", 1, message_format_version=version)
    for number in range(40):
        record = NewRecord(b"%c" % (97 + number % 26) * (number % 9), b"v" * number, NOW + number * 3_600_000)
        harness.produce(build_message_set([record], magic=magic), version=2)
    for fetch_version in (4, 9, 12):
        for offset in range(40):
            data = harness.fetch_one(offset, version=fetch_version)
            assert data.error_code == 0
            assert records_in(data)[-1].offset == 39


def test_a_trusted_batch_that_cannot_be_converted_costs_its_partition_only(harness: Harness) -> None:
    harness.create("t", 2)
    sent = build_batch([NewRecord(None, b"", NOW)] * 101)
    records = b"".join(encode_record(0, 0, NewRecord(None, b"", NOW)) for _ in range(101))
    sent[61:] = records
    sent[8:12] = (len(sent) - 12).to_bytes(4, "big")
    sent[17:21] = compute_crc(memoryview(sent)).to_bytes(4, "big")
    assert harness.produce(sent).error_code == 0
    harness.produce(batch(b"other"), partition=1)
    response = harness.fetch(("t", 0, 0), ("t", 1, 0), version=3)
    broken, sound = response.responses[0].partitions
    assert broken.error_code == ErrorCode.INVALID_RECORD
    assert values_in(sound.records) == [(0, b"other")]


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_few_bytes_that_promise_millions_of_records_are_refused_at_once(harness: Harness, policy: str) -> None:
    harness.create("t", 1, cleanup_policy=policy)
    many = 500_001
    if policy == "compact":
        sent = build_batch([NewRecord(b"k", b"", NOW)] * 2, codec=CompressionCodec.GZIP)
        sent[23:27] = (many - 1).to_bytes(4, "big")
        sent[57:61] = many.to_bytes(4, "big")
        sent[17:21] = compute_crc(memoryview(sent)).to_bytes(4, "big")
        outcome = harness.produce(sent)
    else:
        sent = build_message_set([NewRecord(None, b"", NOW)] * many, magic=1, codec=CompressionCodec.GZIP)
        outcome = harness.produce(sent, version=2)
    assert outcome.error_code in {ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE}
    assert harness.fetch_one().high_watermark == 0


@pytest.mark.torture
@pytest.mark.slow
def test_a_conversion_of_very_many_records_ends_early_and_goes_on_with_the_next_fetch(harness: Harness) -> None:
    harness.create("t", 1)
    sent = build_batch([NewRecord(None, b"", NOW)] * 60_000, codec=CompressionCodec.GZIP)
    for _ in range(3):
        assert harness.produce(bytes(sent)).error_code == 0
    first_records = records_in(harness.fetch_one(version=3))
    pieces = 60_000 + 3 * MAX_PIECE_RECORDS
    assert [record.offset for record in first_records] == list(range(pieces))
    next_records = records_in(harness.fetch_one(pieces, version=3))
    assert [record.offset for record in next_records] == list(range(pieces, 180_000))
