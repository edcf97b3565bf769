"""aiokafka. Arguments: the bootstrap address and a prefix."""

import asyncio
import contextlib
import importlib.util
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]  # it ships no types
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as TopicOfAnother

from tests.clients.matrix.drivers import harness

ADMIN: Any = importlib.import_module("aiokafka.admin") if importlib.util.find_spec("aiokafka.admin") else None
"""Its admin client, which it has since 0.8. Before, topics come from another client."""

BOOTSTRAP, PREFIX = sys.argv[1:]
TIMEOUT = harness.PATIENCE
GROUP_TIMES = {"session_timeout_ms": harness.SESSION_MS, "heartbeat_interval_ms": 300}


def admin() -> Any:
    return ADMIN.AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)


class Admin:
    """An admin client for the time of a block."""

    async def __aenter__(self) -> Any:
        self._client = admin()
        await self._client.start()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()


@contextlib.asynccontextmanager
async def started(client: Any) -> AsyncGenerator[Any, None]:
    """The client for the time of a block; elderly ones are context managers that do not name themselves."""
    await client.start()
    try:
        yield client
    finally:
        if ADMIN is None and isinstance(client, AIOKafkaConsumer):
            # `assign` asks for metadata. If their answer comes just when 0.7 stops, it never ends, on Kafka as well.
            consumer: Any = client
            await consumer._client._maybe_wait_metadata()
        await client.stop()


def producer(**options: Any) -> contextlib.AbstractAsyncContextManager[Any]:
    values: dict[str, Any] = {"acks": "all", **options}
    return started(AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, **values))


def consumer(*topics: str, **options: Any) -> contextlib.AbstractAsyncContextManager[Any]:
    values: dict[str, Any] = {"auto_offset_reset": "earliest", **options}
    return started(AIOKafkaConsumer(*topics, bootstrap_servers=BOOTSTRAP, **values))


async def new_topic(name: str, partitions: int = 1) -> str:
    topic = f"{PREFIX}-{name}"
    if ADMIN is None:
        client: Any = AdminClient({"bootstrap.servers": BOOTSTRAP, "log_level": 2})
        client.create_topics([TopicOfAnother(topic, partitions, 1)])[topic].result(TIMEOUT)
        return topic
    async with Admin() as each:
        answer = await each.create_topics([ADMIN.NewTopic(topic, partitions, 1)])
        assert answer.topic_errors[0][1] == 0, answer
    return topic


async def send(topic: str, values: Sequence[bytes | None], options: dict[str, Any] | None = None, **record: Any) -> Any:
    async with producer(**(options or {})) as each:
        return [await each.send_and_wait(topic, value=value, partition=0, **record) for value in values]


async def read(topic: str, count: int, start: int = 0, **options: Any) -> list[Any]:
    async with consumer(group_id=None, **options) as each:
        partition = TopicPartition(topic, 0)
        each.assign([partition])
        each.seek(partition, start)
        return await poll(each, count)


async def poll(each: Any, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        for records in (await each.getmany(timeout_ms=200)).values():
            found += records
    return found


async def round_trip(name: str, **options: Any) -> None:
    topic = await new_topic(name)
    values = [b"%d" % number * 50 for number in range(20)]
    await send(topic, values, options)
    assert [record.value for record in await read(topic, 20)] == values


async def create_topic() -> None:
    topic = await new_topic("create-topic", 3)
    async with Admin() as each:
        answer = await each.create_topics([ADMIN.NewTopic(topic, 3, 1)])
        assert answer.topic_errors[0][1] == 36, answer


async def big_records() -> None:
    topic = await new_topic("big-records")
    values = [bytes([number]) * 800_000 for number in range(4)]
    await send(topic, values)
    assert [record.value for record in await read(topic, 4)] == values


async def headers() -> None:
    topic = await new_topic("headers")
    some = [("a", b"1"), ("a", b""), ("b", b"\xff")]
    await send(topic, [b"v"], headers=some)
    assert [tuple(header) for header in (await read(topic, 1))[0].headers] == some


async def nulls() -> None:
    topic = await new_topic("nulls")
    await send(topic, [None, b""], key=b"k")
    await send(topic, [b"v"])
    found = [(record.key, record.value) for record in await read(topic, 3)]
    assert found == [(b"k", None), (b"k", b""), (None, b"v")], found


async def transaction_commit() -> None:
    topic = await new_topic("transaction-commit")
    async with producer(transactional_id=f"{PREFIX}-commit") as each:
        for value in (b"1", b"2"):
            async with each.transaction():
                await each.send_and_wait(topic, value, partition=0)
    found = await read(topic, 2, isolation_level="read_committed")
    assert [record.value for record in found] == [b"1", b"2"]


async def transaction_abort() -> None:
    topic = await new_topic("transaction-abort")
    async with producer(transactional_id=f"{PREFIX}-abort") as each:
        await each.begin_transaction()
        await each.send_and_wait(topic, b"aborted", partition=0)
        await each.abort_transaction()
        async with each.transaction():
            await each.send_and_wait(topic, b"committed", partition=0)
    found = await read(topic, 1, isolation_level="read_committed")
    assert [record.value for record in found] == [b"committed"]
    assert [record.value for record in await read(topic, 2)] == [b"aborted", b"committed"]


async def transaction_offsets() -> None:
    topic = await new_topic("transaction-offsets")
    group = f"{PREFIX}-transaction-offsets"
    partition = TopicPartition(topic, 0)
    async with producer(transactional_id=f"{PREFIX}-offsets") as each, each.transaction():
        await each.send_and_wait(topic, b"v", partition=0)
        await each.send_offsets_to_transaction({partition: 1}, group)
    async with consumer(group_id=group) as each:
        each.assign([partition])
        assert await each.committed(partition) == 1


async def earliest() -> None:
    topic = await new_topic("earliest")
    await send(topic, [b"1", b"2"])
    async with consumer(topic, group_id=None) as each:
        assert [record.value for record in await poll(each, 2)] == [b"1", b"2"]
        partition = TopicPartition(topic, 0)
        assert await each.beginning_offsets([partition]) == {partition: 0}
        assert await each.end_offsets([partition]) == {partition: 2}


async def latest() -> None:
    topic = await new_topic("latest")
    await send(topic, [b"1", b"2"])
    async with consumer(topic, group_id=None, auto_offset_reset="latest") as each:
        assert await each.position(TopicPartition(topic, 0)) == 2
        await send(topic, [b"3"])
        assert [record.value for record in await poll(each, 1)] == [b"3"]


async def timestamp() -> None:
    topic = await new_topic("timestamp")
    for number in range(3):
        await send(topic, [b"%d" % number], timestamp_ms=1_000_000 * (number + 1))
    async with consumer() as each:
        partition = TopicPartition(topic, 0)
        found = (await each.offsets_for_times({partition: 1_000_001}))[partition]
        assert (found.offset, found.timestamp) == (1, 2_000_000), found
        assert (await each.offsets_for_times({partition: 3_000_001}))[partition] is None


async def seek() -> None:
    topic = await new_topic("seek")
    await send(topic, [b"%d" % number for number in range(5)])
    assert [record.value for record in await read(topic, 2, start=3)] == [b"3", b"4"]
    assert (await read(topic, 5, start=99))[0].offset == 0


async def auto_create() -> None:
    topic = f"{PREFIX}-auto-create"
    await send(topic, [b"v"])
    assert (await read(topic, 1))[0].value == b"v"


async def group(name: str) -> tuple[str, str]:
    """A topic of three records and a group that has committed offset 1 in it."""
    topic, group_id = await new_topic(name), f"{PREFIX}-{name}"
    await send(topic, [b"1", b"2", b"3"])
    async with consumer(topic, group_id=group_id, enable_auto_commit=False, max_poll_records=1, **GROUP_TIMES) as each:
        assert (await poll(each, 1))[0].value == b"1"
        await each.commit({TopicPartition(topic, 0): 1})
        assert await each.committed(TopicPartition(topic, 0)) == 1
    return topic, group_id


async def group_resume() -> None:
    topic, group_id = await group("group-resume")
    async with consumer(topic, group_id=group_id, enable_auto_commit=False, **GROUP_TIMES) as each:
        assert [record.value for record in await poll(each, 2)] == [b"2", b"3"]


async def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.05)


async def group_rebalance() -> None:
    topic = await new_topic("group-rebalance", 4)
    group_id = f"{PREFIX}-group-rebalance"
    async with consumer(topic, group_id=group_id, **GROUP_TIMES) as first:
        await eventually(lambda: len(first.assignment()) == 4)
        async with consumer(topic, group_id=group_id, **GROUP_TIMES) as second:
            await eventually(lambda: len(first.assignment()) == len(second.assignment()) == 2)
        await eventually(lambda: len(first.assignment()) == 4)


async def static_member() -> None:
    topic, group_id = await new_topic("static-member"), f"{PREFIX}-static-member"
    for _ in range(2):
        async with consumer(topic, group_id=group_id, group_instance_id="one", **GROUP_TIMES) as each:
            await eventually(lambda each=each: len(each.assignment()) == 1)  # type: ignore[misc]  # bound at once


async def list_topics() -> None:
    topic = await new_topic("list-topics")
    async with Admin() as each:
        assert topic in await each.list_topics()


async def describe_topics() -> None:
    topic = await new_topic("describe-topics", 3)
    async with Admin() as each:
        (found,) = await each.describe_topics([topic])
        assert len(found["partitions"]) == 3, found


def resource(topic: str, **configs: Any) -> Any:
    kinds = ADMIN.config_resource
    return kinds.ConfigResource(kinds.ConfigResourceType.TOPIC, topic, **configs)


async def configs(topic: str) -> str:
    async with Admin() as each:
        (answer,) = await each.describe_configs([resource(topic)])
        return str(answer.resources)


async def describe_configs() -> None:
    assert "retention.ms" in await configs(await new_topic("describe-configs"))


async def alter_configs() -> None:
    topic = await new_topic("alter-configs")
    async with Admin() as each:
        await each.alter_configs([resource(topic, configs={"retention.ms": "123456789"})])
    deadline = time.monotonic() + TIMEOUT
    while "123456789" not in await configs(topic):
        assert time.monotonic() < deadline, "it did not happen in time"


async def create_partitions() -> None:
    topic = await new_topic("create-partitions")
    async with Admin() as each:
        await each.create_partitions({topic: ADMIN.NewPartitions(3)})
        deadline = time.monotonic() + TIMEOUT
        while len((await each.describe_topics([topic]))[0]["partitions"]) != 3:
            assert time.monotonic() < deadline, "it did not happen in time"


async def delete_records() -> None:
    topic = await new_topic("delete-records")
    await send(topic, [b"1", b"2", b"3"])
    partition = TopicPartition(topic, 0)
    async with Admin() as each:
        await each.delete_records({partition: ADMIN.RecordsToDelete(before_offset=2)})
    async with consumer() as each:
        assert await each.beginning_offsets([partition]) == {partition: 2}


async def list_groups() -> None:
    _, group_id = await group("list-groups")
    async with Admin() as each:
        assert group_id in str(await each.list_consumer_groups())


async def describe_groups() -> None:
    _, group_id = await group("describe-groups")
    async with Admin() as each:
        assert group_id in str(await each.describe_consumer_groups([group_id]))


async def list_group_offsets() -> None:
    topic, group_id = await group("list-group-offsets")
    async with Admin() as each:
        assert (await each.list_consumer_group_offsets(group_id))[TopicPartition(topic, 0)].offset == 1


async def cluster() -> None:
    async with Admin() as each:
        found = await each.describe_cluster()
        assert found["cluster_id"], found
        assert found["brokers"], found


async def delete_topic() -> None:
    topic = await new_topic("delete-topic")
    async with Admin() as each:
        await each.delete_topics([topic])
        deadline = time.monotonic() + TIMEOUT
        while topic in await each.list_topics():
            assert time.monotonic() < deadline, "it did not happen in time"


def plain(check: Callable[..., Coroutine[Any, Any, None]], *arguments: str, **options: Any) -> Callable[[], None]:
    return lambda: asyncio.run(check(*arguments, **options))


CHECKS: dict[str, Callable[[], None]] = {
    "create-topic": plain(create_topic),
    "produce": plain(round_trip, "produce"),
    "acks-1": plain(round_trip, "acks-1", acks=1),
    "acks-0": plain(round_trip, "acks-0", acks=0),
    **{codec: plain(round_trip, codec, compression_type=codec) for codec in ("gzip", "snappy", "lz4", "zstd")},
    "idempotent": plain(round_trip, "idempotent", enable_idempotence=True),
    "group-resume": plain(group_resume),
    "group-rebalance": plain(group_rebalance),
    **{
        check.__name__.replace("_", "-"): plain(check)
        for check in (
            big_records,
            headers,
            nulls,
            transaction_commit,
            transaction_abort,
            transaction_offsets,
            earliest,
            latest,
            timestamp,
            seek,
            auto_create,
            static_member,
            list_topics,
            describe_topics,
            describe_configs,
            alter_configs,
            create_partitions,
            delete_records,
            list_groups,
            describe_groups,
            list_group_offsets,
            cluster,
            delete_topic,
        )
    },
}

OF_ADMIN = {
    "alter-configs",
    "cluster",
    "create-partitions",
    "create-topic",
    "delete-records",
    "delete-topic",
    "describe-configs",
    "describe-groups",
    "describe-topics",
    "list-group-offsets",
    "list-groups",
    "list-topics",
}


def lacking() -> set[str]:
    """The features that this version of the client does not have."""
    return {*OF_ADMIN, "static-member", "zstd"} if ADMIN is None else set()


if __name__ == "__main__":
    harness.run({name: check for name, check in CHECKS.items() if name not in lacking()})
