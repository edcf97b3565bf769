"""A transactional producer of librdkafka."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, TypeAlias

import confluent_kafka as rdkafka

from tests.clients.contract import TIMEOUT, RefusedError

Offsets: TypeAlias = Mapping[tuple[str, int], int]


class FencedError(Exception):
    """Another producer has taken over the transactional id, or the broker has ended the transaction."""


class TransactionalProducer:
    """A producer with a transactional id, which it has taken over from whoever had it before.

    Every method raises FencedError when the producer has been fenced, and RefusedError for other errors.
    """

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        """Take over the id; the transaction that the one before has left open is aborted."""
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
        """Begin a transaction."""
        with self._errors():
            self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> int:
        """Produce a record and wait for it. Returns its offset."""
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
        """Commit offsets of a group, by (topic, partition), together with the transaction."""
        partitions = [rdkafka.TopicPartition(*each, offset) for each, offset in offsets.items()]
        consumer = rdkafka.Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            with self._errors():
                self._producer.send_offsets_to_transaction(partitions, consumer.consumer_group_metadata(), TIMEOUT)
        finally:
            consumer.close()

    def commit(self) -> None:
        """Commit the transaction."""
        with self._errors():
            self._producer.commit_transaction(TIMEOUT)

    def abort(self) -> None:
        """Abort the transaction."""
        with self._errors():
            self._producer.abort_transaction(TIMEOUT)

    def close(self) -> None:
        """Close the client, whatever state it is in."""
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


def _refused(code: int | None, error: Exception) -> Exception:
    return FencedError(str(error)) if code in _FENCED else RefusedError(-1 if code is None else code, repr(error))


_FENCED: Final = {47, 90, rdkafka.KafkaError._FENCED}
"""INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, and what librdkafka makes of both."""
