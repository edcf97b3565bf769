"""confluent-kafka, and so librdkafka."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Delivered
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.clients.contract import TIMEOUT, Client, Compression, Isolation, Message, Record, RefusedError


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise _refused(error.args[0]) from error


def _refused(error: KafkaError) -> RefusedError:
    return RefusedError(error.code(), error.str())


class Librdkafka(Client):
    """It needs a group's name even for partitions that it was assigned by hand, and then never joins that group."""

    def produce(
        self, topic: str, messages: Sequence[Message], *, compression: Compression = "none", idempotent: bool = False
    ) -> list[int]:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "compression.type": compression,
                "enable.idempotence": idempotent,
                "message.max.bytes": 4 << 20,
            }
        )
        offsets = [-1] * len(messages)
        errors: list[KafkaError] = []

        def delivered(index: int) -> Callable[[KafkaError | None, Delivered], None]:
            def note(error: KafkaError | None, message: Delivered) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    offsets[index] = message.offset() or 0

            return note

        with _refusals():
            for index, message in enumerate(messages):
                producer.produce(
                    topic,
                    message.value,
                    message.key,
                    message.partition,
                    headers=list(message.headers),
                    timestamp=message.timestamp or 0,
                    on_delivery=delivered(index),
                )
                producer.poll(0)
            unsent = producer.flush(TIMEOUT)
        if errors:
            raise _refused(errors[0])
        assert not unsent, f"{unsent} of {len(messages)} messages were not acknowledged in time"
        return offsets

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        start: int | None = None,
        isolation: Isolation = "read_uncommitted",
    ) -> list[Record]:
        records: list[Record] = []
        deadline = time.monotonic() + TIMEOUT
        with self._consumer(isolation) as consumer:
            consumer.list_topics(topic, timeout=TIMEOUT)  # or its first question would wait half a second for a leader
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING if start is None else start)])
            while len(records) < count:
                assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
                # It waits for as many as it is asked for, so it is asked for no more than are left.
                for message in consumer.consume(min(count - len(records), 1_000), timeout=1.0):
                    error = message.error()
                    if error is not None:
                        raise _refused(error)
                    records.append(_record(message))
        return records

    def watermarks(self, topic: str, partition: int = 0, isolation: Isolation = "read_uncommitted") -> tuple[int, int]:
        with self._consumer(isolation) as consumer:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT)

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        with self._consumer(group=group) as consumer:
            (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=TIMEOUT)
            return found.offset if found.offset >= 0 else None

    def create_topic(self, topic: str, partitions: int) -> None:
        with self._admin() as admin:
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(TIMEOUT)

    def create_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions. RefusedError if the broker refuses."""
        with self._admin() as admin:
            admin.create_partitions([NewPartitions(topic, total)])[topic].result(TIMEOUT)

    @contextmanager
    def _consumer(
        self, isolation: Isolation = "read_uncommitted", group: str = "assigned by hand"
    ) -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            with _refusals():
                yield consumer
        finally:
            consumer.close()

    @contextmanager
    def _admin(self) -> Iterator[AdminClient]:
        with AdminClient({"bootstrap.servers": self.bootstrap}) as admin, _refusals():
            yield admin


def _record(message: Delivered) -> Record:
    offset, (_, timestamp) = message.offset(), message.timestamp()
    assert offset is not None
    headers: Any = message.headers() or ()  # a list of pairs, though the type allows more
    return Record(offset, timestamp, message.key(), message.value(), tuple(headers))
