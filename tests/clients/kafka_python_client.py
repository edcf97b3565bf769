"""kafka-python."""

import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it loads its schemas in a way that Python 3.11 deprecates
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]  # it ships no types
    from kafka import errors as kafka_errors
    from kafka.net.inet import KafkaNetSocket  # type: ignore[import-untyped]  # it ships no types

from tests.clients.contract import TIMEOUT, Client, Compression, Isolation, Message, Record, RefusedError
from tests.patience import eventually

__all__ = [
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "KafkaPython",
    "TopicPartition",
    "committed_offsets",
    "kafka_errors",
    "learn_topics",
    "poll_until",
]


class _Socket(socket.socket):
    """A socket that is closed with its last reference.

    Version 3.0 forgets a socket that is connecting while its client is closed. Python warns of it in the test that runs
    when its garbage is collected.
    """

    def __del__(self) -> None:
        self.close()


def _socket(_: KafkaNetSocket, family: int, kind: int, protocol: int) -> _Socket:
    return _Socket(family, kind, protocol)


KafkaNetSocket.socket = _socket


def learn_topics(consumer: KafkaConsumer) -> None:
    """Have a member of a group know its topics before it joins.

    Version 3.0 joins twice otherwise, and takes itself for joined for ever when a poll ends meanwhile
    (docs/behavior.md).
    """
    for topic in consumer.subscription():
        consumer.partitions_for_topic(topic)


def poll_until(consumer: KafkaConsumer, condition: Callable[[], bool]) -> None:
    """Have a member of a group poll until the condition holds."""
    learn_topics(consumer)

    def polled() -> bool:
        consumer.poll(timeout_ms=100)
        return condition()

    eventually(polled)


def committed_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    """The committed offsets of a group with their metadata, by topic and partition."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        offsets = admin.list_group_offsets(group)[group]
        return {(each.topic, each.partition): (found.offset, found.metadata or "") for each, found in offsets.items()}
    finally:
        admin.close()


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except kafka_errors.KafkaError as error:
        raise RefusedError(error.errno, repr(error)) from error


class KafkaPython(Client):
    """Its producer is idempotent unless told otherwise; its network runs on a thread of its own."""

    def produce(
        self, topic: str, messages: Sequence[Message], *, compression: Compression = "none", idempotent: bool = False
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
            linger_ms=5,
            max_request_size=4 << 20,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    key=message.key,
                    value=message.value,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp,
                )
                for message in messages
            ]
            producer.flush(TIMEOUT)
            with _refusals():
                return [future.get(TIMEOUT).offset for future in futures]
        finally:
            producer.close()

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
        with self._assigned(topic, partition, isolation) as (consumer, assigned):
            if start is None:
                consumer.seek_to_beginning()
            else:
                consumer.seek(assigned, start)
            while len(records) < count:
                assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
                batches = consumer.poll(timeout_ms=1_000, max_records=count - len(records))
                records += [_record(found) for found in batches.get(assigned, [])]
        return records

    def watermarks(self, topic: str, partition: int = 0, isolation: Isolation = "read_uncommitted") -> tuple[int, int]:
        with self._assigned(topic, partition, isolation) as (consumer, assigned):
            return consumer.beginning_offsets([assigned])[assigned], consumer.end_offsets([assigned])[assigned]

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=group)
        try:
            with _refusals():
                found: int | None = consumer.committed(TopicPartition(topic, partition))
            return found
        finally:
            consumer.close()

    def create_topic(self, topic: str, partitions: int) -> None:
        with self._admin() as admin:
            admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})

    @contextmanager
    def _assigned(
        self, topic: str, partition: int, isolation: Isolation = "read_uncommitted"
    ) -> Iterator[tuple[Any, Any]]:
        """A consumer of one partition, and that partition."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="earliest", isolation_level=isolation
        )
        try:
            assigned = TopicPartition(topic, partition)
            consumer.assign([assigned])
            with _refusals():
                yield consumer, assigned
        finally:
            consumer.close()

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            with _refusals():
                yield admin
        finally:
            admin.close()


def _record(found: Any) -> Record:
    return Record(found.offset, found.timestamp, found.key, found.value, tuple(found.headers))
