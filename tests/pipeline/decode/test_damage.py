"""Bytes that are not records cause an error with file, byte and offset, or are skipped and counted."""

import pickle
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from minibroker_pipeline.decode import Damage, DamagedLogError, Engine
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set, encode_message
from minibroker_protocol.records.record import NewRecord
from tests.pipeline.decode.logs import ENGINES, read, read_and_report, stamped

GZIP = 16 + zlib.MAX_WBITS

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def batch_at(base_offset: int, **options: Any) -> bytearray:
    """Return a batch of three records."""
    records = [NewRecord(b"key", b"value %d" % index * 4, 1000) for index in range(3)]
    return build_batch(records, base_offset=base_offset, **options)


def flipped(data: bytes | bytearray, at: int) -> bytearray:
    """Return the data with one inverted bit."""
    changed = bytearray(data)
    changed[at] ^= 0x10
    return changed


def damaged(data: bytes | bytearray, engine: Engine, **options: Any) -> DamagedLogError:
    with pytest.raises(DamagedLogError) as caught:
        read(bytes(data), engine, **options)
    return caught.value


def test_a_wrong_checksum_names_the_file_the_byte_and_the_offset(engine: Engine) -> None:
    first, second = batch_at(100), flipped(batch_at(103), 80)
    error = damaged(first + second, engine, file="orders-3/00000000000000000100.log", position=4096)
    place = f"orders-3/00000000000000000100.log: byte {4096 + len(first)}, offset 103"
    assert str(error).startswith(f"{place}: crc: stored ")
    assert error.damage[:3] == (4096 + len(first), 103, len(second))


def test_the_error_survives_the_way_from_a_worker(engine: Engine) -> None:
    error = damaged(flipped(batch_at(0), 80), engine, file="x.log")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.damage, again.file) == (str(error), error.damage, "x.log")


def test_under_permissive_a_damaged_batch_is_passed_over_and_counted(engine: Engine) -> None:
    data = batch_at(0) + flipped(batch_at(3), 80) + batch_at(6)
    table, report = read_and_report(bytes(data), engine, mode="permissive", position=10)
    assert table["offset"].to_pylist() == [0, 1, 2, 6, 7, 8]
    assert (report.damaged_batches, report.damaged_bytes, report.batches) == (1, len(batch_at(3)), 2)
    assert report.consumed == len(data)
    (damage,) = report.damage
    assert damage == Damage(10 + len(batch_at(0)), 3, len(batch_at(3)), damage.message)
    assert damage.message.startswith("crc: stored ")


def test_without_checksums_only_what_cannot_be_read_is_damage(engine: Engine) -> None:
    data = flipped(batch_at(0), -3)
    assert read(bytes(data), engine, verify_crc=False).num_rows == 3
    assert damaged(data, engine).damage.position == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda batch: stamped(batch, record_count=4), "record 3: "),
        (lambda batch: stamped(batch, record_count=2), "record count: 2, but "),
        (lambda batch: stamped(batch, record_count=-5), "record count: -5"),
        (lambda batch: stamped(batch, record_count=2**31 - 1), "record 3: "),
        (lambda batch: stamped(batch, attributes=4), "zstd: "),
        (lambda batch: stamped(batch, attributes=3), "lz4: "),
        (lambda batch: stamped(batch, attributes=7), "attributes: unknown compression codec 7"),
        (lambda batch: stamped(batch[:61] + b"\x02" + batch[62:]), "record 0: "),
        (lambda batch: stamped(batch[:61] + b"\x80" * 9 + batch[70:]), "record 0: "),
        (lambda batch: stamped(batch[:62] + b"\x00" + b"\x80" * 12 + batch[75:]), "record 0: "),
        (lambda batch: stamped(batch[:65] + b"\x7e" + batch[66:]), "record 0: "),
    ],
)
def test_records_that_belie_a_right_checksum_are_damage(
    engine: Engine, change: Callable[[bytearray], bytes], message: str
) -> None:
    good_batch = bytes(batch_at(0))
    data = good_batch + bytes(change(batch_at(3))) + bytes(batch_at(6))
    error = damaged(data, engine, file="a.log")
    assert str(error).startswith(f"a.log: byte {len(good_batch)}, offset 3: {message}")
    table, report = read_and_report(data, engine, mode="permissive")
    assert table["offset"].to_pylist() == [0, 1, 2, 6, 7, 8]
    assert report.damaged_batches == 1


def test_a_compressed_batch_that_cannot_be_decompressed_is_damage(engine: Engine) -> None:
    bad = stamped(flipped(batch_at(3, codec=CompressionCodec.GZIP), -6))
    data = batch_at(0, codec=CompressionCodec.LZ4) + bad + batch_at(6, codec=CompressionCodec.ZSTD)
    assert "offset 3: gzip: " in str(damaged(data, engine))
    table, report = read_and_report(bytes(data), engine, mode="permissive", chunk_bytes=1)
    assert table["offset"].to_pylist() == [0, 1, 2, 6, 7, 8]
    assert report.damaged_batches == 1


def test_a_batch_that_would_decompress_beyond_the_limit_is_damage(engine: Engine) -> None:
    data = build_batch([NewRecord(None, bytes(5_000_000), 0)], codec=CompressionCodec.ZSTD)
    assert "more than 1000000 bytes when decompressed" in str(damaged(data, engine, max_decompressed_size=1_000_000))


def test_of_two_damages_the_first_is_reported(engine: Engine) -> None:
    unreadable = stamped(batch_at(3), record_count=2)
    data = batch_at(0) + unreadable + flipped(batch_at(6), 80)
    assert damaged(data, engine).damage.offset == 3


@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_checked_too(engine: Engine, magic: int, codec: CompressionCodec) -> None:
    records = [NewRecord(b"key", b"value", 1000)] * 2
    good = bytes(build_message_set(records, magic=magic, base_offset=5, codec=codec))
    assert ": crc: stored " in str(damaged(flipped(good, -1), engine))
    entry = encode_message(5, b"key", b"value", magic=magic)
    key_length_at = 18 if magic == 0 else 26
    lying = entry[:key_length_at] + b"\0\1\0\0" + entry[key_length_at + 4 :]
    assert "key length: 65536" in str(damaged(lying, engine, verify_crc=False))


@pytest.mark.parametrize("magic", [0, 1])
def test_wrappers_that_hold_nonsense_are_damage(engine: Engine, magic: int) -> None:
    inner = bytes(build_message_set([NewRecord(b"key", b"value", 1)] * 2, magic=magic))
    wrong_magic, compressed = inner[:16] + bytes((1 - magic,)) + inner[17:], inner[:17] + b"\1" + inner[18:]
    for message_set in (inner[:20], b"", wrong_magic, compressed):
        value = zlib.compress(message_set, wbits=GZIP)
        wrapper = encode_message(9, None, value, magic=magic, attributes=CompressionCodec.GZIP)
        assert damaged(wrapper, engine).damage.offset == 9
    cut = zlib.compress(inner[:-3], wbits=GZIP)
    wrapper = encode_message(9, None, cut, magic=magic, attributes=CompressionCodec.GZIP)
    assert read(wrapper, engine).num_rows == 1


def test_an_impossible_length_ends_a_failfast_reading_and_a_permissive_one_goes_on_behind(engine: Engine) -> None:
    bad = batch_at(3)
    bad[8:12] = b"\0\0\0\5"
    data = bytes(batch_at(0) + bad + batch_at(6) + batch_at(9))
    error = damaged(data, engine)
    assert error.damage == Damage(len(batch_at(0)), 3, len(data) - len(batch_at(0)), "batch length: 5")
    table, report = read_and_report(data, engine, mode="permissive")
    assert table["offset"].to_pylist() == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    assert report.damage == [Damage(len(batch_at(0)), 3, len(bad), "batch length: 5")]


def test_a_length_that_reaches_over_later_entries_is_damage_only_where_they_are_found(engine: Engine) -> None:
    bad = batch_at(3)
    bad[8:12] = b"\0\1\0\0"
    data = bytes(batch_at(0) + bad + batch_at(6))
    table, report = read_and_report(data, engine)
    assert (table.num_rows, report.consumed) == (3, len(batch_at(0)))
    table, report = read_and_report(data, engine, mode="permissive")
    assert table["offset"].to_pylist() == [0, 1, 2, 6, 7, 8]
    assert (report.damaged_bytes, report.consumed) == (len(bad), len(data))


def test_a_tail_of_zeros_is_damage(engine: Engine) -> None:
    data = bytes(batch_at(0)) + bytes(1000)
    assert str(damaged(data, engine)).endswith(f"byte {len(batch_at(0))}, offset 0: batch length: 0")
    table, report = read_and_report(data, engine, mode="permissive")
    assert (table.num_rows, report.damaged_bytes, report.consumed) == (3, 1000, len(data))


def test_damage_behind_the_range_is_not_looked_at(engine: Engine) -> None:
    data = bytes(batch_at(0) + flipped(batch_at(3), 80))
    assert read(data, engine, end_offset=3).num_rows == 3
