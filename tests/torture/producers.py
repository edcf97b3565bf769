"""Clients that load the broker, each over one connection of its own, until it is gone."""

import random
import select
import selectors
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.log_offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.records.batch import iter_batches
from tests.broker.harness import frame_of, response_of
from tests.patience import PATIENCE_S
from tests.torture.ledger import BatchLedger, Ledger, RecordLedger, TortureError
from tests.torture.workload import MAGIC_V2, Mint, Sent

DEPTH: Final = 5
"""Requests in flight on a connection: as many as an idempotent producer may have, since a log remembers 5 batches."""

_LENGTH: Final = struct.Struct(">i")
_CORRELATION_ID_AT: Final = 8
_FETCH_VERSION: Final = 11
_OFFSET_OUT_OF_RANGE: Final = 1
_GLANCE: Final = 0.05
_TRIMS: Final = 0.03
"""The number of turns of the load that a trimmer uses."""


class Work(NamedTuple):
    """A request, and the batches in it by partition."""

    request: Any
    version: int
    batches: tuple[tuple[Ledger, Sent], ...] = ()


class Link:
    """A connection that does not block: requests go out, frames come in. After `is_broken` it is of no more use."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, PATIENCE_S)
        self.socket.setblocking(False)
        self.in_flight: deque[tuple[int, Work]] = deque()
        self.is_broken = False
        self._out = bytearray()
        self._in = bytearray()
        self._number = 0

    @property
    def has_output(self) -> bool:
        """Whether bytes wait for room in the socket."""
        return bool(self._out)

    def send(self, work: Work) -> None:
        """Send a request, or as much of it as fits; the rest with the next `flush`."""
        self._number += 1
        frame = frame_of(work.request, work.version, self._number)
        self._out += _LENGTH.pack(len(frame)) + frame
        self.in_flight.append((self._number, work))
        self.flush()

    def flush(self) -> None:
        """Send what waits."""
        try:
            while self._out:
                del self._out[: self.socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self._out.clear()  # what the broker has said before it died is still to be read

    def receive(self) -> list[tuple[Work, Any]]:
        """The answers that have come; those that were on their way when the broker died count."""
        try:
            while data := self.socket.recv(1 << 20):
                self._in += data
            self.is_broken = True
        except BlockingIOError:
            pass
        except OSError:
            self.is_broken = True
        answers: list[tuple[Work, Any]] = []
        while len(self._in) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._in)[0]
            if len(self._in) < end:
                break
            number, work = self.in_flight.popleft()
            answers.append((work, response_of(work.request, work.version, bytes(self._in[:end]), number)))
            del self._in[:end]
        return answers

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


class Party(ABC):
    """One of the clients that load the broker."""

    def __init__(self) -> None:
        self.link: Link | None = None

    def connect(self, address: tuple[str, int]) -> None:
        """Take a new connection."""
        self.link = Link(address)

    def disconnect(self) -> None:
        """The connection is gone."""
        if self.link is not None:
            self.link.close()
            self.link = None

    def act(self) -> None:
        """Send what is due, as far as the socket takes it."""
        assert self.link is not None
        if not self.link.has_output:
            self._act(self.link)

    def receive(self) -> None:
        """Take the answers that have come. `TortureError` for one that is wrong."""
        assert self.link is not None
        for work, response in self.link.receive():
            self._answered(work, response)

    @abstractmethod
    def _act(self, link: Link) -> None: ...

    @abstractmethod
    def _answered(self, work: Work, response: Any) -> None: ...


class Producer(Party):
    """One producer; its unanswered requests outlive the connection.

    An idempotent one sends them again, as they were, over the next connection. Another one has to look what has become
    of them: it cannot know otherwise whether it would write them twice.
    """

    def __init__(self, rng: random.Random, mint: Mint, ledgers: Sequence[Ledger], producer_id: int) -> None:
        super().__init__()
        self._rng = rng
        self._mint = mint
        self._ledgers = ledgers
        self._producer_id = producer_id
        self._version = rng.choice((3, 7, 9)) if producer_id >= 0 else 2
        self._sequences = dict.fromkeys(ledgers, 0)
        self.unanswered: deque[Work] = deque()

    @property
    def is_idempotent(self) -> bool:
        """Whether the broker knows its batches again."""
        return self._producer_id >= 0

    def connect(self, address: tuple[str, int]) -> None:
        """Take a new connection, and send again what is unanswered."""
        self.link = Link(address)
        again, self.unanswered = self.unanswered, deque()
        for work in again:
            self.link.send(work)

    def disconnect(self) -> None:
        """The connection is gone; requests without an answer are kept."""
        if self.link is not None:
            self.unanswered.extend(work for _, work in self.link.in_flight)
        super().disconnect()

    def settle(self) -> None:
        """After all logs have been read: what was found there is answered, what was not is given up."""
        assert not self.is_idempotent
        for work in self.unanswered:
            for ledger, sent in work.batches:
                assert isinstance(ledger, RecordLedger)
                if sent.base_offset is None:
                    ledger.forget(sent)
        self.unanswered.clear()

    def _act(self, link: Link) -> None:
        while len(link.in_flight) < DEPTH and not link.has_output:
            chosen = self._rng.sample(self._ledgers, self._rng.choice((1, 1, 2, min(3, len(self._ledgers)))))
            work = self._work([(ledger, self._batch(ledger)) for ledger in chosen])
            for ledger, sent in work.batches:
                ledger.sent(sent)
            link.send(work)

    def _answered(self, work: Work, response: Any) -> None:
        outcomes = [(topic.name, outcome) for topic in response.responses for outcome in topic.partition_responses]
        for (name, outcome), (ledger, sent) in zip(outcomes, work.batches, strict=True):
            if (name, outcome.index) != (ledger.topic.name, ledger.partition):
                raise ledger.fail(f"answered as {name}-{outcome.index}")
            if outcome.error_code:  # nothing that is sent gives a reason for one
                raise ledger.fail(
                    f"Produce v{work.version}: error {outcome.error_code}, {outcome.error_message}, for sequence "
                    f"{sent.sequence} of producer {sent.producer_id}, known at offset {sent.base_offset}"
                )
            ledger.acked(sent, outcome.base_offset)

    def _batch(self, ledger: Ledger) -> Sent:
        topic = ledger.topic
        if not self.is_idempotent:
            magic = self._rng.choice(topic.feed)
            if magic == MAGIC_V2:
                return self._mint.batch(topic, producer_id=-1, sequence=-1)
            return self._mint.message_set(topic, magic)
        sequence = self._sequences[ledger]
        sent = self._mint.batch(topic, producer_id=self._producer_id, sequence=sequence, zstd=self._version >= 7)
        self._sequences[ledger] = sequence + sent.count
        return sent

    def _work(self, batches: list[tuple[Ledger, Sent]]) -> Work:
        batches.sort(key=lambda pair: pair[0].name)
        topics: dict[str, list[PartitionProduceData]] = {}
        for ledger, sent in batches:
            data = PartitionProduceData(index=ledger.partition, records=sent.data)
            topics.setdefault(ledger.topic.name, []).append(data)
        request = ProduceRequest(
            acks=self._rng.choice((1, -1)),
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )
        return Work(request, self._version, tuple(batches))


class Consumer(Party):
    """Reads at the ends of logs while they grow: what it has read must be there after a crash, acknowledged or not."""

    def __init__(self, rng: random.Random, ledgers: Sequence[BatchLedger]) -> None:
        super().__init__()
        self._rng = rng
        self._ledgers = ledgers
        self._positions = dict.fromkeys(ledgers, 0)

    def connect(self, address: tuple[str, int]) -> None:
        """Go on where it was, or where the logs begin now."""
        super().connect(address)
        self._positions = {ledger: max(self._positions[ledger], ledger.start) for ledger in self._ledgers}

    def _act(self, link: Link) -> None:
        if not link.in_flight:
            ledger = self._rng.choice(self._ledgers)
            partition = FetchPartition(
                partition=ledger.partition, fetch_offset=self._positions[ledger], partition_max_bytes=1 << 16
            )
            topics = [FetchTopic(topic=ledger.topic.name, partitions=[partition])]
            link.send(Work(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), _FETCH_VERSION))

    def _answered(self, work: Work, response: Any) -> None:
        (topic,), (asked,) = response.responses, work.request.topics
        (data,), (partition,) = topic.partitions, asked.partitions
        ledger = next(x for x in self._ledgers if x.name == f"{asked.topic}-{partition.partition}")
        if data.error_code == _OFFSET_OUT_OF_RANGE and ledger.topic.start_moves:
            self._positions[ledger] = ledger.acked_end  # the log's start has moved past where we were
        elif data.error_code:
            raise ledger.fail(f"Fetch from offset {partition.fetch_offset}: error {data.error_code}")
        for batch in iter_batches(data.records or b""):
            self._positions[ledger] = ledger.note(batch.buffer)


class Trimmer(Party):
    """Deletes the oldest records of logs now and then (DeleteRecords): once that is answered, they stay away."""

    def __init__(self, rng: random.Random, ledgers: Sequence[BatchLedger]) -> None:
        super().__init__()
        self._rng = rng
        self._ledgers = ledgers

    def _act(self, link: Link) -> None:
        if self._ledgers and not link.in_flight and self._rng.random() < _TRIMS:
            ledger = self._rng.choice(self._ledgers)
            offset = self._rng.randint(ledger.start, ledger.acked_end)
            ledger.asked_start = max(ledger.asked_start, offset)
            partition = DeleteRecordsPartition(partition_index=ledger.partition, offset=offset)
            topics = [DeleteRecordsTopic(name=ledger.topic.name, partitions=[partition])]
            link.send(Work(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2))

    def _answered(self, work: Work, response: Any) -> None:
        (topic,), (asked,) = response.topics, work.request.topics
        (result,), (partition,) = topic.partitions, asked.partitions
        ledger = next(x for x in self._ledgers if x.name == f"{asked.name}-{partition.partition_index}")
        if result.error_code or result.low_watermark < partition.offset:
            raise ledger.fail(f"DeleteRecords up to {partition.offset} was answered with {result}")
        ledger.start = max(ledger.start, result.low_watermark)
        ledger.counts["answered deletions of records"] += 1


def await_answers(producers: Sequence[Producer]) -> None:
    """Take answers until nothing is in flight. `TortureError` when the broker goes, or stays silent."""
    for producer in producers:
        link = producer.link
        assert link is not None
        while link.in_flight:
            wanted_to_write = [link.socket] if link.has_output else []
            if not any(select.select([link.socket], wanted_to_write, [], PATIENCE_S)):
                raise TortureError("the broker does not answer")
            link.flush()
            producer.receive()
            if link.is_broken:
                raise TortureError("the broker closed a connection")


def drive(parties: Sequence[Party], stop: threading.Event | None = None) -> None:
    """Let all of them do their work until the broker has closed every connection.

    Once `stop` is set they ask for nothing more, and those that have all their answers are done as well.
    """
    with selectors.DefaultSelector() as selector:
        links: dict[Link, Party] = {}
        for party in parties:
            assert party.link is not None
            links[party.link] = party
            selector.register(party.link.socket, selectors.EVENT_READ, party.link)
        looked = time.monotonic()
        while links:
            for link, party in tuple(links.items()):
                if stop is None or not stop.is_set():
                    party.act()
                elif not link.in_flight:
                    selector.unregister(link.socket)
                    del links[link]
                    continue
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.has_output else 0)
                selector.modify(link.socket, events, link)
            ready = selector.select(PATIENCE_S if stop is None else _GLANCE)
            if ready:
                looked = time.monotonic()
            elif time.monotonic() - looked > PATIENCE_S:
                raise TortureError("the broker neither answers nor ends")
            for key, events in ready:
                link = key.data
                if events & selectors.EVENT_WRITE:
                    link.flush()
                links[link].receive()
                if link.is_broken:
                    selector.unregister(link.socket)
                    del links[link]
