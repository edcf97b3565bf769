"""Records in older formats, for older consumers: ours against what Kafka makes of the same batches."""

import random

import pytest

from minibroker_protocol.errors import UnsupportedCodecError
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import CompressionCodec
from tests.kafka.generated import FORMATS, descriptions, name_of
from tests.kafka.oracle import BatchLine, Conversion, Oracle, Refusal
from tests.kafka.our_side import accepted, lines, written
from tests.protocol.records.converting import down_converted
from tests.sweeps import one_in

CASES = 250
WAYS = [(target, *source) for target in (0, 1) for source in FORMATS if source[1] is not CompressionCodec.ZSTD]


def converted(case: Conversion) -> bytes:
    return bytes(down_converted(case.data, case.magic, case.first_offset, max_bytes=1 << 30))


def content(batches: list[BatchLine]) -> list[BatchLine]:
    """All but what differs from one library of a codec to another."""
    return [batch if not batch.codec else batch._replace(checksum=0, size_in_bytes=0) for batch in batches]


@pytest.mark.parametrize(
    ("target", "magic", "codec"), one_in(4, WAYS), ids=[f"{name_of(way[1:])}-to-v{way[0]}" for way in WAYS]
)
def test_batches_are_converted_as_kafka_converts_them(
    oracle: Oracle, target: int, magic: int, codec: CompressionCodec
) -> None:
    chance = random.Random(f"{target} {magic} {codec}")
    cases: list[Conversion] = []
    for case, other in zip(
        descriptions(magic, codec, CASES, gaps=magic < 2, seed=f"to {target}"),
        descriptions(chance.randrange(3), codec, CASES, gaps=False, seed=f"to {target} too"),
        strict=True,
    ):
        behind = other._replace(
            base_offset=case.records[-1].offset + 1,
            records=[
                record._replace(offset=case.records[-1].offset + 1 + number)
                for number, record in enumerate(other.records)
            ],
        )
        offset = chance.choice(case.records).offset
        cases.append(Conversion(target, offset, written(case) + written(behind)))
    theirs = [accepted(data) for data in oracle.down_convert(cases)]
    for asked, data, read in zip(cases, theirs, oracle.read(theirs), strict=True):
        ours = converted(asked)
        if codec is CompressionCodec.NONE:
            assert ours == data
        assert content(lines(ours)) == content(accepted(read))


@pytest.mark.parametrize("target", [0, 1])
def test_zstd_cannot_be_converted(oracle: Oracle, target: int) -> None:
    data = [written(case) for case in descriptions(2, CompressionCodec.ZSTD, 50) if not case.is_control]
    for theirs in oracle.down_convert(Conversion(target, 0, each) for each in data):
        assert isinstance(theirs, Refusal)
        assert theirs.text.startswith("UnsupportedCompressionTypeException: ")
    for each in data:
        with pytest.raises(UnsupportedCodecError):
            down_converted(each, target, 0, max_bytes=1 << 30)


def test_a_limit_ends_the_conversion_at_a_whole_batch(oracle: Oracle) -> None:
    chance = random.Random("limits")
    cases = descriptions(2, CompressionCodec.GZIP, 200, seed="limits")
    ours = [
        bytes(down_converted(b"".join(map(written, chance.sample(cases, 5))), 1, 0, max_bytes=chance.randrange(3_000)))
        for _ in range(300)
    ]
    for data, theirs in zip(ours, oracle.read(ours), strict=True):
        assert sum(batch.size_in_bytes for batch in accepted(theirs)) == len(data)
        assert all(batch.is_valid for batch in accepted(theirs))
        assert len(list(iter_batches(data))) == len(accepted(theirs))
