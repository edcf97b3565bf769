"""The feeder of a stream: transactions, some of them aborted, and plain records between them."""

import random
import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.torture.background import BackgroundProducer
from tests.torture.copies import DOOMED
from tests.torture.copy_clients import QUICK
from tests.torture.stream_ledger import StreamLedger

_RECORDS: Final = 20
"""At most in a transaction."""
_DOOMED: Final = 0.15
_PLAIN: Final = 0.3
_PAUSE_S: Final = 0.1
"""At most between two of them."""


class StreamFeeder(BackgroundProducer):
    """Writes, and tells the ledger what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, ledger: StreamLedger, rng: random.Random) -> None:
        super().__init__()
        self.written = 0
        self.aborted = 0
        self._topic = topic
        self._partitions = partitions
        self._ledger = ledger
        self._rng = rng
        self._common: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "message.timeout.ms": 0,
            "linger.ms": 1,
            **QUICK,
        }
        self._plain = Producer({**self._common, "enable.idempotence": True})
        self._transactional = self._take_over()
        self._is_idle = True
        self.start()

    def is_idle(self) -> bool:
        """Whether all is acknowledged or aborted."""
        return self._is_idle

    def standing(self) -> str:
        """The numbers of written records and of aborted transactions."""
        return f"{self.written} written, {self.aborted} aborted"

    def step(self) -> None:
        """Write some records, and rest a moment."""
        # In this order: a reader that sees it idle after the wish was withdrawn can rely on it.
        self._is_idle = False
        if self.is_writing.is_set():
            self._write()
        else:
            self._is_idle = True
        time.sleep(self._rng.random() * _PAUSE_S)

    def _write(self) -> None:
        count = self._rng.randint(1, _RECORDS)
        values = [b"%d" % (self.written + number) for number in range(count)]
        self.written += count
        if self._rng.random() < _PLAIN:
            self._send(self._plain, values)
            while self._plain.flush(0.1) and not self.is_closed:
                pass
        elif not self.aborted or self._rng.random() < _DOOMED:  # A short run has an aborted transaction, too.
            self._transact([value + DOOMED for value in values], commit=False)
            self.aborted += 1
        elif self._transact(values, commit=True):
            self._ledger.acknowledged.update(values)

    def _transact(self, values: Sequence[bytes], *, commit: bool) -> bool:
        """Whether it is committed for sure."""
        producer = self._transactional
        try:
            producer.begin_transaction()
            self._send(producer, values)
            if commit:
                self._until_done(producer.commit_transaction)
                return True
            while producer.flush(0.1) and not self.is_closed:  # an abort would take back what has not left yet
                pass
            self._until_done(producer.abort_transaction)
        except KafkaException as failure:
            if failure.args[0].txn_requires_abort():
                self._until_done(producer.abort_transaction)
            else:
                self._transactional = self._take_over()
        return False

    def _until_done(self, step: Any) -> None:
        while not self.is_closed:
            try:
                step(1.0)
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
            else:
                return

    def _take_over(self) -> Producer:
        producer = Producer({**self._common, "transactional.id": f"{self._topic}-feeder"})
        self._until_done(producer.init_transactions)
        return producer

    def _send(self, producer: Producer, values: Sequence[bytes]) -> None:
        for value in values:
            on_delivery = self._delivered if producer is self._plain else None
            producer.produce(
                self._topic, value, partition=self._rng.randrange(self._partitions), on_delivery=on_delivery
            )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        self._ledger.acknowledged.add(message.value() or b"")
