"""Writing batches: the header fields, and values that cannot be written."""

import pytest

from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, read_header
from minibroker_protocol.records.record import NewRecord

ONE = [NewRecord(b"key", b"value", 5)]


def test_defaults_are_those_of_a_producer_without_idempotence() -> None:
    header = read_header(build_batch(ONE))
    assert header._replace(crc=0) == (0, 64, -1, 2, 0, 0, 0, 5, 5, -1, -1, -1, 1)


def test_a_delete_horizon_takes_the_base_timestamps_place_and_leaves_the_records_theirs() -> None:
    records = [NewRecord(b"key", None, timestamp) for timestamp in (50, 70, 60)]
    batch = RecordBatch(memoryview(build_batch(records, delete_horizon_ms=1000)))
    assert (batch.header.delete_horizon_ms, batch.header.base_timestamp, batch.header.max_timestamp) == (1000, 1000, 70)
    assert batch.header.attributes == 0x40
    assert [record.timestamp for record in batch] == [50, 70, 60]
    assert RecordBatch(memoryview(build_batch(records))).header.delete_horizon_ms is None


def test_the_level_reaches_the_codec() -> None:
    records = [NewRecord(None, b"the quick brown fox %d" % (index % 17), 5) for index in range(500)]
    sizes = [len(build_batch(records, codec=CompressionCodec.ZSTD, level=level)) for level in (-7, 3, 22)]
    assert sizes == sorted(set(sizes), reverse=True)
    with pytest.raises(EncodeError, match="zstd: there is no compression level 23"):
        build_batch(records, codec=CompressionCodec.ZSTD, level=23)


def test_the_result_can_be_resized_again() -> None:
    batch = build_batch(ONE)
    batch += b"more"
    assert len(batch) == 80


def test_a_batch_without_records_cannot_be_written() -> None:
    with pytest.raises(EncodeError, match="at least one"):
        build_batch([])


@pytest.mark.parametrize(
    ("field", "value"), [("base_offset", 2**63), ("producer_epoch", 2**15), ("base_sequence", 2**31)]
)
def test_a_header_value_out_of_range_is_our_fault(field: str, value: int) -> None:
    arguments: dict[str, int] = {field: value}
    with pytest.raises(EncodeError, match="header"):
        build_batch(ONE, **arguments)  # type: ignore[arg-type]  # the names are checked by the call itself


def test_a_timestamp_that_no_int64_holds_is_our_fault() -> None:
    with pytest.raises(EncodeError):
        build_batch([NewRecord(None, None, 2**63)])
    with pytest.raises(EncodeError):
        build_batch([NewRecord(None, None, 0), NewRecord(None, None, 2**63)])


def test_timestamps_further_apart_than_an_int64_still_come_back() -> None:
    batch = RecordBatch(memoryview(build_batch([NewRecord(None, None, -(2**63)), NewRecord(None, None, 2**63 - 1)])))
    assert [record.timestamp for record in batch] == [-(2**63), 2**63 - 1]


def test_a_header_key_that_is_not_text_is_our_fault() -> None:
    with pytest.raises(EncodeError, match="header key"):
        build_batch([NewRecord(None, None, 1, (("\ud800", None),))])
