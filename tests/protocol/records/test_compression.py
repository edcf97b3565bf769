"""The four codecs: data of other writers, and corrupt data."""

import random
import struct
import zlib
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibroker_protocol.errors import EncodeError, InvalidRecordError
from minibroker_protocol.records.codecs import CHUNK_SIZE
from minibroker_protocol.records.codecs.lz4_codec import short_xxh32
from minibroker_protocol.records.compression import (
    COMPRESSION_LEVELS,
    DEFAULT_COMPRESSION_LEVELS,
    compress,
    compress_in_chunks,
    decompress,
    decompress_in_chunks,
    decompress_within,
)
from minibroker_protocol.records.header import CompressionCodec
from tests.protocol.hostile import at_most_allocated, count_refused, damaged
from tests.sweeps import one_in

GZIP, SNAPPY, LZ4, ZSTD = (CompressionCodec.GZIP, CompressionCodec.SNAPPY, CompressionCodec.LZ4, CompressionCodec.ZSTD)
COMPRESSING = [GZIP, SNAPPY, LZ4, ZSTD]
MEGABYTE = 1024 * 1024
TEXT = b"the quick brown fox jumps over the lazy dog. " * 5000

lz4_frame: Any = import_module("lz4.frame")
snappy: Any = import_module("snappy")
zstandard: Any = import_module("zstandard")


@given(
    data=st.binary(max_size=300) | st.builds(bytes, st.integers(0, 200_000)), codec=st.sampled_from(CompressionCodec)
)
@settings(deadline=None)
def test_data_comes_back(data: bytes, codec: CompressionCodec) -> None:
    assert decompress(codec, compress(codec, data), max_size=len(data)) == data


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_any_kind_of_buffer_is_taken(codec: CompressionCodec, kind: Callable[[bytes], Any]) -> None:
    compressed = compress(codec, kind(TEXT))
    assert type(compressed) is bytes
    plain = decompress(codec, kind(compressed), max_size=len(TEXT))
    assert type(plain) is bytes
    assert plain == TEXT


@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_the_limit_is_exact(codec: CompressionCodec) -> None:
    compressed = compress(codec, TEXT)
    assert len(decompress(codec, compressed, max_size=len(TEXT))) == len(TEXT)
    with pytest.raises(InvalidRecordError, match=str(len(TEXT) - 1)):
        decompress(codec, compressed, max_size=len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_data_cut_short_at_any_byte_is_refused(codec: CompressionCodec) -> None:
    compressed = compress(codec, TEXT[:2000] + random.Random(1).randbytes(100))
    # A xerial header alone is a stream without blocks, and so is one followed by a part of a block's size.
    headless = {0, *range(16, 20)} if codec is SNAPPY else {0}
    for size in sorted(set(range(len(compressed))) - headless):
        with pytest.raises(InvalidRecordError):
            decompress(codec, compressed[:size], max_size=MEGABYTE)
    with pytest.raises(InvalidRecordError):
        decompress(codec, b"", max_size=MEGABYTE)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_damaged_data_never_raises_a_librarys_own_error(codec: CompressionCodec) -> None:
    compressed = compress(codec, TEXT[:3000] + random.Random(2).randbytes(100))
    read = partial(decompress, codec, max_size=MEGABYTE)
    assert count_refused(read, damaged(compressed, random.Random(3), 1500), InvalidRecordError) > 500


@given(data=st.binary(min_size=1, max_size=200), codec=st.sampled_from(COMPRESSING))
@settings(deadline=None)
def test_random_bytes_never_raise_a_librarys_own_error(data: bytes, codec: CompressionCodec) -> None:
    try:
        decompress(codec, data, max_size=MEGABYTE)
    except InvalidRecordError as error:
        assert codec.name.lower() in str(error)  # noqa: PT017 - most inputs raise, a few are valid


def gzip_bomb() -> bytes:
    deflate = zlib.compressobj(wbits=31)
    return b"".join([deflate.compress(bytes(MEGABYTE)) for _ in range(64)]) + deflate.flush()


@pytest.mark.parametrize(
    ("codec", "make_bomb"),
    [
        (GZIP, gzip_bomb),
        (GZIP, lambda: compress(GZIP, bytes(MEGABYTE)) * 64),
        (SNAPPY, lambda: snappy.compress(bytes(64 * MEGABYTE))),
        *((codec, partial(compress, codec, bytes(64 * MEGABYTE))) for codec in (SNAPPY, LZ4, ZSTD)),
        (ZSTD, lambda: zstandard.ZstdCompressor(write_content_size=False).compress(bytes(64 * MEGABYTE))),
        (ZSTD, lambda: compress(ZSTD, bytes(MEGABYTE)) * 64),
    ],
)
def test_a_bomb_is_refused_within_bounded_memory(codec: CompressionCodec, make_bomb: Callable[[], bytes]) -> None:
    bomb = make_bomb()
    with at_most_allocated(8 * MEGABYTE), pytest.raises(InvalidRecordError, match=f"more than {2 * MEGABYTE} bytes"):
        decompress(codec, bomb, max_size=2 * MEGABYTE)


def test_gzip_members_are_joined_and_what_follows_them_is_ignored_as_in_java() -> None:
    two = compress(GZIP, b"one ") + compress(GZIP, b"two")
    assert decompress(GZIP, two, max_size=7) == b"one two"
    assert decompress(GZIP, two + b"\x00garbage", max_size=7) == b"one two"
    with pytest.raises(InvalidRecordError, match="more than"):
        decompress(GZIP, two, max_size=6)


def test_gzip_members_longer_than_one_read_and_empty_ones_are_joined() -> None:
    noise = random.Random(5).randbytes(200_000)
    data = compress(GZIP, noise) + compress(GZIP, b"") * 1000 + compress(GZIP, b"end")
    assert decompress(GZIP, data, max_size=200_003) == noise + b"end"
    with pytest.raises(InvalidRecordError, match="cut short"):
        decompress(GZIP, data[:-1], max_size=200_003)


def test_snappy_is_written_in_xerial_framing_with_blocks_of_32_kb() -> None:
    framed = compress(SNAPPY, bytes(32 * 1024 + 1))
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    (first,) = struct.unpack_from(">i", framed, 16)
    assert snappy.uncompress(framed[20 : 20 + first]) == bytes(32 * 1024)
    (second,) = struct.unpack_from(">i", framed, 20 + first)
    assert snappy.uncompress(framed[24 + first : 24 + first + second]) == b"\x00"
    assert 24 + first + second == len(framed)


def test_snappy_is_read_without_framing_and_from_joined_streams() -> None:
    assert decompress(SNAPPY, snappy.compress(TEXT), max_size=len(TEXT)) == TEXT
    assert decompress(SNAPPY, snappy.compress(b""), max_size=0) == b""
    assert decompress(SNAPPY, compress(SNAPPY, b"one ") + compress(SNAPPY, b"two"), max_size=7) == b"one two"
    assert decompress(SNAPPY, compress(SNAPPY, b""), max_size=0) == b""


@pytest.mark.parametrize("size", [-1, -(2**31), 1000, 2**31 - 1])
def test_a_snappy_block_with_a_lying_size_is_refused(size: int) -> None:
    framed = compress(SNAPPY, b"")
    with pytest.raises(InvalidRecordError, match="snappy"):
        decompress(SNAPPY, framed + struct.pack(">i", size) + snappy.compress(b"abc"), max_size=MEGABYTE)


def test_a_snappy_block_that_promises_more_than_it_can_hold_is_refused_before_room_is_made() -> None:
    lying = b"\xff\xff\xff\xff\x07" + b"\x00a"
    with pytest.raises(InvalidRecordError, match="7 bytes that promise 2147483647"):
        decompress(SNAPPY, lying, max_size=2**31 - 1)


def test_lz4_is_written_as_java_writes_it() -> None:
    frame = compress(LZ4, TEXT)
    # Magic; version 1, independent blocks, no checksums, no content size; blocks of 64 KB; the correct header checksum.
    assert frame[:7].hex() == "04224d18604082"
    info = lz4_frame.get_frame_info(frame)
    assert (info["block_linked"], info["block_checksum"], info["content_checksum"]) == (False, False, False)


@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("store_size", [False, True])
def test_lz4_frames_of_independent_blocks_are_read(
    *, block_checksum: bool, content_checksum: bool, store_size: bool
) -> None:
    frame = lz4_frame.compress(
        TEXT,
        block_linked=False,
        block_checksum=block_checksum,
        content_checksum=content_checksum,
        store_size=store_size,
    )
    assert decompress(LZ4, frame, max_size=len(TEXT)) == TEXT


def test_in_format_v0_the_lz4_header_checksum_covers_the_magic_number_too() -> None:
    frame, historic = compress(LZ4, TEXT), compress(LZ4, TEXT, magic=0)
    assert historic[:7].hex() == "04224d1860401a"  # as written by Kafka 3.9 for magic 0
    assert historic[7:] == frame[7:]
    assert compress(LZ4, TEXT, magic=1) == frame
    assert all(compress(codec, TEXT, magic=0) == compress(codec, TEXT) for codec in (GZIP, SNAPPY))


@pytest.mark.parametrize("store_size", [False, True])
def test_in_format_v0_any_lz4_header_checksum_is_taken_and_otherwise_only_the_right_one(*, store_size: bool) -> None:
    frame = lz4_frame.compress(TEXT, store_size=store_size, block_linked=False)
    checksum_at = 14 if store_size else 6
    for checksum in range(256):
        changed = frame[:checksum_at] + bytes([checksum]) + frame[checksum_at + 1 :]
        assert decompress(LZ4, changed, max_size=len(TEXT), magic=0) == TEXT
        if checksum == frame[checksum_at]:
            assert decompress(LZ4, changed, max_size=len(TEXT), magic=1) == TEXT
        else:
            with pytest.raises(InvalidRecordError, match="descriptor corrupted"):
                decompress(LZ4, changed, max_size=len(TEXT), magic=1)


def test_lz4_of_format_v0_cut_short_at_any_byte_or_beyond_the_limit_is_refused() -> None:
    frame = compress(LZ4, TEXT[:2000], magic=0)
    for size in range(len(frame)):
        with pytest.raises(InvalidRecordError, match="lz4"):
            decompress(LZ4, frame[:size], max_size=MEGABYTE, magic=0)
    with pytest.raises(InvalidRecordError, match="more than 1999 bytes"):
        decompress(LZ4, frame, max_size=1999, magic=0)
    assert decompress(LZ4, frame + b"garbage", max_size=2000, magic=0) == TEXT[:2000]


@given(data=st.binary(max_size=60))
def test_random_bytes_as_lz4_of_format_v0_raise_no_librarys_own_error(data: bytes) -> None:
    for start in (b"", b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18\x68\x40"):
        try:
            decompress(LZ4, start + data, max_size=100, magic=0)
        except InvalidRecordError as error:
            assert "lz4" in str(error)  # noqa: PT017 - most inputs raise, a few are valid


def test_an_lz4_frame_that_asks_for_a_dictionary_is_refused_in_format_v0() -> None:
    frame = bytearray(compress(LZ4, TEXT, magic=0))
    frame[4] |= 1
    with pytest.raises(InvalidRecordError, match="dictionaries"):
        decompress(LZ4, frame, max_size=len(TEXT), magic=0)


@pytest.mark.parametrize(
    ("data", "expected"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF), (b"abcd", 0xA3643705)]
)
def test_the_xxhash_of_few_bytes_is_the_known_one(data: bytes, expected: int) -> None:
    assert short_xxh32(data) == expected


@pytest.mark.parametrize("size", [1, 2**16, 2**20 + 7])
def test_the_xxhash_of_a_frame_descriptor_is_the_librarys(size: int) -> None:
    frame = lz4_frame.compress(bytes(size), store_size=True)
    assert short_xxh32(frame[4:14]) >> 8 & 0xFF == frame[14]


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_every_level_of_kip_390_is_written_and_read(codec: CompressionCodec) -> None:
    levels = COMPRESSION_LEVELS[codec]
    for level in (*levels[:: max(len(levels) // 20, 1)], levels[-1], DEFAULT_COMPRESSION_LEVELS[codec]):
        assert decompress(codec, compress(codec, TEXT[:5000], level=level), max_size=5000) == TEXT[:5000]
    assert compress(codec, TEXT, level=DEFAULT_COMPRESSION_LEVELS[codec]) == compress(codec, TEXT)


@pytest.mark.parametrize(("codec", "low", "high"), [(GZIP, 1, 9), (LZ4, 9, 12), (ZSTD, -50, 19)])
def test_a_higher_level_gives_fewer_bytes(codec: CompressionCodec, low: int, high: int) -> None:
    rng = random.Random(6)
    data = b" ".join(rng.choice((b"quick", b"brown", b"lazy", b"jumps", b"over")) for _ in range(5000))
    assert len(compress(codec, data, level=high)) < len(compress(codec, data, level=low))


@pytest.mark.parametrize(
    ("codec", "level"), [(GZIP, 0), (GZIP, 10), (GZIP, -2), (LZ4, 0), (LZ4, 18), (ZSTD, 23), (ZSTD, -131073)]
)
def test_a_level_that_the_codec_does_not_have_cannot_be_written(codec: CompressionCodec, level: int) -> None:
    with pytest.raises(EncodeError, match=f"{codec.name.lower()}: there is no compression level {level}"):
        compress(codec, TEXT, level=level)


def test_snappy_pays_no_heed_to_a_level() -> None:
    assert compress(SNAPPY, TEXT, level=100) == compress(SNAPPY, TEXT)


def test_what_follows_an_lz4_frame_is_ignored_as_in_java() -> None:
    assert decompress(LZ4, compress(LZ4, b"one") + b"garbage", max_size=3) == b"one"


def test_an_lz4_frame_larger_than_one_read_is_joined() -> None:
    data = random.Random(4).randbytes(1000) * 9000
    assert decompress(LZ4, compress(LZ4, data), max_size=len(data)) == data


def test_zstd_frames_are_read_with_and_without_content_size_and_checksum() -> None:
    for write_content_size in (True, False):
        for write_checksum in (True, False):
            compressor = zstandard.ZstdCompressor(write_content_size=write_content_size, write_checksum=write_checksum)
            frame = compressor.compress(TEXT)
            assert decompress(ZSTD, frame, max_size=len(TEXT)) == TEXT
            with pytest.raises(InvalidRecordError, match="cut short"):
                decompress(ZSTD, frame[:-1], max_size=len(TEXT))


def test_zstd_frames_are_joined_over_skippable_ones_and_flushed_blocks() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    flushed = stream.compress(b"one ") + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    flushed += stream.compress(b"two ") + stream.flush()
    skippable = b"\x5a\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert decompress(ZSTD, flushed + skippable + compress(ZSTD, b"three"), max_size=13) == b"one two three"
    with pytest.raises(InvalidRecordError, match="cut short"):
        decompress(ZSTD, flushed + skippable[:-1], max_size=13)


def test_a_wrong_checksum_of_zstd_is_refused() -> None:
    data = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    assert decompress(ZSTD, data, max_size=len(TEXT)) == TEXT
    data[-1] ^= 1
    with pytest.raises(InvalidRecordError, match="zstd"):
        decompress(ZSTD, data, max_size=len(TEXT))


def test_bytes_after_a_zstd_frame_that_start_no_frame_are_refused() -> None:
    with pytest.raises(InvalidRecordError, match="zstd"):
        decompress(ZSTD, compress(ZSTD, b"one") + b"garbage!", max_size=100)


def test_a_zstd_frame_that_asks_for_a_huge_window_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=30)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = stream.compress(b"a") + stream.flush()
    with pytest.raises(InvalidRecordError, match="memory"):
        decompress(ZSTD, frame, max_size=100)


LARGE = TEXT * 6 + random.Random(3).randbytes(2 * CHUNK_SIZE) + bytes(3 * CHUNK_SIZE)


@pytest.mark.parametrize("size", [0, 1, CHUNK_SIZE - 1, CHUNK_SIZE + 1, len(LARGE)])
@pytest.mark.parametrize("codec", CompressionCodec)
def test_data_of_several_steps_comes_back(codec: CompressionCodec, size: int) -> None:
    data = LARGE[-size:] if size else b""
    packed = compress(codec, data)
    pieces = list(decompress_in_chunks(codec, packed, max_size=size))
    assert b"".join(pieces) == data
    if codec is not CompressionCodec.NONE:
        assert min(len(list(compress_in_chunks(codec, data))), len(pieces)) > size // CHUNK_SIZE - 1


@pytest.mark.parametrize("codec", one_in(2, COMPRESSING))
def test_damage_to_much_data_never_raises_a_librarys_own_error(codec: CompressionCodec) -> None:
    packed = bytearray(compress(codec, LARGE))
    rng = random.Random(5)
    broken = [bytes(packed[: rng.randrange(len(packed))]) for _ in range(10)]
    broken += map(bytes, damaged(packed, rng, 30))
    assert count_refused(partial(decompress, codec, max_size=len(LARGE)), broken, InvalidRecordError) > 5
    with pytest.raises(InvalidRecordError, match=f"more than {len(LARGE) - 1} bytes"):
        decompress(codec, packed, max_size=len(LARGE) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_batches_may_be_unpacked_by_turns(codec: CompressionCodec) -> None:
    one, two = (compress(codec, LARGE[start:]) for start in (0, 5))
    first = decompress_in_chunks(codec, one, max_size=len(LARGE))
    head = next(first)
    assert decompress(codec, two, max_size=len(LARGE)) == LARGE[5:]
    second = decompress_in_chunks(codec, two, max_size=len(LARGE))
    other_head = next(second)
    assert head + b"".join(first) == LARGE
    assert other_head + b"".join(second) == LARGE[5:]


FRAME = b"\x28\xb5\x2f\xfd\x00\x58"
"""The header of a zstd frame without a content size."""
LAST_BLOCK = b"\x01\x00\x00"


@pytest.mark.parametrize(
    ("block", "plain"), [(b"\x00\x00\x00", b""), (b"\x02\x00\x00x", b""), (b"\x08\x00\x00x", b"x")]
)
def test_very_many_blocks_are_decompressed(block: bytes, plain: bytes) -> None:
    count = 20_001
    data = FRAME + block * count + LAST_BLOCK
    assert next(decompress_in_chunks(ZSTD, data, max_size=MEGABYTE)) == b""  # Others are served during the scan.
    assert decompress(ZSTD, data, max_size=MEGABYTE) == plain * count
    assert decompress_within(ZSTD, data, MEGABYTE) is None
    cut = data[:-3]
    assert decompress_within(ZSTD, cut, MEGABYTE) is None  # The scan stopped before the end.
    with pytest.raises(InvalidRecordError, match="cut short"):
        decompress(ZSTD, cut, max_size=MEGABYTE)


def test_a_batch_of_usual_blocks_is_unpacked_within_a_budget() -> None:
    packed = compress(ZSTD, random.Random(1).randbytes(MEGABYTE))
    assert decompress_within(ZSTD, packed, MEGABYTE) is not None
    with pytest.raises(InvalidRecordError, match="cut short"):
        decompress_within(ZSTD, packed[:-1], MEGABYTE)
