"""Kills of the broker under a share consumer (KIP-932) that acknowledges each record, beside its own book.

librdkafka's share consumer outlives the brokers. A record whose acceptance or rejection was
confirmed must never come again. A released record comes again with a higher count of deliveries, and an undecided one
comes again, too.
"""

import random
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from confluent_kafka import AcknowledgeType, Consumer, KafkaException, Message, Producer, ShareConsumer, TopicPartition

from tests.broker.operations.members import group_from_the_start
from tests.clients.broker_process import BrokerProcess
from tests.patience import PATIENCE_S

_TOPIC: Final = "jobs"
_GROUP: Final = "g"
_QUEUE: Final = "dlq.jobs"
_RECORDS: Final = 20
"""Produced before each poll."""
_MOST_RELEASED: Final = 5
_OPTIONS: Final = (
    *("--topic", _TOPIC),
    *("--set", "group.share.min.heartbeat.interval.ms=50"),
    *("--set", "group.share.heartbeat.interval.ms=50"),
    *("--set", "group.share.assignment.interval.ms=0"),
    *("--set", "group.share.delivery.count.limit=10"),
    *("--set", "errors.deadletterqueue.auto.create.topics.enable=true"),
)
_DONE: Final = frozenset({AcknowledgeType.ACCEPT, AcknowledgeType.REJECT})


class ShareCampaign:
    """The campaign; `run` may be called once.

    Attributes:
        kills: how often the broker was killed.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._random = random.Random(seed)
        self._moments = random.Random(seed)  # apart, since how many records a poll brings is for the machine to say
        self._broker = BrokerProcess(directory, _OPTIONS)
        self._counts: Counter[str] = Counter()
        self._produced: set[int] = set()
        self._done: set[int] = set()
        """Records that are confirmed as accepted or rejected."""
        self._rejected: set[int] = set()
        """Records that are confirmed as rejected."""
        self._open: set[int] = set()
        """Records that were accepted or rejected, without an answer whether that counts."""
        self._released: dict[int, int] = {}
        """Records that are confirmed as given back, with their counts of deliveries."""
        self.kills = 0

    def run(self, kills: int) -> Counter[str]:
        """Kill the broker so often, then read what is left. AssertionError if the book does not fit."""
        self._broker.start()
        group_from_the_start(self._broker.bootstrap, _GROUP, errors_deadletterqueue_topic_name=_QUEUE)
        consumer = self._consumer()
        try:
            for _ in range(kills):
                self._live(consumer)
            self._read_the_rest(consumer)
            self._read_the_queue()
            consumer.close()
            self._broker.terminate()
        finally:
            self._broker.close()
        self._counts.update({"kills": self.kills, "done with": len(self._done), "undecided": len(self._open)})
        return self._counts

    def _consumer(self) -> ShareConsumer:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": self._broker.bootstrap,
                "group.id": _GROUP,
                "share.acknowledgement.mode": "explicit",
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "log_level": 0,
            }
        )
        consumer.subscribe([_TOPIC])
        return consumer

    def _live(self, consumer: ShareConsumer) -> None:
        """Produce, acknowledge some, and kill the broker before, amid or after a commit."""
        for _ in range(self._random.randrange(1, 4)):  # each time something is there to come
            self._produce()
            self._commit(consumer, self._decide(consumer, self._poll(consumer)))
        self._produce()
        moment = self._moments.choice(("before", "amid", "after"))
        decided = self._decide(consumer, self._poll(consumer))
        if moment == "before":
            self._kill()
            self._commit(consumer, decided)
        elif moment == "amid":
            killer = threading.Timer(self._random.random() * 0.005, self._kill)
            killer.start()
            self._commit(consumer, decided)
            killer.join()
        else:
            self._commit(consumer, decided)
            self._kill()
        self._counts[f"kills {moment} a commit"] += 1

    def _kill(self) -> None:
        self._broker.kill()
        self.kills += 1
        self._broker.start()

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "linger.ms": 0})

        def produced(error: object, message: Message) -> None:
            offset = message.offset()
            assert error is None, error
            assert offset is not None
            self._produced.add(offset)

        for number in range(_RECORDS):
            producer.produce(_TOPIC, str(number), on_delivery=produced)
        assert producer.flush(PATIENCE_S) == 0

    def _poll(self, consumer: ShareConsumer) -> list[Message]:
        found: list[Message] = []
        while not found:
            found = [each for each in consumer.poll(PATIENCE_S) if each.error() is None]
        for each in found:
            self._check(each)
        return found

    def _check(self, message: Message) -> None:
        offset, deliveries = _place(message)
        assert offset not in self._done, f"offset {offset} was done with, and came again"
        least = self._released.get(offset, 0) + 1
        assert deliveries >= least, f"offset {offset} came with {deliveries} deliveries, not {least}"
        self._counts["came again"] += offset in self._released or offset in self._open
        self._open.discard(offset)

    def _decide(self, consumer: ShareConsumer, messages: list[Message]) -> dict[int, tuple[AcknowledgeType, int]]:
        decided: dict[int, tuple[AcknowledgeType, int]] = {}
        for each in messages:
            offset, deliveries = _place(each)
            may_release = deliveries < _MOST_RELEASED
            kinds = (
                [AcknowledgeType.ACCEPT] * 7 + [AcknowledgeType.REJECT] + [AcknowledgeType.RELEASE] * (3 * may_release)
            )
            kind = self._random.choice(kinds)
            consumer.acknowledge(each, kind)
            decided[offset] = kind, deliveries
        return decided

    def _commit(self, consumer: ShareConsumer, decided: dict[int, tuple[AcknowledgeType, int]]) -> None:
        """Commit; what is not confirmed may count or not."""
        confirmed = False
        with suppress(KafkaException):
            results = consumer.commit_sync(PATIENCE_S)
            confirmed = bool(results) and set(results.values()) == {None}
        self._counts["commits that were confirmed" if confirmed else "commits that were not"] += 1
        for offset, (kind, deliveries) in decided.items():
            if kind in _DONE:
                (self._done if confirmed else self._open).add(offset)
                if confirmed and kind is AcknowledgeType.REJECT:
                    self._rejected.add(offset)
            elif confirmed:
                self._released[offset] = deliveries

    def _read_the_rest(self, consumer: ShareConsumer) -> None:
        while self._produced - self._done - self._open:
            messages = self._poll(consumer)
            for each in messages:
                consumer.acknowledge(each)
            places = map(_place, messages)
            self._commit(consumer, {offset: (AcknowledgeType.ACCEPT, deliveries) for offset, deliveries in places})

    def _read_the_queue(self) -> None:
        """Read the dead-letter queue until all that was rejected has come, and to its end."""
        reader = Consumer({"bootstrap.servers": self._broker.bootstrap, "group.id": "reader"})
        place = TopicPartition(_QUEUE, 0, 0)
        reader.assign([place])
        found: Counter[int] = Counter()
        while self._rejected - found.keys() or found.total() < reader.get_watermark_offsets(place)[1]:
            message = reader.poll(PATIENCE_S)
            assert message is not None, f"offsets {sorted(self._rejected - found.keys())} are not in the queue"
            headers = dict(message.headers() or ())
            found[int(headers["__dlq.errors.offset"] or b"")] += 1
        reader.close()
        accepted = found.keys() & (self._done - self._rejected)
        assert not accepted, f"offsets {sorted(accepted)} were accepted, and are in the queue"
        self._counts.update({"in the queue": len(found), "in the queue again": found.total() - len(found)})


def _place(message: Message) -> tuple[int, int]:
    """The offset of a record, and how often it was delivered."""
    offset, deliveries = message.offset(), message.delivery_count()
    assert offset is not None
    assert deliveries is not None
    return offset, deliveries
