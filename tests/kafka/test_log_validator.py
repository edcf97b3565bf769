"""Appends of produced records: ours against Kafka's LogValidator, for all formats, codecs and topics."""

import random
from typing import Final

import pytest

from minibroker_protocol.errors import (
    CorruptRecordError,
    DecodeError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordValidationError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from minibroker_protocol.records.header import CompressionCodec, TimestampType, stamp
from minibroker_protocol.records.log_validator import AppendPolicy, PreparedRecords, prepare
from tests.kafka.generated import FORMATS, descriptions, name_of
from tests.kafka.oracle import Append, Appended, BatchLine, Description, Oracle, Refusal
from tests.kafka.our_side import accepted, lines, written

CASES: Final = 250
NOW: Final = 1_700_000_500_000
LEADER_EPOCH: Final = 3
ERRORS: Final[dict[str, type[DecodeError]]] = {
    "InvalidRecordException": InvalidRecordError,
    "InvalidTimestampException": InvalidTimestampError,
    "UnsupportedForMessageFormatException": UnsupportedMagicError,
    "UnsupportedCompressionTypeException": UnsupportedCodecError,
    "CorruptRecordException": CorruptRecordError,
}
"""For any other of Kafka's exceptions, which its clients get as UNKNOWN_SERVER_ERROR, ours may be any of these."""


def produced(case: Description) -> Description:
    """The batch as a producer sends it: offsets from 0 on, and nothing that only a broker writes."""
    records = [record._replace(offset=record.offset - case.base_offset) for record in case.records]
    return case._replace(base_offset=0, records=records, partition_leader_epoch=-1, delete_horizon_ms=-1)


def append_of(chance: random.Random, case: Description) -> Append:
    """The batch, and a topic to append it to."""
    magic = chance.choice([2, 2, case.magic, chance.randrange(3)])
    limits = [2**63 - 1, 2**63 - 1, 600_000, 10**10]
    return Append(
        magic,
        written(produced(case)),
        codec=chance.choice([-1, -1, -1, 0, 1, 2, 3, 4]) if magic == 2 else chance.choice([-1, -1, 0, 1, 2, 3]),
        timestamp_type=int(magic > 0 and chance.random() < 0.3),
        is_compacted=chance.random() < 0.1,
        before_max_ms=chance.choice(limits),
        after_max_ms=chance.choice(limits),
        partition_leader_epoch=LEADER_EPOCH,
        base_offset=chance.choice([0, 0, 1, 1_000, 2**40]),
        now_ms=NOW,
    )


def prepared(case: Append) -> PreparedRecords:
    policy = AppendPolicy(
        magic=case.magic,
        codec=None if case.codec < 0 else CompressionCodec(case.codec),
        timestamp_type=TimestampType(case.timestamp_type),
        before_max_ms=case.before_max_ms,
        after_max_ms=case.after_max_ms,
        require_keys=case.is_compacted,
    )
    found = prepare(memoryview(bytearray(case.data)), policy, base_offset=case.base_offset, now_ms=case.now_ms)
    if case.magic == 2:  # the log does this when it appends
        stamp(found.data, case.base_offset, case.partition_leader_epoch)
    return found


def content(batches: list[BatchLine]) -> list[BatchLine]:
    """All but what differs from one library of a codec to another."""
    return [batch if not batch.codec else batch._replace(checksum=0, size_in_bytes=0) for batch in batches]


@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=map(name_of, FORMATS))
def test_the_log_gets_what_kafkas_would_get(oracle: Oracle, magic: int, codec: CompressionCodec) -> None:
    chance = random.Random(f"{magic} {codec}")
    cases = [append_of(chance, case) for case in descriptions(magic, codec, CASES, seed="validator")]
    answers = oracle.validate(cases)
    read = iter(oracle.read(answer.data for answer in answers if isinstance(answer, Appended)))
    refused = 0
    for case, theirs in zip(cases, answers, strict=True):
        if isinstance(theirs, Refusal):
            refused += 1
            assert_refused(case, theirs)
            continue
        ours = prepared(case)
        assert ours.last_offset + 1 == theirs.next_offset
        assert ours.max_timestamp == theirs.max_timestamp
        assert content(lines(ours.data)) == content(accepted(next(read)))
        if case.codec == 0 or (case.codec < 0 and codec is CompressionCodec.NONE):
            assert bytes(ours.data) == theirs.data
    assert CASES // 50 < refused < CASES * 9 // 10


def assert_refused(case: Append, theirs: Refusal) -> None:
    """Ours refuses it too, for the same reason, and blames the same records."""
    head, *blamed = theirs.text.split("\n")
    kind = ERRORS.get(head.split(":")[0], DecodeError)
    with pytest.raises(kind) as raised:
        prepared(case)
    errors = raised.value.record_errors if isinstance(raised.value, RecordValidationError) else []
    if kind is not DecodeError:
        assert [int(line.split(":")[0]) for line in blamed] == [error.batch_index for error in errors]
