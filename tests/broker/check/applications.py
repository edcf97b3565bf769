"""Small applications that copy `in` to `out`, with three clients, and the parts that they share."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]  # it has no types
from confluent_kafka import Consumer, Message, Producer

from minibroker import Broker
from tests.clients.kafka_python_client import KafkaConsumer, KafkaProducer
from tests.patience import PATIENCE_S

_READING: Final[dict[str, Any]] = {
    "group_id": "g",
    "client_id": "app-consumer",
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
}
"""The options of both clients whose options are arguments."""


def fill(broker: Broker, count: int, *, first: int = 0, topic: str = "in", partition: int | None = None) -> None:
    """Append inputs with the keys `k0`, `k1` and so on."""
    for number in range(first, first + count):
        broker.produce(topic, str(number), key=f"k{number}", partition=partition)


@contextmanager
def consumer(broker: Broker, name: str = "app-consumer", **config: str | int | bool) -> Iterator[Consumer]:
    """Start a member of the group `g` that has subscribed to `in`. `config` has `_` for `.` in its keys."""
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "client.id": name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "heartbeat.interval.ms": 50,
        **{key.replace("_", "."): value for key, value in config.items()},
    }
    if settings.get("group.protocol") == "consumer":
        del settings["heartbeat.interval.ms"]
    opened = Consumer(settings)
    opened.subscribe(["in"])
    try:
        yield opened
    finally:
        opened.close()


def producer(broker: Broker, name: str = "app-producer", **config: str | int | bool) -> Producer:
    """Return a producer of confluent-kafka. `config` has `_` for `.` in its keys."""
    return Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": name,
            "linger.ms": 0,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 10,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
    )


def read(opened: Consumer, count: int) -> Iterator[Message]:
    """Yield `count` records."""
    while count:
        message = opened.poll(0.1)
        if message is not None and message.error() is None:
            count -= 1
            yield message


def keep_polling(opened: Consumer, until: Callable[[], bool]) -> None:
    """Poll without expecting records, until a condition holds."""
    while not until():
        assert opened.poll(0.02) is None


def copy(output: Producer, message: Message) -> None:
    """Write a record to `out`, and wait for the answer."""
    output.produce("out", message.value(), message.key())
    assert output.flush(PATIENCE_S) == 0


def serial(broker: Broker, count: int, **config: str) -> None:
    """Copy records one by one with confluent-kafka. Each is committed after the answer for its output."""
    with consumer(broker, "app-consumer", **config) as opened:
        output = producer(broker)
        for message in read(opened, count):
            copy(output, message)
            opened.commit(message=message, asynchronous=False)


def batches(broker: Broker, count: int) -> None:
    """Copy records with kafka-python, and commit once at the end."""
    opened = KafkaConsumer(
        "in",
        bootstrap_servers=broker.bootstrap_servers,
        **_READING,
    )
    output = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="app-producer")
    try:
        while count:
            for records in opened.poll(100).values():
                for record in records:
                    output.send("out", record.value, record.key)
                count -= len(records)
        output.flush()
        opened.commit()
    finally:
        output.close()
        opened.close()


async def _concurrent(broker: Broker, count: int) -> None:
    opened = AIOKafkaConsumer(
        "in",
        bootstrap_servers=broker.bootstrap_servers,
        **_READING,
    )
    output = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="app-producer")
    await opened.start()
    await output.start()
    try:
        for _ in range(count):
            record = await opened.getone()
            await output.send_and_wait("out", record.value, record.key)
            await opened.commit({TopicPartition(record.topic, record.partition): record.offset + 1})
    finally:
        await output.stop()
        await opened.stop()


def concurrent(broker: Broker, count: int) -> None:
    """Copy records one by one with aiokafka."""
    asyncio.run(_concurrent(broker, count))


def transactional(broker: Broker, count: int, *, name: str = "app", per_transaction: int = 2) -> None:
    """Copy records in transactions with confluent-kafka (KIP-447)."""
    with consumer(broker, f"{name}-consumer") as opened:
        output = producer(broker, f"{name}-producer", transactional_id=name)
        output.init_transactions(PATIENCE_S)
        while count:
            output.begin_transaction()
            for message in read(opened, min(per_transaction, count)):
                output.produce("out", message.value(), message.key())
                count -= 1
            send_offsets(opened, output)
            output.commit_transaction(PATIENCE_S)


def send_offsets(opened: Consumer, output: Producer, metadata: Consumer | None = None) -> None:
    """Add the positions of a consumer to the transaction."""
    positions = opened.position(opened.assignment())
    known = [position for position in positions if position.offset >= 0]
    output.send_offsets_to_transaction(known, (metadata or opened).consumer_group_metadata(), PATIENCE_S)
