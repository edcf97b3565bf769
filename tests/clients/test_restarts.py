"""Acknowledged records are there after a restart, however the broker ended."""

import functools
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as Delivered

from tests.clients.broker_process import BrokerProcess
from tests.clients.conftest import CLIENTS
from tests.clients.contract import TIMEOUT
from tests.clients.kafka_python_client import KafkaProducer
from tests.sweeps import one_in

CHUNK = 5_000
StartBroker = Callable[..., BrokerProcess]

pytestmark = pytest.mark.usefixtures("refused_connections_are_closed")


@pytest.mark.parametrize("end", one_in(2, [BrokerProcess.terminate, BrokerProcess.kill]), ids=["terminate", "kill"])
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


@pytest.mark.torture
@pytest.mark.parametrize("end", [BrokerProcess.kill, BrokerProcess.terminate], ids=["kill", "terminate"])
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


def assert_numbers(broker: BrokerProcess) -> None:
    client = CLIENTS["librdkafka"](broker.bootstrap)
    assert client.watermarks("numbers") == (0, 3 * CHUNK)
    records = client.consume("numbers", 3 * CHUNK)
    assert [record.value for record in records] == [b"%d" % number for number in range(3 * CHUNK)]
