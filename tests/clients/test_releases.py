"""A client of today against a broker of each generation."""

import pytest

from minibroker import Broker
from minibroker.config.releases import is_before
from tests.clients.contract import TIMEOUT
from tests.clients.kafka_python_client import KafkaConsumer, KafkaProducer


@pytest.mark.parametrize("name", ["0.10.0", "0.11", "2.0", "3.0", "4.4"])
def test_a_client_of_today_finds_its_way(name: str) -> None:
    with Broker(config={"minibroker.emulate": name}, topics=["t"]) as broker:
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, enable_idempotence=not is_before(name, "0.11")
        )
        producer.send("t", b"hello").get(TIMEOUT)
        producer.close()
        settings = {"auto_offset_reset": "earliest", "consumer_timeout_ms": int(TIMEOUT * 1_000)}
        consumer = KafkaConsumer("t", bootstrap_servers=broker.bootstrap_servers, **settings)
        assert next(consumer).value == b"hello"
        consumer.close()
