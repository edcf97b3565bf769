"""Our message formats against Kafka's own classes, on generated batches and message sets."""

import itertools
import random

import pytest

from minibroker_protocol.errors import CorruptRecordError, UnsupportedCodecError, UnsupportedMagicError
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import CompressionCodec
from tests.kafka.generated import FORMATS, descriptions, expected_records, name_of
from tests.kafka.oracle import BatchLine, Description, Oracle, RecordLine, Refusal
from tests.kafka.our_side import accepted, has_right_crc, lines, written
from tests.sweeps import one_in

CASES = 250

every_format = pytest.mark.parametrize(("magic", "codec"), one_in(3, FORMATS), ids=map(name_of, FORMATS))


def records_in(batches: list[BatchLine] | Refusal) -> tuple[RecordLine, ...]:
    """All records of the batches, none of which Kafka may have refused."""
    assert not isinstance(batches, Refusal), batches.text
    found: list[RecordLine] = []
    for batch in batches:
        assert not isinstance(batch.records, Refusal), batch.records.text
        assert batch.is_valid
        found += batch.records
    return tuple(found)


@every_format
def test_kafka_reads_what_we_write(oracle: Oracle, magic: int, codec: CompressionCodec) -> None:
    cases = descriptions(magic, codec, CASES, gaps=magic < 2)
    ours = [written(case) for case in cases]
    for case, data, theirs in zip(cases, ours, oracle.read(ours), strict=True):
        assert records_in(theirs) == expected_records(case)
        assert theirs == lines(data)
        assert not isinstance(theirs, Refusal)
        assert {(batch.magic, batch.codec, batch.timestamp_type) for batch in theirs} == {
            (magic, codec, case.timestamp_type)
        }
        if magic == 2:
            assert [description_of(batch) for batch in theirs] == [case._replace(records=list(expected_records(case)))]


@every_format
def test_we_read_what_kafka_writes(oracle: Oracle, magic: int, codec: CompressionCodec) -> None:
    cases = descriptions(magic, codec, CASES, gaps=True)
    theirs = [accepted(data) for data in oracle.build(cases)]
    for case, data, kafkas in zip(cases, theirs, oracle.read(theirs), strict=True):
        ours = lines(data)
        assert records_in(ours) == expected_records(case)
        assert ours == kafkas


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_uncompressed_bytes_are_kafkas(oracle: Oracle, magic: int) -> None:
    cases = descriptions(magic, CompressionCodec.NONE, CASES, gaps=magic < 2, seed="bytes")
    assert [written(case) for case in cases] == oracle.build(cases)


@every_format
def test_a_changed_byte_is_found_where_kafka_finds_it(oracle: Oracle, magic: int, codec: CompressionCodec) -> None:
    chance = random.Random(f"{magic} {codec}")
    changed: list[bytes] = []
    for case in descriptions(magic, codec, 200, seed="changed"):
        wrong = bytearray(written(case))
        wrong[chance.randrange(18, len(wrong))] ^= 1 << chance.randrange(8)
        changed.append(bytes(wrong))
    found = 0
    for data, theirs in zip(changed, oracle.read(changed), strict=True):
        if isinstance(theirs, Refusal):  # the size, the magic or the codec of a later message became impossible
            with pytest.raises((CorruptRecordError, UnsupportedMagicError, UnsupportedCodecError)):
                lines(data)
            continue
        valid = [has_right_crc(batch) for batch in iter_batches(data)]
        assert valid == [batch.is_valid for batch in theirs]
        found += not all(valid)
    assert found > len(changed) // 2  # offsets and sizes of later messages lie outside the checksums


def test_a_record_set_of_all_formats_may_end_anywhere(oracle: Oracle) -> None:
    chance = random.Random("cuts")
    cases = [descriptions(magic, codec, 100, seed="cuts") for magic, codec in FORMATS]
    whole = [[written(case) for case in chance.sample(row, 2)] for row in cases for _ in range(20)]
    chance.shuffle(whole)
    cut: list[bytes] = []
    for first, second in itertools.pairwise(whole):
        joined = b"".join(first + second)
        cut.append(joined[: chance.randrange(len(joined))])
    for data, theirs in zip(cut, oracle.read(cut), strict=True):
        assert lines(data) == theirs


def description_of(batch: BatchLine) -> Description:
    """The parts that a batch of format v2 was made of."""
    assert not isinstance(batch.records, Refusal)
    return Description(
        batch.magic,
        list(batch.records),
        batch.codec,
        batch.timestamp_type,
        batch.base_offset,
        batch.max_timestamp if batch.timestamp_type else -1,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_transactional,
        batch.is_control,
        batch.partition_leader_epoch,
        batch.delete_horizon_ms,
    )
