"""Re-stamping that writes nothing, and the attribute bits. `tests/kafka/test_log_validator.py` compares the rest."""

from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import TimestampType, read_entry_header
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.records.restamp import restamp, stamp_header

RECORDS = [NewRecord(b"k", b"v", 10), NewRecord(None, b"w", 30), NewRecord(b"q", None, 20)]


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
    new = stamp_header(header._replace(attributes=header.attributes | 0x80), TimestampType.LOG_APPEND_TIME, 1)
    assert new.is_transactional
    assert new.attributes == header.attributes | 0x08
