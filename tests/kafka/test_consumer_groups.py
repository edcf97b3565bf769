"""Groups of the consumer protocol, request by request: Kafka 3.9.1 and this broker answer alike, and write the same."""

import pytest

from tests.broker.socket_client import Address
from tests.kafka.consumer_group_scripts import SCRIPTS
from tests.kafka.consumer_group_world import ConsumerWorld


@pytest.fixture(scope="module")
def config() -> dict[str, str]:
    return {
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.max.size": "3",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.session.timeout.ms": "15000",  # no step of a script takes as long, also on a busy machine
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
    }


@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_and_this_broker_answer_consumers_alike(name: str, kafka_address: Address, our_address: Address) -> None:
    ours, theirs = ConsumerWorld.transcripts_of((our_address, kafka_address), SCRIPTS[name], f"group-{name}")
    assert ours == theirs
