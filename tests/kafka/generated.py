"""Batches and message sets to compare with Kafka: the same ones in every run, with all that a format can hold."""

import random
from collections.abc import Sequence
from typing import Final

from minibroker_protocol.records.header import CompressionCodec, TimestampType
from tests.kafka.oracle import Description, Headers, RecordLine

FORMATS: Final = [(magic, codec) for magic in (0, 1, 2) for codec in CompressionCodec if codec < 4 or magic == 2]
"""Every message format with every codec that it knows."""

_NOW: Final = 1_700_000_000_000
_INT64_MAX: Final = 2**63 - 1
_WORDS: Final = [b"broker", b"partition", b"offset", b"leader epoch", "é".encode(), b"\0", b" "]
_HEADER_KEYS: Final = ["", "trace-id", "content-type", "é", "日本", "k" * 130]
_BASE_OFFSETS: Final = [0, 0, 1, 127, 2**31 - 3, 2**40 + 17, _INT64_MAX - 4_000_000]
_LARGE: Final = 200_000


def name_of(choice: tuple[int, CompressionCodec]) -> str:
    """The name of a format in a test's id."""
    return f"v{choice[0]}-{choice[1].name.lower()}"


def descriptions(
    magic: int, codec: CompressionCodec, count: int, *, gaps: bool = False, seed: object = ""
) -> list[Description]:
    """`count` batches; with `gaps` offsets are missing here and there, as after a compaction."""
    chance = random.Random(f"{magic} {codec} {gaps} {seed}")
    return [_description(chance, magic, codec, gaps=gaps) for _ in range(count)]


def expected_records(case: Description) -> tuple[RecordLine, ...]:
    """The records as a reader has to see them."""
    if not case.magic:
        return tuple(record._replace(timestamp=-1) for record in case.records)
    if case.timestamp_type == TimestampType.LOG_APPEND_TIME:
        return tuple(record._replace(timestamp=case.log_append_time) for record in case.records)
    return tuple(case.records)


def _description(chance: random.Random, magic: int, codec: CompressionCodec, *, gaps: bool) -> Description:
    base_offset = chance.choice(_BASE_OFFSETS)
    control = magic == 2 and chance.random() < 0.05
    records = _control_records(chance, base_offset) if control else _records(chance, magic, base_offset, gaps=gaps)
    append_time = magic > 0 and chance.random() < 0.3
    case = Description(
        magic,
        records,
        codec,
        base_offset=base_offset,
        timestamp_type=-1 if not magic else int(append_time),
        log_append_time=max(record.timestamp for record in records) if append_time else -1,
    )
    if magic < 2:
        return case
    if control or chance.random() < 0.5:
        case = case._replace(
            producer_id=chance.choice([0, 7, 2**40]),
            producer_epoch=chance.choice([0, 1, 2**15 - 1]),
            base_sequence=-1 if control else chance.choice([0, 5, 2**31 - 1, 2**31 - 4]),
            is_transactional=control or chance.random() < 0.3,
            is_control=control,
        )
    horizon = _NOW + chance.randrange(10**6) if chance.random() < 0.1 else -1
    return case._replace(partition_leader_epoch=chance.choice([-1, 0, 3, 2**31 - 1]), delete_horizon_ms=horizon)


def _records(chance: random.Random, magic: int, base_offset: int, *, gaps: bool) -> Sequence[RecordLine]:
    count = chance.choice([1, 1, 2, 3, 3, 5, 8, 13]) if chance.random() < 0.98 else 200
    offset, timestamp = base_offset - 1, _timestamp(chance)
    records: list[RecordLine] = []
    for _ in range(count):
        offset += 1
        if gaps and chance.random() < 0.2:
            offset += chance.choice([1, 2, 63, 64, 10_000])
        later = max(timestamp, 0) + chance.choice([0, 1, 50, 5_000])
        timestamp = later if chance.random() < 0.7 else _timestamp(chance)
        key = _content(chance, 30) if chance.random() < 0.7 else None
        value = _content(chance, 300) if chance.random() < 0.85 else None
        headers = _headers(chance) if magic == 2 and chance.random() < 0.4 else ()
        records.append(RecordLine(offset, timestamp, key, value, headers))
    if chance.random() < 0.01:
        records[0] = records[0]._replace(value=_content(chance, 1) * 7 + chance.randbytes(chance.randrange(_LARGE)))
    return records


def _control_records(chance: random.Random, base_offset: int) -> Sequence[RecordLine]:
    """The marker at the end of a transaction: an abort or a commit, and the epoch of the coordinator."""
    key = bytes([0, 0, 0, chance.randrange(2)])
    return [RecordLine(base_offset, _timestamp(chance), key, b"\0\0" + chance.randbytes(4))]


def _timestamp(chance: random.Random) -> int:
    if chance.random() < 0.1:
        return chance.choice([-1, 0, 1, 2**40, 2**62])
    return _NOW + chance.randrange(10**9)


def _content(chance: random.Random, size: int) -> bytes:
    kind = chance.random()
    if kind < 0.05:
        return b""
    if kind < 0.4:
        return chance.randbytes(chance.randrange(1, size + 1))
    return b" ".join(chance.choices(_WORDS, k=chance.randrange(1, size // 4 + 2)))


def _headers(chance: random.Random) -> Headers:
    return tuple(
        (chance.choice(_HEADER_KEYS), _content(chance, 20) if chance.random() < 0.8 else None)
        for _ in range(chance.randrange(1, 4))
    )
