"""Random histories of a compacted log: all types of producers, tombstones, transactions, formats and codecs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, TimestampType
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.storage.cleaning import Entry, entries_of, entry, marker
from tests.storage.helpers import NOW

ALL_CODECS = list(CompressionCodec)
LEGACY_CODECS = [codec for codec in CompressionCodec if codec is not CompressionCodec.ZSTD]


@dataclass
class Producer:
    """An idempotent producer. If it is transactional, it may have an open transaction."""

    producer_id: int
    is_transactional: bool
    epoch: int = 0
    next_sequence: int = 0
    in_transaction: bool = False


@dataclass
class History:
    """Generates consecutive random entries with ascending offsets and timestamps."""

    random: Random
    next_offset: int = 0
    with_gaps: bool = False
    timestamp: int = NOW
    keys: list[bytes] = field(init=False)
    codecs: list[CompressionCodec] = field(init=False)
    producers: list[Producer] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        rnd = self.random
        self.keys = [b"", *(b"key %d" % number for number in range(rnd.choice([2, 5, 20])))]
        self.codecs = rnd.choice([[CompressionCodec.NONE], [CompressionCodec.NONE, *ALL_CODECS]])
        self._tombstones = rnd.choice([0.1, 0.4])
        self._null_keys = rnd.choice([0, 0, 0.1])

    def entries(self, count: int, magic: int = 2) -> list[Entry]:
        """Return at least `count` entries. A message set in an old format counts as several."""
        entries: list[Entry] = []
        for _ in range(count):
            entries += self._message_set(magic) if magic < 2 else [self._batch()]
            if self.with_gaps and self.random.random() < 0.05:
                self.next_offset += self.random.choice([1, 10])
        return entries

    def endings(self) -> Iterator[Entry]:
        """Yield markers that end all open transactions."""
        for producer in self.producers:
            if producer.in_transaction:
                yield self._marker(producer)

    def _records(self, *, timestamps: bool = True) -> list[NewRecord]:
        rnd = self.random
        self.timestamp += rnd.randrange(-500, 3000)
        return [
            NewRecord(
                None if rnd.random() < self._null_keys else rnd.choice(self.keys),
                None if rnd.random() < self._tombstones else rnd.randbytes(rnd.choice([0, 1, 10, 100])),
                self.timestamp + rnd.randrange(50) if timestamps else -1,
            )
            for _ in range(rnd.choice([1, 1, 2, 3, 5]))
        ]

    def _message_set(self, magic: int) -> list[Entry]:
        records = self._records(timestamps=magic == 1)
        codecs = [codec for codec in self.codecs if codec in LEGACY_CODECS]
        data = build_message_set(
            records,
            magic=magic,
            base_offset=self.next_offset,
            codec=self.random.choice(codecs),
            timestamp_type=TimestampType(self.random.choice([0, 0, 0, 1]) if magic else 0),
        )
        self.next_offset += len(records)
        return entries_of(bytes(data))

    def _batch(self) -> Entry:
        kind = self.random.choice(["plain", "idempotent", "transactional", "transactional"])
        if kind == "plain":
            return self._data({})
        producer = self._producer(is_transactional=kind == "transactional")
        if producer.is_transactional and self.random.random() < (0.5 if producer.in_transaction else 0.1):
            return self._marker(producer)
        entry = self._data(
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "base_sequence": producer.next_sequence,
                "is_transactional": producer.is_transactional,
            }
        )
        producer.next_sequence += entry.header.record_count
        producer.in_transaction = producer.is_transactional
        return entry

    def _producer(self, *, is_transactional: bool) -> Producer:
        matching = [producer for producer in self.producers if producer.is_transactional is is_transactional]
        if matching and self.random.random() < 0.7:
            return self.random.choice(matching)
        self.producers.append(Producer(len(self.producers) + 1, is_transactional))
        return self.producers[-1]

    def _data(self, fields: dict[str, Any]) -> Entry:
        rnd = self.random
        records = self._records()
        if rnd.random() < 0.2:
            records = [record._replace(headers=(("h", b"x"), ("", None))) for record in records]
        data = build_batch(
            records,
            base_offset=self.next_offset,
            codec=rnd.choice(self.codecs),
            timestamp_type=TimestampType(rnd.choice([0, 0, 0, 1])),
            partition_leader_epoch=0,
            **fields,
        )
        self.next_offset += len(records)
        return entry(data)

    def _marker(self, producer: Producer) -> Entry:
        entry = marker(
            self.next_offset,
            producer.producer_id,
            commit=self.random.random() < 0.5,
            epoch=producer.epoch,
            timestamp=self.timestamp,
        )
        self.next_offset += 1
        producer.in_transaction = False
        if self.random.random() < 0.1:
            producer.epoch += 1
            producer.next_sequence = 0
        return entry
