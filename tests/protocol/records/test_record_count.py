"""The declared record count of a compressed batch whose records are not read."""

import struct

import pytest

from minibroker_protocol.errors import InvalidRecordError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.produced_batch import MAX_MEASURED_BYTES, check_produced_batch
from minibroker_protocol.records.record import NewRecord
from tests.protocol.records.test_batch import with_crc
from tests.sweeps import one_in

CODECS = [codec for codec in CompressionCodec if codec is not CompressionCodec.NONE]
INT32_MAX = 2**31 - 1


def declaring(count: int, payload: bytes, codec: CompressionCodec) -> bytearray:
    batch = build_batch([NewRecord(None, b"", 5)], codec=codec)[:61] + payload
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, 57, count)
    return with_crc(batch)


def check(batch: bytearray) -> None:
    check_produced_batch(memoryview(batch), opened_records=100)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 100, 100_000, MAX_MEASURED_BYTES // 2])
def test_more_records_than_the_unpacked_bytes_can_hold_are_refused(codec: CompressionCodec, size: int) -> None:
    payload = compress(codec, bytes(size))
    for count in (INT32_MAX, 10_000_000):
        with pytest.raises(
            InvalidRecordError, match=f"record count: {count} in {len(payload)} bytes under {codec.name.lower()}"
        ):
            check(declaring(count, payload, codec))


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_payload_holds_no_records(codec: CompressionCodec) -> None:
    with pytest.raises(InvalidRecordError):
        check(declaring(INT32_MAX, b"", codec))


@pytest.mark.parametrize("codec", [CompressionCodec.GZIP, CompressionCodec.ZSTD])
def test_a_payload_is_measured_where_its_size_says_too_little(codec: CompressionCodec) -> None:
    payload = compress(codec, bytes(MAX_MEASURED_BYTES - 1))
    fits = (MAX_MEASURED_BYTES - 1) // 7
    check(declaring(fits, payload, codec))
    with pytest.raises(InvalidRecordError):
        check(declaring(fits + 1, payload, codec))


def test_no_batch_has_more_records_than_a_reader_would_unpack() -> None:
    payload = compress(CompressionCodec.ZSTD, bytes(200_000_000))
    check(declaring(128 * 1024 * 1024 // 7, payload, CompressionCodec.ZSTD))
    with pytest.raises(InvalidRecordError):
        check(declaring(128 * 1024 * 1024 // 7 + 1, payload, CompressionCodec.ZSTD))


@pytest.mark.parametrize("codec", one_in(4, CODECS))
def test_the_smallest_records_under_the_best_compression_pass(codec: CompressionCodec) -> None:
    check(build_batch([NewRecord(None, None, 0)] * 200_000, codec=codec))
