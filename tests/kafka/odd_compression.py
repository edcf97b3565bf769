"""Compressed data as other writers make it, and as faulty ones do: all forms that a codec's reader has to judge."""

import gzip
import random
import struct
import zlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import xxhash

from minibroker_protocol.records.header import CompressionCodec

_snappy: Any = import_module("snappy")
_zstandard: Any = import_module("zstandard")
_block: Any = import_module("lz4.block")
_frame: Any = import_module("lz4.frame")

Form = tuple[str, bytes]
"""The name of a form, and the data in it."""

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_STRAY: Final = (b"\0", b"stray bytes that follow", b"\x1f", b"\x1f\x8b", b"\x1f\x8b\x08" + bytes(9), b"\xff" * 20)
SKIPPABLE: Final = struct.pack("<II", 0x184D2A53, 5) + b"hello"


def forms(codec: CompressionCodec, plain: bytes, chance: random.Random, *, damaged: bool) -> Iterator[Form]:
    """Yield `plain` in all forms of a codec; with `damaged` also cut short, with flipped bits, and with bytes added."""
    makers = {
        CompressionCodec.GZIP: _gzip_forms,
        CompressionCodec.SNAPPY: _snappy_forms,
        CompressionCodec.LZ4: _lz4_forms,
        CompressionCodec.ZSTD: _zstd_forms,
    }
    named = dict(makers[codec](plain))
    yield from named.items()
    yield "stray bytes alone", b"neither this nor that codec made it"
    if not damaged:
        return
    for name, data in named.items():
        for number, cut in enumerate([0, 1, 5, 16, 17, len(data) - 1, len(data) - 4, chance.randrange(len(data) + 1)]):
            yield f"{name}, cut {number}", data[: max(cut, 0)]
        for number in range(4):
            changed = bytearray(data)
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            yield f"{name}, damaged {number}", bytes(changed)
        for number, stray in enumerate(_STRAY):
            yield f"{name}, stray {number}", data + stray


def _gzip_forms(plain: bytes) -> Iterator[Form]:
    member = gzip.compress(plain, mtime=0)
    half = len(plain) // 2
    yield "one member", member
    yield "two members", gzip.compress(plain[:half]) + gzip.compress(plain[half:])
    yield "an empty member first", gzip.compress(b"") + member
    yield "an empty member last", member + gzip.compress(b"")
    yield "a broken member last", member + b"\x1f\x8b\x08\0" + bytes(20)
    yield "no compression", gzip.compress(plain, 0)
    yield "zlib instead", zlib.compress(plain)
    deflated, tail = member[10:-8], member[-8:]
    for flags in range(256):
        if flags < 0x20 or not flags & (flags - 1):
            head = b"\x1f\x8b\x08" + bytes((flags,)) + bytes(6)
            if flags & 4:
                head += b"\3\0abc"
            if flags & 8:
                head += b"name\0"
            if flags & 16:
                head += b"comment\0"
            if flags & 2:
                yield f"flags {flags:#x}, wrong header checksum", head + b"??" + deflated + tail
                head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
            yield f"flags {flags:#x}", head + deflated + tail
    yield "another method", b"\x1f\x8b\x07" + member[3:]
    yield "wrong checksum", member[:-8] + b"1234" + member[-4:]
    yield "wrong size", member[:-4] + b"1234"


def _snappy_forms(plain: bytes) -> Iterator[Form]:
    raw = _snappy.compress(plain)

    def xerial(*blocks: bytes, version: int = 1, compatible: int = 1, magic: bytes = _XERIAL_MAGIC) -> bytes:
        sized = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
        return magic + struct.pack(">ii", version, compatible) + sized

    half = len(plain) // 2
    one, two = _snappy.compress(plain[:half]), _snappy.compress(plain[half:])
    yield "raw", raw
    yield "one block", xerial(raw)
    yield "two blocks", xerial(one, two)
    yield "joined", xerial(one) + xerial(two)
    yield "an empty block first", xerial(_snappy.compress(b""), raw)
    yield "an empty block last", xerial(raw, _snappy.compress(b""))
    yield "a block of no bytes first", xerial(b"", raw)
    yield "a block of no bytes last", xerial(raw, b"")
    yield "a negative size last", xerial(raw) + struct.pack(">i", -5)
    yield "a negative size first", xerial() + struct.pack(">i", -5) + xerial(raw)[16:]
    yield "a size too large last", xerial(raw) + struct.pack(">i", 1000) + b"abc"
    yield "no blocks", xerial()
    yield "two raw blocks", one + two
    yield "a header last", xerial(raw) + xerial()
    yield "half a header last", xerial(raw) + xerial()[:9]
    yield "another magic", xerial(raw, magic=b"\x82SNAPPZ\0")
    yield "another magic between", xerial(one) + xerial(two, magic=b"\x82SNAPPZ\0")
    for version, compatible in ((0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (2, 2), (-1, -1), (2**31 - 1, 2**31 - 1)):
        yield f"version {version}, compatible {compatible}", xerial(raw, version=version, compatible=compatible)
        joined = xerial(one) + xerial(two, version=version, compatible=compatible)
        yield f"joined with version {version}, compatible {compatible}", joined


def _lz4_forms(plain: bytes) -> Iterator[Form]:
    half = len(plain) // 2

    def packed(data: bytes) -> bytes:
        block: bytes = _block.compress(data, store_size=False)
        return struct.pack("<I", len(block)) + block

    def stored(data: bytes) -> bytes:
        return struct.pack("<I", len(data) | 1 << 31) + data

    def frame(
        *blocks: bytes,
        flags: int = 0x60,
        sizes: int = 0x70,
        more: bytes = b"",
        end: bytes = bytes(4),
        checksum: bytes | None = None,
    ) -> bytes:
        descriptor = bytes((flags, sizes)) + more
        if checksum is None:
            checksum = bytes((xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF,))
        return _LZ4_MAGIC + descriptor + checksum + b"".join(blocks) + end

    def checked(block: bytes) -> bytes:
        return block + struct.pack("<I", xxhash.xxh32_intdigest(block[4:]))

    whole = packed(plain)
    content = struct.pack("<I", xxhash.xxh32_intdigest(plain))
    size = struct.pack("<Q", len(plain))
    yield "plain", frame(whole)
    for flags in range(256):
        more = size if flags & 8 else b""
        more += b"dict" if flags & 1 else b""
        block = checked(whole) if flags & 0x10 else whole
        end = bytes(4) + (content if flags & 4 else b"")
        yield f"flags {flags:#x}", frame(block, flags=flags, more=more, end=end)
    for sizes in range(256):
        yield f"block sizes {sizes:#x}", frame(whole, sizes=sizes)
    yield "wrong header checksum", frame(whole, checksum=b"?")
    old = xxhash.xxh32_intdigest(_LZ4_MAGIC + b"\x60\x70") >> 8 & 0xFF
    yield "old header checksum", frame(whole, checksum=bytes((old,)))
    yield (
        "old header checksum with content size",
        frame(
            whole,
            flags=0x68,
            more=size,
            checksum=bytes((xxhash.xxh32_intdigest(_LZ4_MAGIC + b"\x68\x70" + size) >> 8 & 0xFF,)),
        ),
    )
    yield "wrong header checksum and a dictionary", frame(whole, flags=0x61, more=b"dict", checksum=b"?")
    yield "a dictionary where Kafka reads the checksum", frame(whole, flags=0x61, checksum=None)
    yield "wrong content checksum", frame(whole, flags=0x64, end=bytes(4) + b"oops")
    yield "half a content checksum", frame(whole, flags=0x64, end=bytes(4) + content[:2])
    yield "no content checksum", frame(whole, flags=0x64)
    yield "wrong block checksum", frame(whole + b"oops", flags=0x70)
    yield "no block checksum", frame(whole, flags=0x70)
    yield "wrong block checksum at a stored block", frame(stored(plain) + b"oops", flags=0x70)
    yield "checksums of stored blocks", frame(checked(stored(plain[:half])), checked(stored(plain[half:])), flags=0x70)
    for wrong in (0, 1, len(plain) - 1, len(plain) + 1, 2**63, 2**64 - 1):
        yield f"content size {wrong - len(plain)} off", frame(whole, flags=0x68, more=struct.pack("<Q", wrong))
    yield "stored", frame(stored(plain))
    yield "stored and packed", frame(stored(plain[:half]), packed(plain[half:]))
    yield "no end mark", frame(whole, end=b"")
    yield "no blocks", frame()
    yield "two frames", frame(packed(plain[:half])) + frame(packed(plain[half:]))
    yield "an empty frame first", frame() + frame(whole)
    yield "a second frame", frame(whole) + frame(whole)
    yield "a skippable frame first", SKIPPABLE + frame(whole)
    yield "a skippable frame last", frame(whole) + SKIPPABLE
    yield "a legacy frame", b"\x02\x21\x4c\x18" + whole
    large = plain + bytes(70_000)
    yield "a block above the limit", frame(packed(large), sizes=0x40)
    yield "a stored block above the limit", frame(stored(large), sizes=0x40)
    yield "a size above the limit", frame(struct.pack("<I", 70_000) + bytes(70_000), sizes=0x40)
    linked: bytes = _frame.compress(large, block_linked=True, block_size=_frame.BLOCKSIZE_MAX64KB)
    yield "linked blocks by the library", linked
    yield "independent blocks by the library", _frame.compress(plain, block_linked=False)


def _zstd_forms(plain: bytes) -> Iterator[Form]:
    half = len(plain) // 2

    def frame(data: bytes, level: int = 3, **options: Any) -> bytes:
        made: bytes = _zstandard.ZstdCompressor(level, **options).compress(data)
        return made

    yield "plain", frame(plain)
    yield "with a checksum", frame(plain, write_checksum=True)
    yield "without content size", frame(plain, write_content_size=False)
    yield "wrong checksum", frame(plain, write_checksum=True)[:-4] + b"oops"
    yield "two frames", frame(plain[:half]) + frame(plain[half:])
    yield (
        "two frames with checksums",
        frame(plain[:half], write_checksum=True) + frame(plain[half:], write_checksum=True),
    )
    yield "an empty frame first", frame(b"") + frame(plain)
    yield "an empty frame last", frame(plain) + frame(b"")
    yield "a skippable frame first", SKIPPABLE + frame(plain)
    yield "a skippable frame between", frame(plain[:half]) + SKIPPABLE + frame(plain[half:])
    yield "a skippable frame last", frame(plain) + SKIPPABLE
    yield "a skippable frame alone", SKIPPABLE
    for level in (-5, 1, 22):
        yield f"level {level}", frame(plain, level)
    dictionary = _zstandard.ZstdCompressionDict(plain * 4, dict_type=_zstandard.DICT_TYPE_RAWCONTENT)
    yield "a raw dictionary", frame(plain, dict_data=dictionary)
    for window in (10, 20, 27, 28, 30, 31):
        # A header of its own: a descriptor with a checksum-less frame of one raw block, and the window's size.
        raw = struct.pack("<I", len(plain) << 3 | 1)[:3] + plain
        yield f"window of 2^{window}", b"\x28\xb5\x2f\xfd\x00" + bytes(((window - 10) << 3,)) + raw
    block = struct.pack("<I", len(plain) << 3 | 1)[:3] + plain
    one = bytes((len(plain) & 0xFF,))
    for flag in (0x20, 0x28, 0x30, 0x08, 0x10, 0x18):
        yield f"descriptor {flag:#x}", b"\x28\xb5\x2f\xfd" + bytes((flag,)) + (one if flag & 0x20 else b"\x50") + block
    for size, name in ((1, "one"), (2, "two"), (3, "four")):
        identifier = b"\x07\0\0\0"[: (0, 1, 2, 4)[size]]
        yield f"a dictionary id of {name} bytes", b"\x28\xb5\x2f\xfd" + bytes((size,)) + b"\x50" + identifier + block
        none = bytes(len(identifier))
        yield (
            f"a dictionary id of {name} bytes that is 0",
            b"\x28\xb5\x2f\xfd" + bytes((size,)) + b"\x50" + none + block,
        )
    yield (
        "a block of the reserved type",
        b"\x28\xb5\x2f\xfd\x00\x50" + struct.pack("<I", len(plain) << 3 | 7)[:3] + plain,
    )
    yield "a wrong content size", b"\x28\xb5\x2f\xfd\x20" + bytes(((len(plain) + 1) & 0xFF,)) + block
    for version in (b"\x1e", b"\x22", b"\x23", b"\x24", b"\x25", b"\x26", b"\x27"):
        yield f"magic of version {version.hex()}", version + frame(plain)[1:]
