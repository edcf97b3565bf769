"""aiokafka; each call runs on an event loop of its own."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]  # no types
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]  # no types
from aiokafka.errors import KafkaError, for_code  # type: ignore[import-untyped]  # no types

from tests.clients.contract import TIMEOUT, Client, Compression, Isolation, Message, Record, RefusedError

__all__ = ["AIOKafkaProducer", "Aiokafka"]


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise RefusedError(error.errno, repr(error)) from error


class Aiokafka(Client):
    """It speaks older versions of the protocol than the others."""

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: Compression = "none",
        idempotent: bool = False,
    ) -> list[int]:
        async def run() -> list[int]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if compression == "none" else compression,
                enable_idempotence=idempotent,
                linger_ms=5,
                max_request_size=4 << 20,
            )
            async with producer:
                futures = [
                    await producer.send(
                        topic,
                        key=message.key,
                        value=message.value,
                        headers=list(message.headers),
                        partition=message.partition,
                        timestamp_ms=message.timestamp,
                    )
                    for message in messages
                ]
                await producer.flush()
                with _refusals():
                    return [(await future).offset for future in futures]

        return asyncio.run(asyncio.wait_for(run(), TIMEOUT))

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        start: int | None = None,
        isolation: Isolation = "read_uncommitted",
    ) -> list[Record]:
        async def run() -> list[Record]:
            records: list[Record] = []
            async with self._assigned(topic, partition, isolation) as (consumer, assigned):
                if start is None:
                    await consumer.seek_to_beginning()
                else:
                    consumer.seek(assigned, start)
                while len(records) < count:
                    batches = await consumer.getmany(timeout_ms=1_000, max_records=count - len(records))
                    records += [_record(found) for found in batches.get(assigned, [])]
            return records

        return asyncio.run(asyncio.wait_for(run(), TIMEOUT))

    def watermarks(self, topic: str, partition: int = 0, isolation: Isolation = "read_uncommitted") -> tuple[int, int]:
        async def run() -> tuple[int, int]:
            async with self._assigned(topic, partition, isolation) as (consumer, assigned):
                low = await consumer.beginning_offsets([assigned])
                high = await consumer.end_offsets([assigned])
                return low[assigned], high[assigned]

        return asyncio.run(run())

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        async def run() -> int | None:
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=group) as consumer:
                with _refusals():
                    found: int | None = await consumer.committed(TopicPartition(topic, partition))
                return found

        return asyncio.run(run())

    def create_topic(self, topic: str, partitions: int) -> None:
        async def run() -> None:
            async with self._admin() as admin:
                _check((await admin.create_topics([NewTopic(topic, partitions, 1)])).topic_errors)

        asyncio.run(run())

    @asynccontextmanager
    async def _assigned(
        self, topic: str, partition: int, isolation: Isolation = "read_uncommitted"
    ) -> AsyncIterator[tuple[Any, Any]]:
        """A consumer of one partition, and that partition."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="earliest", isolation_level=isolation
        )
        assigned = TopicPartition(topic, partition)
        async with consumer:
            consumer.assign([assigned])
            with _refusals():
                yield consumer, assigned

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            await admin.start()
            with _refusals():
                yield admin
        finally:
            await admin.close()


def _check(errors: Sequence[Sequence[Any]]) -> None:
    """Raise what the answer says of its one topic: (name, error code, perhaps a text)."""
    ((_, code, *_),) = errors
    if code:
        raise RefusedError(code, for_code(code).__name__)


def _record(found: Any) -> Record:
    return Record(found.offset, found.timestamp, found.key, found.value, tuple(found.headers))
