"""The 61 bytes of a v2 header, the header of a v0 or v1 entry, and the two fields outside the CRC."""

import os
import sys
from importlib.machinery import PathFinder

import pytest

from minibroker_protocol.errors import DecodeError, UnsupportedCodecError, UnsupportedMagicError
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import (
    HEADER,
    NO_SEQUENCE,
    RECORD_BATCH_OVERHEAD,
    UNKNOWN_RECORD_COUNT,
    BatchHeader,
    CompressionCodec,
    TimestampType,
    entry_bounds,
    increment_sequence,
    load_crc32c,
    read_entry_header,
    read_header,
    stamp,
)
from minibroker_protocol.records.legacy import encode_message
from minibroker_protocol.records.record import NewRecord
from tests.programs import run_to_success

FIELDS = BatchHeader(1, 49, 2, 2, 0xFFFFFFFF, 0, 3, 4, 5, 6, 7, 8, 9)


def test_the_header_takes_61_bytes() -> None:
    assert HEADER.size == RECORD_BATCH_OVERHEAD == 61


def test_a_header_knows_its_batchs_size_and_last_offset() -> None:
    assert FIELDS.size_in_bytes == 61
    assert FIELDS.last_offset == 4


@pytest.mark.parametrize("size", [0, 12, 60])
def test_a_header_cut_short_is_refused(size: int) -> None:
    with pytest.raises(DecodeError, match=f"{size} of 61 bytes"):
        read_header(bytes(size))
    with pytest.raises(DecodeError, match=f"{size} of 61 bytes"):
        read_header(bytes(size + 7), 7)


@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_bits_0_to_2_are_the_codec(codec: CompressionCodec) -> None:
    assert FIELDS._replace(attributes=codec.value).codec is codec
    assert FIELDS._replace(attributes=codec.value | 0x38).codec is codec


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_codecs_that_kafka_has_not_given_out_are_refused(codec_id: int) -> None:
    with pytest.raises(UnsupportedCodecError, match=str(codec_id)):
        _ = FIELDS._replace(attributes=codec_id).codec


def test_bits_3_to_5_are_timestamp_type_transactional_and_control() -> None:
    plain = FIELDS._replace(attributes=0x07)
    assert (plain.timestamp_type, plain.is_transactional, plain.is_control) == (TimestampType.CREATE_TIME, False, False)
    assert FIELDS._replace(attributes=0x08).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert FIELDS._replace(attributes=0x10).is_transactional
    assert FIELDS._replace(attributes=0x20).is_control


def test_bit_6_makes_the_base_timestamp_a_delete_horizon() -> None:
    assert FIELDS._replace(attributes=0x07, base_timestamp=77).delete_horizon_ms is None
    assert FIELDS._replace(attributes=0x40, base_timestamp=77).delete_horizon_ms == 77


def test_any_entry_header_is_that_of_the_batch_in_v2() -> None:
    batch = b"1234567" + build_batch([NewRecord(b"key", b"value", 1)], base_offset=9, producer_id=5, base_sequence=0)
    assert read_entry_header(batch, 7) == read_header(batch, 7)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_does_not_say_how_many_records_it_holds(magic: int) -> None:
    header = read_entry_header(encode_message(41, None, b"", magic=magic, attributes=CompressionCodec.SNAPPY))
    assert header.record_count == UNKNOWN_RECORD_COUNT
    assert header.codec is CompressionCodec.SNAPPY


@pytest.mark.parametrize(("magic", "known"), [(0, 0x07), (1, 0x0F)])
def test_attribute_bits_that_an_old_format_does_not_know_are_not_taken_for_those_of_v2(magic: int, known: int) -> None:
    header = read_entry_header(encode_message(41, None, b"", magic=magic, attributes=0xFF))
    assert header.attributes == known
    assert (header.is_transactional, header.is_control, header.delete_horizon_ms) == (False, False, None)


@pytest.mark.parametrize(("magic", "smallest"), [(0, 26), (1, 34), (2, 61)])
def test_an_entry_header_needs_the_smallest_entry_of_its_format(magic: int, smallest: int) -> None:
    entry = bytes(16) + bytes([magic]) + bytes(44)
    assert read_entry_header(entry[:smallest]).magic == magic
    for size in range(smallest):
        with pytest.raises(DecodeError, match=str(size)):
            read_entry_header(entry[:size])
        with pytest.raises(DecodeError, match=str(size)):
            read_entry_header(bytes(70) + entry[:size], 70)


@pytest.mark.parametrize("magic", [3, 255])
def test_an_entry_of_a_magic_above_two_is_unsupported(magic: int) -> None:
    with pytest.raises(UnsupportedMagicError, match=f"magic: {magic}"):
        read_entry_header(bytes(16) + bytes([magic]) + bytes(44))


def test_producer_ids_start_at_zero() -> None:
    assert not FIELDS._replace(producer_id=-1).has_producer_id
    assert FIELDS._replace(producer_id=0).has_producer_id


def test_sequence_numbers_wrap_to_zero_after_the_largest_int32() -> None:
    top = 2**31 - 1
    assert increment_sequence(top, 0) == top
    assert increment_sequence(top, 1) == 0
    assert increment_sequence(top - 1, 3) == 1
    assert FIELDS._replace(base_sequence=top - 1, last_offset_delta=3).last_sequence == 1
    assert FIELDS._replace(base_sequence=10, last_offset_delta=3).last_sequence == 13
    assert FIELDS._replace(base_sequence=NO_SEQUENCE, last_offset_delta=3).last_sequence == NO_SEQUENCE


def test_stamping_writes_base_offset_and_leader_epoch_and_leaves_the_crc_right() -> None:
    batch = build_batch([NewRecord(b"key", b"value", 1)])
    before = bytes(batch)
    stamp(memoryview(batch), 2**40 + 5, 77)
    header = read_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40 + 5, 77)
    assert batch[8:12] + batch[16:] == before[8:12] + before[16:]
    RecordBatch(memoryview(batch)).check_crc()


def test_the_checksum_is_the_packages_own_when_its_compiled_module_is_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def not_found(*_: object) -> None:
        return None

    imported = sys.modules.get("crc32c") or __import__("crc32c")
    monkeypatch.setattr(PathFinder, "find_spec", not_found)
    assert load_crc32c() is imported.crc32c


def test_importing_the_package_loads_no_codec_and_no_package_metadata() -> None:
    heavy = ["lz4", "snappy", "zstandard", "zlib", "importlib.metadata", "minibroker_protocol.records.codecs"]
    code = f"import sys, minibroker_protocol.records; print([name for name in {heavy} if name in sys.modules])"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = run_to_success([sys.executable, "-c", code], env=environment)
    assert done.stdout == "[]\n"


def test_the_bounds_of_entries_come_from_their_lengths_alone() -> None:
    def entry(length: int) -> bytes:
        return bytes(8) + length.to_bytes(4, "big", signed=True) + bytes(max(length, 8))

    whole = entry(20) + entry(49)
    assert list(entry_bounds(memoryview(whole))) == [(0, 32), (32, 61)]
    assert list(entry_bounds(memoryview(whole[:49]))) == [(0, 32), (32, 61)]  # The magic of the last entry is included.
    assert list(entry_bounds(memoryview(whole[:48]))) == [(0, 32)]
    assert list(entry_bounds(memoryview(entry(20) + entry(0) + whole))) == [(0, 32)]
    assert list(entry_bounds(memoryview(entry(-5)))) == []
    assert list(entry_bounds(memoryview(b""))) == []
