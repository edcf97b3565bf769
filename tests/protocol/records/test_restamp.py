"""Re-stamping, independently of the other parts of an append."""

import pytest

from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, TimestampType, read_entry_header
from minibroker_protocol.records.legacy import LegacyRecordBatch, build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.records.restamp import restamp, with_stamp

RECORDS = [NewRecord(b"k", b"v", 10), NewRecord(None, b"w", 30), NewRecord(b"q", None, 20)]
CODECS_OF_V1 = [CompressionCodec.GZIP, CompressionCodec.SNAPPY, CompressionCodec.LZ4]


@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_a_v2_batch_takes_the_brokers_time_and_its_records_do_so_with_it(codec: CompressionCodec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    header = restamp(batch, read_entry_header(batch), TimestampType.LOG_APPEND_TIME, 5000)
    assert header == read_entry_header(batch)
    view = RecordBatch(memoryview(batch))
    view.check_crc()
    assert {(record.timestamp, record.timestamp_type) for record in view} == {(5000, TimestampType.LOG_APPEND_TIME)}
    assert view.header.codec is codec


@pytest.mark.parametrize("codec", CODECS_OF_V1)
def test_so_does_a_v1_wrapper_without_being_opened(codec: CompressionCodec) -> None:
    wrapper = build_message_set(RECORDS, magic=1, codec=codec)
    header = restamp(wrapper, read_entry_header(wrapper), TimestampType.LOG_APPEND_TIME, 5000)
    assert header == read_entry_header(wrapper)
    view = LegacyRecordBatch(memoryview(wrapper))
    view.check_crc()
    assert {(record.timestamp, record.timestamp_type) for record in view} == {(5000, TimestampType.LOG_APPEND_TIME)}
    assert [record.value for record in view] == [b"v", b"w", None]


def test_and_back_to_create_time_the_records_have_their_own_times_again() -> None:
    batch = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    restamp(batch, read_entry_header(batch), TimestampType.CREATE_TIME, 30)
    view = RecordBatch(memoryview(batch))
    view.check_crc()
    assert [record.timestamp for record in view] == [10, 30, 20]


def test_what_has_the_stamp_already_is_not_written() -> None:
    batch = bytes(build_batch(RECORDS))  # Writing to these bytes would raise.
    header = read_entry_header(batch)
    assert restamp(memoryview(batch), header, TimestampType.CREATE_TIME, 30) == header


def test_v0_has_no_place_for_a_stamp() -> None:
    message = bytes(build_message_set(RECORDS[:1], magic=0))
    header = read_entry_header(message)
    assert restamp(memoryview(message), header, TimestampType.LOG_APPEND_TIME, 5000) == header


def test_transaction_bits_stay_and_meaningless_ones_go() -> None:
    header = read_entry_header(
        build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    )
    new = with_stamp(header._replace(attributes=header.attributes | 0x80), TimestampType.LOG_APPEND_TIME, 1)
    assert new.is_transactional
    assert new.attributes == header.attributes | 0x08
