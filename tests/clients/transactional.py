"""Transactional producers: what the tests ask of them, and an adapter for each client."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

import aiokafka  # type: ignore[import-untyped]  # no types
import confluent_kafka as rdkafka

from tests.clients.contract import TIMEOUT, RefusedError
from tests.clients.kafka_python_client import KafkaProducer, OffsetAndMetadata, TopicPartition, kafka_errors

Offsets: TypeAlias = Mapping[tuple[str, int], int]


class FencedError(Exception):
    """Another producer has taken over the transactional id, or the broker has ended the transaction."""


class TransactionalProducer(ABC):
    """A producer with a transactional id, which it has taken over from whoever had it before.

    Every method raises FencedError when the producer has been fenced, and RefusedError for other errors.
    """

    @abstractmethod
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        """Take over the id; the transaction that the one before has left open is aborted."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def send(self, topic: str, value: bytes, partition: int = 0) -> int:
        """Produce a record and wait for it. Returns its offset."""

    @abstractmethod
    def send_offsets(self, group: str, offsets: Offsets) -> None:
        """Commit offsets of a group, by (topic, partition), together with the transaction."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction."""

    @abstractmethod
    def abort(self) -> None:
        """Abort the transaction."""

    @abstractmethod
    def close(self) -> None:
        """Close the client, whatever state it is in."""


class KafkaPythonTransactions(TransactionalProducer):
    """kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        with self._errors():
            self._producer.init_transactions()

    def begin(self) -> None:
        with self._errors():
            self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> int:
        with self._errors():
            offset: int = self._producer.send(topic, value, partition=partition).get(TIMEOUT).offset
            return offset

    def send_offsets(self, group: str, offsets: Offsets) -> None:
        requested_offsets = {
            TopicPartition(*each): OffsetAndMetadata(offset, "", -1) for each, offset in offsets.items()
        }
        with self._errors():
            self._producer.send_offsets_to_transaction(requested_offsets, group)

    def commit(self) -> None:
        with self._errors():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with self._errors():
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except kafka_errors.KafkaError as error:
            raise _refused(error.errno, error) from error


class LibrdkafkaTransactions(TransactionalProducer):
    """confluent-kafka, and so librdkafka."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._bootstrap = bootstrap
        self._producer = rdkafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": timeout_ms,  # which may not be longer
            }
        )
        with self._errors():
            self._producer.init_transactions(TIMEOUT)

    def begin(self) -> None:
        with self._errors():
            self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> int:
        delivered: list[tuple[rdkafka.KafkaError | None, rdkafka.Message]] = []
        with self._errors():
            self._producer.produce(
                topic, value, partition=partition, on_delivery=lambda error, message: delivered.append((error, message))
            )
            self._producer.flush(TIMEOUT)
        ((error, message),) = delivered
        if error is not None:
            with self._errors():  # the delivery was given up; the producer itself knows why
                self._producer.commit_transaction(TIMEOUT)
            raise RefusedError(error.code(), error.str())
        offset = message.offset()
        assert offset is not None
        return offset

    def send_offsets(self, group: str, offsets: Offsets) -> None:
        partitions = [rdkafka.TopicPartition(*each, offset) for each, offset in offsets.items()]
        consumer = rdkafka.Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            with self._errors():
                self._producer.send_offsets_to_transaction(partitions, consumer.consumer_group_metadata(), TIMEOUT)
        finally:
            consumer.close()

    def commit(self) -> None:
        with self._errors():
            self._producer.commit_transaction(TIMEOUT)

    def abort(self) -> None:
        with self._errors():
            self._producer.abort_transaction(TIMEOUT)

    def close(self) -> None:
        self._producer.purge()
        with suppress(rdkafka.KafkaException):  # what has fenced it before
            self._producer.flush(TIMEOUT)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except rdkafka.KafkaException as error:
            raise _refused(error.args[0].code(), error) from error
        except SystemError as error:
            # A fatal error and a delivery came in one poll: confluent-kafka calls back with the exception already set.
            if not isinstance(error.__cause__, rdkafka.KafkaException):
                raise
            raise _refused(error.__cause__.args[0].code(), error) from error


class AiokafkaTransactions(TransactionalProducer):
    """aiokafka, whose event loop runs while a call lasts."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._runner = asyncio.Runner()

        async def start() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            await producer.start()
            return producer

        self._producer = self._run(start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> int:
        offset: int = self._run(self._producer.send_and_wait(topic, value, partition=partition)).offset
        return offset

    def send_offsets(self, group: str, offsets: Offsets) -> None:
        requested_offsets = {aiokafka.TopicPartition(*each): offset for each, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(requested_offsets, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._runner.close()

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._runner.run(asyncio.wait_for(call, TIMEOUT))
        except aiokafka.errors.ProducerFenced as error:
            raise FencedError(str(error)) from error
        except aiokafka.errors.KafkaError as error:
            raise RefusedError(error.errno, repr(error)) from error


def _refused(code: int | None, error: Exception) -> Exception:
    return FencedError(str(error)) if code in _FENCED else RefusedError(-1 if code is None else code, repr(error))


_FENCED: Final = {47, 90, rdkafka.KafkaError._FENCED}
"""INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, and what librdkafka makes of both."""

TRANSACTIONAL: Final[dict[str, type[TransactionalProducer]]] = {
    "kafka-python": KafkaPythonTransactions,
    "librdkafka": LibrdkafkaTransactions,
    "aiokafka": AiokafkaTransactions,
}
