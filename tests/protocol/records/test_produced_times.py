"""The largest timestamp in the header of a produced batch, as Kafka's log validator writes it."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.errors import InvalidRecordError
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import BatchHeader, CompressionCodec, read_header
from minibroker_protocol.records.produced_batch import MAX_AHEAD_MS, MAX_TIMED_BYTES, check_produced_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.records.record_times import TIMES_PER_STEP, largest_timestamp, read_times, records_in
from tests.protocol.records.test_batch import with_crc

NOW = 1_700_000_000_000
ALL = -1
NONE = 0


def with_max_timestamp(batch: bytearray, time: int) -> bytearray:
    struct.pack_into(">q", batch, 35, time)
    return with_crc(batch)


def batch_of(times: Sequence[int], codec: CompressionCodec = CompressionCodec.NONE) -> bytearray:
    return build_batch([NewRecord(b"k", b"v" * (n % 200), time) for n, time in enumerate(times)], codec=codec)


def checked(batch: bytearray, opened_records: int, now_ms: int | None = NOW) -> BatchHeader:
    """Return the header, after checking that it equals the one in the bytes and that the checksum is correct."""
    header = check_produced_batch(memoryview(batch), opened_records=opened_records, now_ms=now_ms)
    assert header == read_header(batch)
    RecordBatch(memoryview(batch)).check_crc()
    return header


@pytest.mark.parametrize("codec", CompressionCodec)
@pytest.mark.parametrize("opened", [ALL, NONE])
@pytest.mark.parametrize("claimed", [-1, 0, NOW - 50, NOW + MAX_AHEAD_MS + 1, 2**63 - 1, -(2**63)])
def test_an_implausible_time_is_replaced_by_the_largest_of_the_records(
    codec: CompressionCodec, opened: int, claimed: int
) -> None:
    times = [NOW - 40, NOW - 3, NOW - 30]
    batch = batch_of(times, codec)
    right = bytes(batch)
    assert checked(with_max_timestamp(batch, claimed), opened).max_timestamp == NOW - 3
    assert bytes(batch) == right


@pytest.mark.parametrize("codec", CompressionCodec)
def test_records_that_are_opened_leave_no_doubt_about_the_time(codec: CompressionCodec) -> None:
    batch = with_max_timestamp(batch_of([NOW - 40, NOW - 3], codec), NOW - 2)
    assert checked(batch, 2).max_timestamp == NOW - 3


def test_a_plausible_time_of_a_batch_that_is_not_opened_stays() -> None:
    batch = with_max_timestamp(batch_of([NOW - 40, NOW - 3]), NOW + MAX_AHEAD_MS)
    assert checked(batch, 1).max_timestamp == NOW + MAX_AHEAD_MS


def test_records_may_be_of_the_future() -> None:
    assert checked(batch_of([NOW, NOW + 10 * MAX_AHEAD_MS]), NONE).max_timestamp == NOW + 10 * MAX_AHEAD_MS


@pytest.mark.parametrize("opened", [ALL, NONE])
@pytest.mark.parametrize("times", [[-1, -1], [-7, -9], [-(2**63)]])
def test_records_without_times_leave_the_batch_without_one(opened: int, times: list[int]) -> None:
    assert checked(batch_of(times), opened).max_timestamp == -1


def test_without_the_time_of_the_broker_nothing_is_changed() -> None:
    batch = with_max_timestamp(batch_of([NOW]), -1)
    assert checked(batch, ALL, now_ms=None).max_timestamp == -1


@pytest.mark.parametrize("opened", [ALL, NONE])
def test_a_time_that_claims_to_be_the_brokers_is_left_to_the_log_validator(opened: int) -> None:
    batch = batch_of([NOW])
    batch[22] |= 0x08
    assert checked(with_max_timestamp(batch, 5), opened).max_timestamp == 5


def test_a_batch_that_grows_beyond_the_limit_keeps_its_time() -> None:
    batch = build_batch([NewRecord(None, bytes(MAX_TIMED_BYTES), NOW)], codec=CompressionCodec.ZSTD)
    assert checked(with_max_timestamp(batch, -1), NONE).max_timestamp == -1


@given(
    times=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50), codec=st.sampled_from(CompressionCodec)
)
def test_opened_records_of_any_times_give_the_largest_of_them(times: list[int], codec: CompressionCodec) -> None:
    batch = with_max_timestamp(batch_of(times, codec), -1)
    assert checked(batch, ALL).max_timestamp == max(-1, *times)


def test_times_come_in_pieces_with_the_places_of_their_records() -> None:
    count = 2 * TIMES_PER_STEP + 5
    batch = RecordBatch(memoryview(batch_of([NOW + (n * 7919) % 100_000 for n in range(count)])))
    data = batch.records_data()
    records = list(batch)
    pieces = list(read_times(data, batch.header))
    assert [len(piece.times) for piece in pieces] == [TIMES_PER_STEP, TIMES_PER_STEP, 5]
    assert [time for piece in pieces for time in piece.times] == [record.timestamp for record in records]
    assert [record for piece in pieces for record in records_in(data, batch.header, piece)] == records
    assert largest_timestamp(data, batch.header) == max(record.timestamp for record in records)


@pytest.mark.parametrize("cut", [1, 2, 3, 40])
def test_times_of_records_that_are_cut_short_are_refused(cut: int) -> None:
    batch = RecordBatch(memoryview(build_batch([NewRecord(None, bytes(30), NOW)] * 3)))
    with pytest.raises(InvalidRecordError, match="record 2"):
        list(read_times(batch.records_data()[:-cut], batch.header))


def test_a_record_of_negative_length_is_refused() -> None:
    batch = batch_of([NOW, NOW])
    batch[61] = 1
    with_max_timestamp(batch, -1)
    with pytest.raises(InvalidRecordError, match="length -1"):
        check_produced_batch(memoryview(batch), opened_records=0, now_ms=NOW)
