"""Record data as no client sends it: true batches, batches that lie with a right checksum, and bytes that are none."""

import random
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CRC_AT, RECORD_BATCH_OVERHEAD, CompressionCodec, compute_crc
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord

_FIRST_TIMESTAMP: Final = 1_700_000_000_000
_CODECS: Final = (CompressionCodec.NONE, CompressionCodec.NONE, CompressionCodec.GZIP, CompressionCodec.ZSTD)
_UINT32: Final = struct.Struct(">I")
_FIELDS: Final = (
    (8, ">i"),  # the length
    (12, ">i"),  # the leader epoch
    (16, ">b"),  # magic
    (21, ">h"),  # attributes
    (23, ">i"),  # the last offset delta
    (27, ">q"),  # the base timestamp
    (35, ">q"),  # the max timestamp
    (43, ">q"),  # the producer id
    (51, ">h"),  # the producer epoch
    (53, ">i"),  # the base sequence
    (57, ">i"),  # the count
)
_UNITS: Final = {">b": 8, ">h": 16, ">i": 32, ">q": 64}


def hostile_records(rng: random.Random, known: Callable[[str], Sequence[Any]]) -> bytes | None:
    """A records field; `known` gives values that fields of a name have had."""
    kind = rng.randrange(10)
    if kind == 0:
        return rng.choice([None, b"", b"\0", rng.randbytes(61), bytes(200)])
    if kind == 1:
        magic = rng.choice([0, 1])
        codec = rng.choice([CompressionCodec.NONE, CompressionCodec.GZIP])
        return bytes(build_message_set(_records(rng), magic=magic, codec=codec))
    ids = known("producer_id")
    producer_id = rng.choice(ids) if ids and rng.random() < 0.5 else -1
    batch = build_batch(
        _records(rng),
        codec=rng.choice(_CODECS),
        producer_id=producer_id,
        producer_epoch=rng.choice([0, 0, 1]) if producer_id >= 0 else -1,
        base_sequence=rng.choice([0, 0, 1, 2**31 - 1]) if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0 and rng.random() < 0.5,
    )
    if kind < 5:
        return bytes(batch)
    if kind < 8:
        _lie(rng, batch)
    else:
        _spoil(rng, batch)
    return bytes(batch) * rng.choice([1, 1, 1, 2])


def _records(rng: random.Random) -> list[NewRecord]:
    time_ms = rng.choice([_FIRST_TIMESTAMP, 0, 1, _FIRST_TIMESTAMP * 2])
    count = rng.choice([1, 1, 2, 5, 50, 500])
    size = rng.choice([0, 1, 10, 100, 3_000]) if count < 50 else 10
    return [
        NewRecord(
            rng.choice([None, b"", b"key", rng.randbytes(3)]),
            rng.choice([None, b"", bytes(size)]),
            timestamp=time_ms + number,
        )
        for number in range(count)
    ]


def _lie(rng: random.Random, batch: bytearray) -> None:
    """Another value in one or two fields of the header, under a right checksum."""
    for _ in range(rng.choice([1, 1, 2])):
        position, layout = rng.choice(_FIELDS)
        most = 2 ** (_UNITS[layout] - 1) - 1
        struct.pack_into(layout, batch, position, rng.choice([0, 1, 2, -1, -2, most, -most - 1, rng.randint(0, most)]))
    _UINT32.pack_into(batch, CRC_AT, compute_crc(memoryview(batch)))


def _spoil(rng: random.Random, batch: bytearray) -> None:
    """Other bytes where the records are, under a right checksum; now and then a wrong one."""
    for _ in range(rng.choice([1, 2, 8])):
        if len(batch) > RECORD_BATCH_OVERHEAD:
            batch[rng.randrange(RECORD_BATCH_OVERHEAD, len(batch))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    checksum = compute_crc(memoryview(batch)) if rng.random() < 0.9 else zlib.crc32(batch)
    _UINT32.pack_into(batch, CRC_AT, checksum)
