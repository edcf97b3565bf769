"""Records for the pipeline's tests, written with confluent-kafka."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.patience import PATIENCE_S


class Message(NamedTuple):
    """A record to write."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()


def create(bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # The client must outlive its futures.
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))]).values():
        future.result(PATIENCE_S)


def produce(bootstrap: str, topic: str, messages: Iterable[Message]) -> None:
    """Write records and wait until they are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap})
    _send(producer, topic, messages)
    assert producer.flush(PATIENCE_S) == 0


def produce_in_transaction(
    bootstrap: str, topic: str, messages: Iterable[Message], *, commit: bool, name: str = "transactor"
) -> None:
    producer = begin(bootstrap, topic, messages, name=name)
    if commit:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.abort_transaction(PATIENCE_S)


def begin(bootstrap: str, topic: str, messages: Iterable[Message], *, name: str = "transactor") -> Producer:
    """Write records in a transaction that remains open."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{name}"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    _send(producer, topic, messages)
    assert producer.flush(PATIENCE_S) == 0
    return producer


def _send(producer: Producer, topic: str, messages: Iterable[Message]) -> None:
    for message in messages:
        producer.produce(
            topic,
            message.value,
            message.key,
            message.partition,
            on_delivery=_delivered,
            timestamp=message.timestamp,
            headers=list(message.headers),
        )


def _delivered(error: object, message: object) -> None:
    assert error is None, error
