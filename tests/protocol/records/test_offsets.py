"""Assigning offsets, independently of the other parts of an append."""

from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import LegacyRecordBatch, build_message_set
from minibroker_protocol.records.log_validator import assign_offsets
from minibroker_protocol.records.record import NewRecord

RECORDS = [NewRecord(b"k", b"v", 10), NewRecord(None, b"w", 20), NewRecord(b"q", None, 30)]


def test_plain_messages_are_numbered_one_after_the_other() -> None:
    message_set = build_message_set(RECORDS, magic=1)
    entries = [batch.buffer for batch in iter_batches(message_set)]
    assert assign_offsets([(entry, 1) for entry in entries], 2**40) == 2**40 + 3
    assert [batch.header.base_offset for batch in iter_batches(message_set)] == [2**40, 2**40 + 1, 2**40 + 2]


def test_a_v1_wrapper_gets_its_last_offset_and_its_messages_follow_from_it() -> None:
    wrapper = build_message_set(RECORDS, magic=1, codec=CompressionCodec.LZ4)
    before = bytes(wrapper)
    assert assign_offsets([(wrapper, 3)], 100) == 103
    assert wrapper[8:] == before[8:]
    assert [record.offset for record in LegacyRecordBatch(memoryview(wrapper))] == [100, 101, 102]


def test_checksums_stay_right() -> None:
    message_set = build_message_set(RECORDS, magic=0)
    assign_offsets([(batch.buffer, 1) for batch in iter_batches(message_set)], 7)
    for batch in iter_batches(message_set):
        batch.check_crc()


def test_nothing_to_number_moves_nothing() -> None:
    assert assign_offsets([], 5) == 5
