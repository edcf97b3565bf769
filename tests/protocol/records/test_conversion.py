"""Conversion to older formats for older consumers, and rewritten batches. Compared with Kafka 3.9.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.errors import InvalidRecordError, UnsupportedCodecError
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.conversion import MAX_PIECE_RECORDS, overflow_message, pack_batch, up_convert
from minibroker_protocol.records.header import CompressionCodec, read_header
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord, Record
from tests.protocol.records.converting import down_converted

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionCodec
PLENTY = 10**9
RECORDS = [NewRecord(b"k", b"v", 10, (("h", b"x"),)), NewRecord(None, b"w", 30), NewRecord(b"q", None, 20)]


def read(message_set: bytes | bytearray) -> list[Record]:
    batches = list(iter_batches(message_set))
    assert sum(len(batch.buffer) for batch in batches) == len(message_set)
    for batch in batches:
        batch.check_crc()
    return [record for batch in batches for record in batch]


def compacted(codec: CompressionCodec) -> bytearray:
    """Return a batch with offsets 100, 103 and 107, as left by the log cleaner."""
    return build_message_set(
        [record._replace(headers=()) for record in RECORDS],
        magic=1,
        base_offset=100,
        offsets=[100, 103, 107],
        codec=codec,
    )


def test_wrappers_come_whole() -> None:
    batch = build_batch(RECORDS, base_offset=50, codec=GZIP)
    assert [record.offset for record in read(down_converted(batch, 1, 52, max_bytes=PLENTY))] == [50, 51, 52]


def test_what_the_reader_understands_passes_as_it_is() -> None:
    v1, v0 = compacted(GZIP), build_message_set(RECORDS[1:], magic=0, codec=LZ4)
    assert down_converted(v0 + v1, 1, 105, max_bytes=PLENTY) == v0 + v1
    assert down_converted(v0, 0, 105, max_bytes=PLENTY) == v0


def test_transaction_markers_are_left_out() -> None:
    data = build_batch(RECORDS[:1])
    marker = build_batch(
        [NewRecord(b"\x00\x00\x00\x01", bytes(6), 5)],
        base_offset=1,
        producer_id=1,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    last = build_batch(RECORDS[1:2], base_offset=2)
    for magic in (0, 1):
        converted = down_converted(data + marker + last, magic, 0, max_bytes=PLENTY)
        assert [record.offset for record in read(converted)] == [0, 2]
        assert down_converted(marker, magic, 0, max_bytes=PLENTY) == b""


def test_zstd_cannot_be_converted_but_what_stands_before_it_can() -> None:
    before, zstd = build_batch(RECORDS), build_batch(RECORDS, base_offset=3, codec=ZSTD)
    with pytest.raises(UnsupportedCodecError, match="zstandard"):
        down_converted(zstd + before, 1, 0, max_bytes=PLENTY)
    assert [record.offset for record in read(down_converted(before + zstd, 1, 0, max_bytes=PLENTY))] == [0, 1, 2]


def test_a_batch_that_is_cut_short_ends_the_set() -> None:
    first, second = build_batch(RECORDS), build_batch(RECORDS, base_offset=3)
    assert len(read(down_converted((first + second)[:-1], 1, 0, max_bytes=PLENTY))) == 3
    assert down_converted(first[:-1], 1, 0, max_bytes=PLENTY) == b""
    assert down_converted(b"", 1, 0, max_bytes=PLENTY) == b""


def test_broken_records_are_not_passed_on() -> None:
    batch = build_batch(RECORDS)
    batch[61] += 2
    with pytest.raises(InvalidRecordError):
        down_converted(batch, 1, 0, max_bytes=PLENTY)


def test_a_timestamp_before_the_epoch_becomes_none_at_all() -> None:
    converted = down_converted(build_batch([NewRecord(b"k", b"v", -77)]), 1, 0, max_bytes=PLENTY)
    assert [record.timestamp for record in read(converted)] == [-1]


def test_an_overflow_message_is_the_head_of_one_that_is_too_large() -> None:
    for max_bytes, length in ((0, 61), (60, 61), (1000, 1001), (2**31 - 1, 2**31 - 1)):
        head = overflow_message(max_bytes)
        assert head == b"\xff" * 8 + length.to_bytes(4, "big")
        assert list(iter_batches(head)) == []


NULLABLE_BYTES = st.none() | st.binary(max_size=40)


@given(
    records=st.lists(
        st.builds(NewRecord, NULLABLE_BYTES, NULLABLE_BYTES, st.integers(-1, 2**62), st.just(())),
        min_size=1,
        max_size=30,
    ),
    codec=st.sampled_from(CompressionCodec),
)
def test_up_conversion_changes_no_record(records: list[NewRecord], codec: CompressionCodec) -> None:
    source = read(build_message_set(records, magic=1))
    plain, data = up_convert(source)
    batch, header = pack_batch(plain, compress(codec, data), codec)
    assert header == read_header(batch)
    assert header.codec is codec
    assert read(batch) == source


@pytest.mark.torture
@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_of_very_many_records_is_converted_in_pieces_from_the_asked_one_on(
    codec: CompressionCodec, magic: int
) -> None:
    count = 2 * MAX_PIECE_RECORDS + 10
    batch = build_batch([NewRecord(None, b"%d" % n, 1_000 + n) for n in range(count)], base_offset=7, codec=codec)
    for first, piece in ((0, 0), (7 + MAX_PIECE_RECORDS - 1, 0), (7 + MAX_PIECE_RECORDS, 1), (7 + count - 1, 2)):
        stored = read(down_converted(batch, magic, first, max_bytes=PLENTY))
        begin = 7 + piece * MAX_PIECE_RECORDS if codec else max(first, 7)
        assert [(record.offset, record.value) for record in stored] == [
            (offset, b"%d" % (offset - 7)) for offset in range(begin, 7 + count)
        ]
        if magic:
            assert [record.timestamp for record in stored] == [1_000 - 7 + offset for offset in range(begin, 7 + count)]


def test_a_piece_that_does_not_fit_is_left_for_the_next_fetch_but_never_the_first() -> None:
    batch = build_batch([NewRecord(None, b"", 5)] * (3 * MAX_PIECE_RECORDS), codec=CompressionCodec.GZIP)
    assert len(read(down_converted(batch, 1, 0, max_bytes=1))) == MAX_PIECE_RECORDS
    assert [record.offset for record in read(down_converted(batch, 1, MAX_PIECE_RECORDS, max_bytes=1))] == list(
        range(MAX_PIECE_RECORDS, 2 * MAX_PIECE_RECORDS)
    )
