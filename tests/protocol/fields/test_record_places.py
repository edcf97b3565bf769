"""Finding the bytes of a record, in each message format."""

from typing import Final

import pytest

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields.record_places import RecordPlace, find_record_in_batch, find_record_in_set
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import LegacyRecordBatch, build_message_set
from minibroker_protocol.records.record import NewRecord

RECORDS: Final = [NewRecord(b"key %d" % number, b"value %d" % number, 1000 + number) for number in range(6)]
LEGACY: Final = [codec for codec in CompressionCodec if codec is not CompressionCodec.ZSTD]


def found(place: RecordPlace | None) -> RecordPlace:
    assert place is not None
    return place


def bytes_of(data: bytes | bytearray, place: RecordPlace) -> bytes:
    """Return the bytes at a place, from the decompressed data if they are inside it."""
    if not place.is_inside:
        return bytes(data[place.start : place.end])
    entry = memoryview(data)[place.batch_start : place.batch_end]
    batch = LegacyRecordBatch(entry) if entry[16] < 2 else RecordBatch(entry)
    return batch.records_data()[place.start : place.end]


@pytest.mark.parametrize("codec", CompressionCodec)
def test_a_record_of_a_batch_is_found_by_its_offset(codec: CompressionCodec) -> None:
    batch = build_batch(RECORDS, base_offset=40, codec=codec)
    for number, record in enumerate(RECORDS):
        place = found(find_record_in_batch(memoryview(batch), 40 + number))
        assert (place.key, place.value, place.timestamp) == (record.key, record.value, record.timestamp)
        assert place.is_inside == (codec is not CompressionCodec.NONE)
        record_bytes = bytes_of(batch, place)
        assert record_bytes.count(b"value") == 1
        assert (record.value or b"-") in record_bytes
    assert find_record_in_batch(memoryview(batch), 39) is None
    assert find_record_in_batch(memoryview(batch), 46) is None


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", LEGACY)
def test_a_message_is_found_by_its_offset_and_by_its_number(magic: int, codec: CompressionCodec) -> None:
    data = build_message_set(RECORDS, magic=magic, base_offset=40, codec=codec)
    for number, record in enumerate(RECORDS):
        place = found(find_record_in_set(memoryview(data), number))
        assert (place.key, place.value) == (record.key, record.value)
        assert place.timestamp == (record.timestamp if magic else -1)
        assert (record.value or b"") in bytes_of(data, place)
        entry = memoryview(data)[place.batch_start :]
        same = found(find_record_in_batch(entry, 40 + number))
        assert same.value == record.value
    assert find_record_in_set(memoryview(data), len(RECORDS)) is None


def test_a_record_is_found_behind_other_batches() -> None:
    first, second = build_batch(RECORDS), build_batch(RECORDS[:2])
    data = bytes(first + second)
    place = found(find_record_in_set(memoryview(data), len(RECORDS) + 1))
    assert (place.batch_start, place.batch_end) == (len(first), len(data))
    assert b"value 1" in data[place.start : place.end]
    assert find_record_in_set(memoryview(data)[:-1], len(RECORDS) + 1) is None


def test_null_and_headers_are_told() -> None:
    batch = build_batch([NewRecord(None, None, 5, (("a", b"1"), ("b", None)))])
    place = found(find_record_in_batch(memoryview(batch), 0))
    assert (place.key, place.value, place.headers) == (None, None, (("a", b"1"), ("b", None)))


def test_damaged_batches_are_refused() -> None:
    batch = build_batch(RECORDS, codec=CompressionCodec.GZIP)
    batch[70:] = bytes(len(batch) - 70)
    with pytest.raises(DecodeError):
        find_record_in_batch(memoryview(batch), 3)


def test_batches_that_take_long_to_search_are_refused() -> None:
    batch = build_batch(RECORDS)
    batch[57:61] = (100_001).to_bytes(4, "big")
    with pytest.raises(DecodeError, match="record count: 100001, which is more than 100000"):
        find_record_in_batch(memoryview(batch), 3)
    records = [NewRecord(b"", b"", 1)] * 20_000
    wrapper = build_message_set(records, magic=1, codec=CompressionCodec.GZIP)
    with pytest.raises(DecodeError, match="the tree would be too large"):
        find_record_in_batch(memoryview(wrapper), 19_999)
