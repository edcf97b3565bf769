"""The two ends of a copy, which live through all kills: the feeder of the input, and the reader of the output."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.torture.background import BackgroundProducer, await_that
from tests.torture.copies import DOOMED, CopyLedger, Read, copy_of

AHEAD: Final = 60
"""The number of records of a partition that may wait for their copies."""
QUICK: Final[dict[str, Any]] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "metadata.recovery.strategy": "none",  # see `copier`
    "log_level": 0,  # a broker that is gone is no news here
}


class Feeder(BackgroundProducer):
    """An idempotent producer that tries again until it succeeds."""

    def __init__(self, bootstrap: str, topic: str, ledgers: Sequence[CopyLedger], rng: random.Random) -> None:
        super().__init__()
        self._topic = topic
        self._ledgers = ledgers
        self._rng = rng
        options = {"enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 1}
        self._producer = Producer({"bootstrap.servers": bootstrap, **QUICK, **options})
        self.start()

    def is_idle(self) -> bool:
        """Whether the broker has acknowledged all."""
        return all(ledger.delivered == ledger.fed for ledger in self._ledgers)

    def standing(self) -> str:
        """Of each partition, how many records were fed and how many are acknowledged."""
        return str([(each.fed, each.delivered) for each in self._ledgers])

    def step(self) -> None:
        """Feed a partition that has not too many records that wait to be copied."""
        ledger = self._rng.choice(self._ledgers)
        if self.is_writing.is_set() and ledger.fed - ledger.promised < AHEAD:
            for _ in range(self._rng.randint(1, 8)):
                self._producer.produce(
                    self._topic, ledger.feed(), partition=ledger.partition, on_delivery=self._delivered
                )
        self._producer.poll(self._rng.uniform(0, 0.02))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        partition, value, offset = message.partition(), message.value(), message.offset()
        assert partition is not None
        # Without an offset: the broker has only said that it has the batch, of which it got the answer lost.
        self._ledgers[partition].deliver(value or b"", None if offset is None or offset < 0 else offset)


class CommittedReader:
    """A consumer of committed records, on all partitions of the output at once."""

    def __init__(self, bootstrap: str, topic: str, ledgers: Sequence[CopyLedger]) -> None:
        self._ledgers = ledgers
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nobody",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.error.backoff.ms": 20,
                **QUICK,
            }
        )
        self._consumer.assign([TopicPartition(topic, ledger.partition, 0) for ledger in ledgers])

    def read_until(self, condition: Callable[[], bool], description: Callable[[], str]) -> None:
        """Read on, and hold what comes against the ledgers. `TortureError`, also if `condition` does not come true."""
        await_that(lambda: self._read() or condition(), description)

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def _read(self) -> bool:
        """Read what is there at once; False."""
        found: dict[int, list[Read]] = {}
        for message in self._consumer.consume(1000, 0.02):
            if message.error() is None:
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                assert offset is not None
                found.setdefault(partition, []).append(Read(offset, value or b""))
        for partition, records in found.items():
            self._ledgers[partition].check_copies(records)
        return False


def abandon(bootstrap: str, topics: tuple[str, str], partitions: int, transactional_id: str, timeout_ms: int) -> bool:
    """Begin a transaction in the output, and leave it to its timeout. False if the broker did not have it in time."""
    source, target = topics
    options = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms, "linger.ms": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **QUICK, **options})
    try:
        producer.init_transactions(2.0)
        producer.begin_transaction()
        for partition in range(partitions):
            producer.produce(target, copy_of(source, partition, 0, b"abandoned") + DOOMED, partition=partition)
        return producer.flush(timeout_ms / 1000) == 0
    except KafkaException:
        return False
