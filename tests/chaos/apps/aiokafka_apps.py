"""Applications on aiokafka. Each has one bug, which `--fixed` removes."""

import asyncio
from typing import Any

from aiokafka import (  # type: ignore[import-untyped]  # it has no types
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
)
from aiokafka.errors import IllegalStateError, KafkaError  # type: ignore[import-untyped]  # no types

from tests.chaos.apps.application import Application, log, run


def clients(app: Application, **of_producer: Any) -> tuple[Any, Any]:
    """Return a consumer of the group, without automatic commits, and a producer."""
    common: dict[str, Any] = {"bootstrap_servers": app.bootstrap, "retry_backoff_ms": 20}
    consumer = AIOKafkaConsumer(
        **common,
        group_id=app.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
        fetch_max_wait_ms=100,
    )
    return consumer, AIOKafkaProducer(**common, acks="all", **of_producer)


async def commit(consumer: Any, offsets: Any = None) -> None:
    """Commit what was polled, or these offsets. After a refusal the records come again."""
    try:
        await consumer.commit(offsets)
    except (KafkaError, IllegalStateError) as refused:
        log("not committed:", refused)


async def checkpoint_moves_back(app: Application) -> None:
    """Takes the records of a batch one by one, and does not know that the group rebalances in the background.

    aio-libs/aiokafka#929
    """
    consumer, producer = clients(app, enable_idempotence=True)
    rebalances = 0
    assigned = asyncio.Event()

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
        async def on_partitions_revoked(self, revoked: Any) -> None:
            nonlocal rebalances
            rebalances += 1
            assigned.clear()

        async def on_partitions_assigned(self, partitions: Any) -> None:
            assigned.set()

    consumer.subscribe([app.source], listener=Listener())
    async with producer, consumer:
        while app.is_running:
            if app.fixed:
                await assigned.wait()
            before = rebalances
            for partition, records in (await consumer.getmany(timeout_ms=100, max_records=20)).items():
                for record in records:
                    await producer.send_and_wait(app.target, record.value, record.key)
                    if app.fixed and rebalances != before:
                        break  # the partition has begun again at its committed offset
                    await commit(consumer, {partition: record.offset + 1})


async def commit_ahead_of_tasks(app: Application) -> None:
    """Commits all that it has polled while tasks are still at work.

    quarkusio/quarkus#40914
    """
    consumer, producer = clients(app)
    consumer.subscribe([app.source])
    async with producer, consumer:
        tasks: set[asyncio.Task[Any]] = set()
        while app.is_running:
            for records in (await consumer.getmany(timeout_ms=100, max_records=10)).values():
                for record in records:
                    tasks.add(asyncio.create_task(producer.send_and_wait(app.target, record.value, record.key)))
            if app.fixed and tasks:
                await asyncio.gather(*tasks)
            tasks = {task for task in tasks if not task.done()}
            await commit(consumer)
        await asyncio.gather(*tasks)


async def commits_as_completed(app: Application) -> None:
    """Commits the highest record whose task has ended, whatever comes before it.

    confluentinc/confluent-kafka-go#1179
    """
    consumer, producer = clients(app, enable_idempotence=True, linger_ms=0)
    consumer.subscribe([app.source])

    async def copy(partition: Any, record: Any) -> tuple[Any, int]:
        await producer.send_and_wait(app.target, record.value, record.key)
        return partition, record.offset + 1

    async with producer, consumer:
        while app.is_running:
            polled = await consumer.getmany(timeout_ms=100, max_records=10)
            tasks = [copy(partition, record) for partition, records in polled.items() for record in records]
            if app.fixed:
                ends = dict(await asyncio.gather(*tasks))
                if ends:
                    await commit(consumer, ends)
            else:
                highest: dict[Any, int] = {}
                for task in asyncio.as_completed(tasks):
                    partition, end = await task
                    if end > highest.get(partition, 0):
                        highest[partition] = end
                        await commit(consumer, {partition: end})


if __name__ == "__main__":
    run(
        commits_as_completed=lambda app: asyncio.run(commits_as_completed(app)),
        checkpoint_moves_back=lambda app: asyncio.run(checkpoint_moves_back(app)),
        commit_ahead_of_tasks=lambda app: asyncio.run(commit_ahead_of_tasks(app)),
    )
