"""A broker in this process with ledgers of what it holds, for tests that damage files or let system calls fail."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

from minibroker.cluster.logs import chores
from minibroker.cluster.routing import slices
from minibroker.cluster.routing.outcomes import Answer
from minibroker.server.services import Services
from minibroker_protocol.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minibroker_protocol.messages.produce import ProduceRequest
from minibroker_protocol.records.batch import iter_batches
from tests.broker.harness import Harness, Pending, bytes_in, bytes_of, produce_request, response_of
from tests.torture.disk import check_partition
from tests.torture.ledger import BatchLedger, Ledger, View, new_ledger
from tests.torture.workload import MAGIC_V0, MAGIC_V1, MAGIC_V2, Mint, Sent, Topic

NONE, OUT_OF_ORDER_SEQUENCE_NUMBER, KAFKA_STORAGE_ERROR = 0, 45, 56
_TINY: Final = {"segment.bytes": "6000", "index.interval.bytes": "100", "segment.index.bytes": "240"}
TINY_TOPICS: Final = (
    Topic("plain", 2, _TINY, most_records=10),
    Topic(
        "compacted",
        1,
        {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "1000", **_TINY},
        most_records=10,
    ),
    Topic("retained", 1, {"retention.bytes": "9000", **_TINY}, most_records=10),
    Topic("old", 1, {**_TINY, "message.format.version": "0.10.2"}, (MAGIC_V0, MAGIC_V1), MAGIC_V1, most_records=10),
)
"""Topics of each kind, which roll after a few batches."""
_FIRST_TIMESTAMP = 1_700_000_000_000
_LONG_MS = 400_000
"""Longer than every interval of the broker's chores."""


class Torture:
    """The broker and what it must hold. One idempotent producer writes to all partitions that take v2 batches."""

    def __init__(
        self, directory: Path, topics: Sequence[Topic], seed: int, config: Mapping[str, str] | None = None
    ) -> None:
        self.data_dir = directory / "data"
        self.rng = random.Random(seed)
        self.harness = Harness(str(self.data_dir), config)
        self.mint = Mint(self.rng, _FIRST_TIMESTAMP)
        self.ledgers: list[Ledger] = []
        self._sequences: dict[Ledger, int] = {}
        for topic in topics:
            configs = {key.replace(".", "_"): value for key, value in topic.configs.items()}
            self.harness.create(topic.name, topic.partitions, **configs)
            self.ledgers += [new_ledger(topic, partition) for partition in range(topic.partitions)]

    def directory(self, ledger: Ledger) -> Path:
        """Where a partition's files are."""
        return self.data_dir / ledger.name

    def mint_for(self, ledger: Ledger) -> Sent:
        """The next batch for a partition, which counts as sent."""
        topic = ledger.topic
        if topic.feed == (MAGIC_V2,):
            sequence = self._sequences.get(ledger, 0)
            sent = self.mint.batch(topic, producer_id=7, sequence=sequence, zstd=True)
            self._sequences[ledger] = sequence + sent.count
        else:
            sent = self.mint.message_set(topic, self.rng.choice([magic for magic in topic.feed if magic < MAGIC_V2]))
        ledger.sent(sent)
        return sent

    def send(self, *batches: tuple[Ledger, Sent]) -> list[int]:
        """Produce batches in requests of their own, all in one wake-up; returns the error codes they got."""
        asked: list[tuple[ProduceRequest, int, Answer | Pending]] = []
        for ledger, sent in batches:
            version = 9 if ledger.topic.feed == (MAGIC_V2,) else 2
            request = produce_request(sent.data, ledger.topic.name, ledger.partition)
            answer = self.harness.accept(request, version)
            assert answer is not None
            asked.append(
                (request, version, answer if isinstance(answer, Answer) else Pending(request, version, answer))
            )
        self.harness.core.writes.commit()
        responses = [
            answer if isinstance(answer, Pending) else response_of(request, version, bytes_of(answer))
            for request, version, answer in asked
        ]
        self.harness.run_soon()  # a flush, for requests that wait for one
        codes: list[int] = []
        for (ledger, sent), response in zip(batches, responses, strict=True):
            (topic,) = (response.response if isinstance(response, Pending) else response).responses
            (outcome,) = topic.partition_responses
            codes.append(outcome.error_code)
            if outcome.error_code == NONE:
                ledger.acked(sent, outcome.base_offset)
        return codes

    def delete_records(self, ledger: Ledger, offset: int) -> None:
        """Have a log begin at `offset`."""
        ledger.asked_start = max(ledger.asked_start, offset)
        partition = DeleteRecordsPartition(partition_index=ledger.partition, offset=offset)
        topics = [DeleteRecordsTopic(name=ledger.topic.name, partitions=[partition])]
        (topic,) = self.harness.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2).topics
        (result,) = topic.partitions
        assert (result.error_code, result.low_watermark) == (NONE, max(offset, ledger.start))
        ledger.start = result.low_watermark

    def fill(self, ledger: Ledger, count: int) -> None:
        """Produce so many batches, all of which succeed."""
        for _ in range(count):
            assert self.send((ledger, self.mint_for(ledger))) == [NONE]

    def greet(self) -> None:
        """Write a batch to each log. One that does not know a producer takes any sequence number, not just the next."""
        for ledger in self.ledgers:
            self.fill(ledger, 1)

    def do_chores(self) -> None:
        """Let time pass until retention, compaction, flushing and the checkpoints have had their turn."""
        self.harness.clock.advance(_LONG_MS)
        self.harness.run_soon()

    def close_files(self, share: float) -> None:
        """Close some of the open files, as happens when others need room; each with this probability."""
        for handle in list(self.harness.core.files._open):
            if not handle.pinned and self.rng.random() < share:
                handle.evict()

    def view(self, ledger: Ledger) -> View:
        """All of a log as a consumer reads it."""
        start = offset = self._list_offset(ledger, -2)[0]
        chunks: list[bytes] = []
        while True:
            data = self.harness.fetch_one(offset, ledger.topic.name, ledger.partition, version=11)
            assert data.error_code == NONE
            batches = list(iter_batches(bytes_in(data)))
            if not batches:
                return View(start, data.high_watermark, chunks)
            chunks.append(bytes_in(data))
            offset = batches[-1].header.last_offset + 1

    def verify(self, *, looks: int = 0) -> None:
        """Hold every log against its ledger, and look so many offsets and moments up in each."""
        for ledger in self.ledgers:
            view = self.view(ledger)
            ledger.check(view)
            for _ in range(looks if view.end > view.start else 0):
                self._look_up_offset(ledger, self.rng.randrange(view.start, view.end), view.end)
                self._look_up_moment(ledger, self.rng.randrange(_FIRST_TIMESTAMP, self.mint.clock + 4, 2) + 1)

    def reopen(self, *, clean: bool, meanwhile: Callable[[], None] = lambda: None) -> None:
        """End the broker with a clean stop or as `kill -9` does, do something to its files, and start it again."""
        harness, opens, left = self.harness, self.harness._open, self.harness.core.files

        def spoil_and_open() -> Services:
            for handle in list(left._open):
                handle.close()  # the kernel does it for a process that is gone
            meanwhile()
            return opens()

        with patch.object(harness, "_open", spoil_and_open):
            if clean:
                harness.restart()
            else:
                harness.crash()

    def check_files(self) -> None:
        """Stop cleanly and look at every segment and index."""

        def check() -> None:
            for ledger in self.ledgers:
                compacted = ledger.topic.is_compacted
                check_partition(self.directory(ledger), is_compacted=compacted, was_killed=False)

        self.reopen(clean=True, meanwhile=check)

    def close(self) -> None:
        """Stop."""
        self.harness.close()

    def _look_up_offset(self, ledger: Ledger, offset: int, end: int) -> None:
        data = self.harness.fetch_one(offset, ledger.topic.name, ledger.partition, version=11, partition_max_bytes=1)
        batches = list(iter_batches(bytes_in(data)))
        assert batches, f"{ledger.name}: nothing at offset {offset} below {end}"
        assert batches[-1].header.last_offset >= offset
        if isinstance(ledger, BatchLedger):
            assert batches[0].header.base_offset <= offset <= batches[0].header.last_offset

    def _look_up_moment(self, ledger: Ledger, moment: int) -> None:
        expected = ledger.first_at(moment, start=ledger.start)
        timestamp = -1 if expected < 0 else ledger.timestamp_of(expected)
        assert self._list_offset(ledger, moment) == (expected, timestamp), f"{ledger.name}: {moment}"

    def _list_offset(self, ledger: Ledger, timestamp: int) -> tuple[int, int]:
        partition = ListOffsetsPartition(partition_index=ledger.partition, timestamp=timestamp)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=ledger.topic.name, partitions=[partition])])
        (topic,) = self.harness.ask(request, 7).topics
        (answer,) = topic.partitions
        assert answer.error_code == NONE
        return answer.offset, answer.timestamp


@contextmanager
def sliced(seconds: float) -> Iterator[None]:
    """Have chores and requests yield after so long: 0 or `math.inf`, or a busy machine would take steps of its own."""
    with patch.object(chores, "_SLICE_S", seconds), patch.object(slices, "_SLICE_S", seconds):
        yield


def are_explained(batches: Sequence[tuple[Ledger, Sent]], codes: Sequence[int]) -> bool:
    """Whether each error is the disk's, or follows from one before: the sequence number of a lost batch is missing."""
    failed = set[Ledger]()
    for (ledger, _), code in zip(batches, codes, strict=True):
        if code == KAFKA_STORAGE_ERROR:
            failed.add(ledger)
        elif code and not (code == OUT_OF_ORDER_SEQUENCE_NUMBER and ledger in failed):
            return False
    return True


def is_settled(ledger: Ledger, sent: Sent) -> bool:
    """Whether a refused set of old messages was found in the log after a recovery: it would not be sent again."""
    return sent.base_offset is not None and not isinstance(ledger, BatchLedger)
