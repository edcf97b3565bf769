"""The load of the torture: topics whose logs never rest, and batches that differ from each other."""

import random
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord

MAGIC_V0, MAGIC_V1, MAGIC_V2 = range(3)
NO_TIMESTAMP: Final = -1

_LEGACY_CODECS: Final = (CompressionCodec.NONE, CompressionCodec.GZIP, CompressionCodec.SNAPPY, CompressionCodec.LZ4)
_KEYS: Final = [b"key-%d" % number for number in range(16)]
_NOISE: Final = random.Random(0).randbytes(1 << 20)

Headers = tuple[tuple[str, bytes | None], ...]


class Facts(NamedTuple):
    """A record as a reader sees it, but for its offset. No two that are produced are alike."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


@dataclass(frozen=True)
class Topic:
    """A topic of the torture.

    Attributes:
        feed: the formats in which producers send to it.
        stored: the format of its log.
        is_trimmed: whether clients delete its oldest records.
        most_records: records of the largest batch.
        most_bytes: bytes of the largest value.
    """

    name: str
    partitions: int
    configs: dict[str, str]
    feed: tuple[int, ...] = (MAGIC_V2,)
    stored: int = MAGIC_V2
    is_trimmed: bool = False
    most_records: int = 50
    most_bytes: int = 120

    @property
    def is_compacted(self) -> bool:
        """Whether records vanish from it that have newer ones of their key."""
        return "compact" in self.configs.get("cleanup.policy", "")

    @property
    def retention_bytes(self) -> int | None:
        """The least part of each partition that stays."""
        given = self.configs.get("retention.bytes")
        return None if given is None else int(given)

    @property
    def start_moves(self) -> bool:
        """Whether its logs lose their oldest records."""
        return self.is_trimmed or self.retention_bytes is not None

    @property
    def is_by_record(self) -> bool:
        """Whether the log may hold other bytes than those that were sent: records are compared then."""
        return self.is_compacted or self.feed != (MAGIC_V2,)

    @property
    def spec(self) -> str:
        """The topic as `minibroker serve --topic` takes it."""
        return f"{self.name}:{self.partitions}:" + ",".join(f"{key}={value}" for key, value in self.configs.items())


_DENSE: Final = {"index.interval.bytes": "400"}
TOPICS: Final = (
    Topic("plain", 3, {"segment.bytes": "30000", "segment.index.bytes": "600", **_DENSE}),
    Topic(
        "compacted",
        2,
        {
            "cleanup.policy": "compact",
            "segment.bytes": "20000",
            "segment.index.bytes": "1200",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "200",
            **_DENSE,
        },
        most_records=20,
    ),
    Topic(
        "retained", 2, {"retention.bytes": "30000", "segment.bytes": "10000", "segment.index.bytes": "120", **_DENSE}
    ),
    Topic("trimmed", 1, {"segment.bytes": "20000", "segment.index.bytes": "600", **_DENSE}, is_trimmed=True),
    Topic("flushed", 1, {"flush.messages": "1", "segment.bytes": "40000", "segment.index.bytes": "600", **_DENSE}),
    Topic(
        "wide",
        1,
        {"segment.bytes": "2000000", "segment.index.bytes": "2400", "index.interval.bytes": "4096"},
        most_records=5,
        most_bytes=60_000,
    ),
    Topic("raised", 1, {"segment.bytes": "30000", "segment.index.bytes": "600", **_DENSE}, feed=(MAGIC_V0, MAGIC_V1)),
    Topic(
        "old-1",
        1,
        {"message.format.version": "0.10.2", "segment.bytes": "30000", "segment.index.bytes": "600", **_DENSE},
        feed=(MAGIC_V0, MAGIC_V1, MAGIC_V2),
        stored=MAGIC_V1,
    ),
    Topic(
        "old-0",
        1,
        {"message.format.version": "0.9.0", "segment.bytes": "30000", "segment.index.bytes": "600", **_DENSE},
        feed=(MAGIC_V0, MAGIC_V1, MAGIC_V2),
        stored=MAGIC_V0,
    ),
)

SETTINGS: Final = {
    "log.cleaner.backoff.ms": "10",
    "log.retention.check.interval.ms": "20",
    "log.initial.task.delay.ms": "0",
    "log.segment.delete.delay.ms": "30",
    "log.flush.scheduler.interval.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "40",
    "log.flush.start.offset.checkpoint.interval.ms": "40",
}
"""Properties of the broker that make its chores run all the time."""


@dataclass(eq=False)
class Sent:
    """One batch, or one message set, for one partition.

    Attributes:
        data: the bytes that the producer sent.
        facts: what a reader will see of its records.
        is_whole: whether a crash can leave only all of it or nothing: not so a set of plain old messages.
        base_offset: what the broker has answered, or where a reader found it.
        is_acked: whether the broker has answered.
        sequence: the first sequence number; -1 without a producer id.
    """

    data: bytes
    facts: list[Facts]
    is_whole: bool = True
    base_offset: int | None = None
    is_acked: bool = False
    producer_id: int = -1
    sequence: int = -1
    max_timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        self.max_timestamp = max(facts.timestamp for facts in self.facts)

    @property
    def count(self) -> int:
        """Its records."""
        return len(self.facts)


class Mint:
    """Makes records, none like another: their timestamps are even, different, and mostly but not always ascend."""

    def __init__(self, rng: random.Random, first_timestamp: int) -> None:
        self._rng = rng
        self._clock = first_timestamp // 2 * 2
        self._number = 0

    @property
    def clock(self) -> int:
        """Above all timestamps so far, in ms."""
        return self._clock

    def records(self, topic: Topic, magic: int) -> list[NewRecord]:
        """As many as make one batch for `topic`."""
        rng = self._rng
        count = rng.choice((1, 1, 2, rng.randint(1, topic.most_records)))
        times = range(self._clock, self._clock + 2 * count, 2)
        self._clock += 2 * count
        shuffled = rng.sample(times, count) if rng.random() < 0.3 else list(times)
        made: list[NewRecord] = []
        for timestamp in shuffled:
            self._number += 1
            start, size = rng.randrange(len(_NOISE) - topic.most_bytes), rng.randrange(topic.most_bytes)
            value: bytes | None = b"%d:" % self._number + (b"." * size if size % 3 else _NOISE[start : start + size])
            key = rng.choice(_KEYS) if topic.is_compacted or rng.random() < 0.3 else None
            if topic.is_compacted and rng.random() < 0.1:
                value = None
            headers = (("number", b"%d" % self._number),) if magic == topic.stored == MAGIC_V2 else ()
            made.append(NewRecord(key, value, timestamp, headers))
        return made

    def batch(self, topic: Topic, *, producer_id: int, sequence: int, zstd: bool = False) -> Sent:
        """A v2 batch; `producer_id` -1 is a producer without idempotence."""
        records = self.records(topic, MAGIC_V2)
        data = build_batch(
            records,
            codec=self._rng.choice((CompressionCodec.NONE, *(CompressionCodec if zstd else _LEGACY_CODECS))),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
        )
        plain = topic.stored < MAGIC_V2 and not data[22] & 7
        return Sent(
            bytes(data),
            [_facts(record, MAGIC_V2, topic.stored) for record in records],
            is_whole=not plain or len(records) == 1,
            producer_id=producer_id,
            sequence=sequence,
        )

    def message_set(self, topic: Topic, magic: int) -> Sent:
        """A message set of format v0 or v1: plain messages, or one wrapper."""
        records = self.records(topic, magic)
        codec = self._rng.choice((CompressionCodec.NONE, *_LEGACY_CODECS))
        return Sent(
            bytes(build_message_set(records, magic=magic, codec=codec)),
            [_facts(record, magic, topic.stored) for record in records],
            is_whole=topic.stored == MAGIC_V2 or codec is not CompressionCodec.NONE or len(records) == 1,
        )


def _facts(record: NewRecord, sent: int, stored: int) -> Facts:
    """The rest of a record that is sent in one format and stored in another."""
    timestamp = NO_TIMESTAMP if MAGIC_V0 in {sent, stored} else record.timestamp
    return Facts(record.key, record.value, timestamp, record.headers)


def facts_of(record: Any) -> Facts:
    """A reader's view of a decoded record."""
    return Facts(record.key, record.value, record.timestamp, tuple(record.headers))
