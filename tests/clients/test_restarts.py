"""Acknowledged records are there after a restart, however the broker ended."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as Delivered

from tests.clients.broker_process import BrokerProcess
from tests.clients.conftest import CLIENTS
from tests.clients.contract import TIMEOUT, Client, Message
from tests.clients.kafka_python_client import KafkaConsumer, KafkaProducer, TopicPartition
from tests.sweeps import one_in

ENDS = [BrokerProcess.terminate, BrokerProcess.kill]
CHUNK = 5_000
StartBroker = Callable[..., BrokerProcess]


pytestmark = pytest.mark.usefixtures("refused_connections_are_closed")
ends = pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)


@pytest.mark.parametrize("kind", one_in(3, CLIENTS.values()), ids=CLIENTS)
def test_topics_records_and_times_are_as_they_were(broker_process: StartBroker, kind: type[Client]) -> None:
    broker = broker_process("--topic", "old:3")
    client = kind(broker.bootstrap)
    messages = [
        Message(b"%d" % number, b"key", (("header", b"value"),), 1_000 * (number + 1), number % 3)
        for number in range(900)
    ]
    client.produce("old", messages, compression="lz4")
    before = [client.consume("old", 300, partition=partition) for partition in range(3)]
    for end in ENDS:
        end(broker)
        broker.start()
        # librdkafka looks for the coordinator of its group, and so there is a topic of coordinators.
        assert {topic: count for topic, count in client.topics().items() if not topic.startswith("__")} == {"old": 3}
        for partition, records in enumerate(before):
            assert client.consume("old", 300, partition=partition) == records
            assert client.watermarks("old", partition) == (0, 300)
            assert client.offset_for_time("old", 451_000, partition) == 150
    for number, end in enumerate(reversed(ENDS)):
        assert client.produce("old", [Message(b"new %d" % number, partition=1)]) == [300 + number]
        end(broker)
        broker.start()
        (record,) = client.consume("old", 1, partition=1, start=300 + number)
        assert record.value == b"new %d" % number
    broker.terminate()


@ends
def test_a_log_of_many_segments_is_read_across_their_borders(
    broker_process: StartBroker, end: Callable[[BrokerProcess], None]
) -> None:
    broker = broker_process("--topic", "rolls:1:segment.bytes=50000,index.interval.bytes=1000")
    messages = [Message(b"%d " % number * 200, timestamp=1_000 * (number + 1)) for number in range(2_000)]
    CLIENTS["kafka-python"](broker.bootstrap).produce("rolls", messages)
    assert len(list((broker.data_dir / "rolls-0").glob("*.log"))) > 20
    for _ in range(2):
        for kind in CLIENTS.values():
            client = kind(broker.bootstrap)
            records = client.consume("rolls", len(messages))
            assert [(record.timestamp, record.value) for record in records] == [
                (message.timestamp, message.value) for message in messages
            ]
            for offset in range(0, 2_000, 777):
                assert client.offset_for_time("rolls", 1_000 * offset + 1) == offset
                assert client.consume("rolls", 1, start=offset)[0].value == messages[offset].value
        end(broker)
        broker.start()
    broker.terminate()


@ends
def test_a_default_kafka_python_producer_loses_and_doubles_nothing_when_the_broker_comes_back(
    broker_process: StartBroker, end: Callable[[BrokerProcess], None]
) -> None:
    broker = broker_process("--topic", "numbers")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    send = functools.partial(producer.send, "numbers", partition=0)
    futures = [send(b"%d" % number) for number in range(CHUNK)]
    futures[-1].get(TIMEOUT)
    futures += [send(b"%d" % number) for number in range(CHUNK, 2 * CHUNK)]  # on their way when the broker ends
    end(broker)
    futures += [send(b"%d" % number) for number in range(2 * CHUNK, 3 * CHUNK)]
    broker.start()
    assert [future.get(TIMEOUT).offset for future in futures] == list(range(3 * CHUNK))
    producer.close()
    assert_numbers(broker)
    broker.terminate()


@ends
def test_an_idempotent_librdkafka_producer_loses_and_doubles_nothing_when_the_broker_comes_back(
    broker_process: StartBroker, end: Callable[[BrokerProcess], None]
) -> None:
    broker = broker_process("--topic", "numbers")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    offsets: list[int | None] = []

    def delivered(error: KafkaError | None, message: Delivered) -> None:
        assert error is None, error
        offsets.append(message.offset())

    def send(start: int) -> None:
        for number in range(start, start + CHUNK):
            producer.produce("numbers", b"%d" % number, partition=0, on_delivery=delivered)

    send(0)
    assert producer.flush(TIMEOUT) == 0
    send(CHUNK)
    end(broker)
    send(2 * CHUNK)
    broker.start()
    assert producer.flush(TIMEOUT) == 0
    assert offsets == list(range(3 * CHUNK))
    assert_numbers(broker)
    broker.terminate()


@ends
def test_an_open_consumer_goes_on_where_it_was(
    broker_process: StartBroker, end: Callable[[BrokerProcess], None]
) -> None:
    broker = broker_process("--topic", "numbers")
    client = CLIENTS["kafka-python"](broker.bootstrap)
    client.produce("numbers", [Message(b"%d" % number) for number in range(100)])
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    partition = TopicPartition("numbers", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning()
    assert read_on(consumer, partition, 100) == [b"%d" % number for number in range(100)]
    end(broker)
    broker.start()
    client.produce("numbers", [Message(b"%d" % number) for number in range(100, 200)])
    assert read_on(consumer, partition, 100) == [b"%d" % number for number in range(100, 200)]
    consumer.close()
    broker.terminate()


def read_on(consumer: Any, partition: Any, count: int) -> list[bytes]:
    """The next `count` values; fewer if nothing comes for a while."""
    values: list[bytes] = []
    while len(values) < count:
        batches = consumer.poll(timeout_ms=int(TIMEOUT * 1000), max_records=count - len(values))
        if not batches:
            break
        values += [record.value for record in batches[partition]]
    return values


def assert_numbers(broker: BrokerProcess) -> None:
    client = CLIENTS["librdkafka"](broker.bootstrap)
    assert client.watermarks("numbers") == (0, 3 * CHUNK)
    records = client.consume("numbers", 3 * CHUNK)
    assert [record.value for record in records] == [b"%d" % number for number in range(3 * CHUNK)]
