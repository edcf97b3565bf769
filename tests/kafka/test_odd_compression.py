"""Compressed data in every form that a writer may choose or spoil: ours takes and refuses what Kafka's decoders do."""

import random
import struct
import zlib
from typing import Final

import pytest

from minibroker_protocol.errors import DecodeError, DecompressionError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, compute_crc
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.produced_batch import check_produced_batch
from minibroker_protocol.records.record import NewRecord
from tests.kafka.generated import FORMATS, name_of
from tests.kafka.odd_compression import forms
from tests.kafka.oracle import Append, Appended, Oracle, Refusal
from tests.kafka.our_side import accepted, lines
from tests.kafka.test_log_validator import content, prepared
from tests.sweeps import one_in

NOW: Final = 1_700_000_000_000

COMPRESSED: Final = [(magic, codec) for magic, codec in FORMATS if codec]
UNKNOWN: Final = ("KafkaException", "SnappyError", "BufferUnderflowException")
"""Exceptions of Kafka's decoders, which clients get as UNKNOWN_SERVER_ERROR."""


def records_of(magic: int, count: int) -> bytes:
    records = [NewRecord(None, b"value %d" % index, NOW + index) for index in range(count)]
    return bytes(build_batch(records)[61:] if magic == 2 else build_message_set(records, magic=magic))


def produced(magic: int, codec: CompressionCodec, data: bytes, count: int) -> bytes:
    """A batch, or a wrapper, whose compressed records are `data`."""
    if magic == 2:
        records = [NewRecord(None, b"value %d" % index, NOW + index) for index in range(count)]
        batch = build_batch(records, codec=codec)[:61] + data
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        struct.pack_into(">I", batch, 17, compute_crc(memoryview(batch)))
        return bytes(batch)
    time = struct.pack(">q", NOW) if magic else b""
    body = bytes((magic, codec)) + time + struct.pack(">ii", -1, len(data)) + data
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


@pytest.mark.parametrize(("count", "damaged"), one_in(4, [(7, False), (1, True), (7, True), (150, True)]))
@pytest.mark.parametrize(("magic", "codec"), COMPRESSED, ids=map(name_of, COMPRESSED))
def test_each_form_is_taken_or_refused_as_by_kafka(
    oracle: Oracle, magic: int, codec: CompressionCodec, count: int, *, damaged: bool
) -> None:
    chance = random.Random(f"{magic} {codec} {count}")
    cases = list(forms(codec, records_of(magic, count), chance, damaged=damaged))
    appends = [
        Append(magic, produced(magic, codec, data, count), base_offset=5, partition_leader_epoch=3, now_ms=NOW)
        for _, data in cases
    ]
    answers = oracle.validate(appends)
    read = iter(oracle.read(answer.data for answer in answers if isinstance(answer, Appended)))
    taken = 0
    for (name, _), append, theirs in zip(cases, appends, answers, strict=True):
        if isinstance(theirs, Refusal):
            if theirs.text.startswith("OutOfMemoryError"):  # a size in damaged messages that only Java believes
                continue
            with pytest.raises(DecodeError) as refused:
                prepared(append)
            if not name.partition(",")[2]:
                is_unknown = theirs.text.startswith(UNKNOWN)
                assert isinstance(refused.value, DecompressionError) == is_unknown, (name, theirs.text)
            continue
        expected = accepted(next(read))
        try:
            ours = prepared(append)
        except DecodeError:
            # Stricter on purpose: records whose own sizes are wrong, and what is cut short after a whole zstd frame.
            assert "damaged" in name or (codec is CompressionCodec.ZSTD and "cut" in name), name
            continue
        assert content(lines(ours.data)) == content(expected), name
        taken += 1
    assert taken > 3


@pytest.mark.parametrize("codec", [CompressionCodec.GZIP, CompressionCodec.LZ4, CompressionCodec.ZSTD])
def test_a_header_that_kafka_refuses_is_refused_in_a_large_batch(codec: CompressionCodec) -> None:
    """Of a batch with more records than are checked one by one, the head is looked at."""
    count = 150
    named = dict(forms(codec, records_of(2, count), random.Random(1), damaged=False))
    good = next(iter(named.values()))
    check_produced_batch(memoryview(produced(2, codec, good, count)), opened_records=100)
    bad = {
        CompressionCodec.GZIP: ["zlib instead", "another method", "flags 0x2, wrong header checksum"],
        CompressionCodec.LZ4: ["flags 0x40", "flags 0x61", "linked blocks by the library", "wrong header checksum"],
        CompressionCodec.ZSTD: ["a dictionary id of one bytes", "window of 2^28", "magic of version 27"],
    }[codec]
    for name in [*bad, "stray bytes alone"]:
        with pytest.raises(DecodeError):
            check_produced_batch(memoryview(produced(2, codec, named[name], count)), opened_records=100)
