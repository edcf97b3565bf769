"""Groups of the consumer protocol, request by request: Kafka and this broker answer alike, and write the same.

The Kafka is 3.9.1, and 4.4.0 for what has changed since.
"""

from collections.abc import Mapping

import pytest

from tests.broker.socket_client import Address
from tests.kafka.consumer_group_scripts import SCRIPTS
from tests.kafka.consumer_group_world import ConsumerWorld, NewestWorld
from tests.kafka.newest_consumer_group_scripts import CHANGED_IN_4_3, CHANGED_IN_4_4
from tests.sweeps import one_in


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


@pytest.fixture(scope="module")
def our_config(config: Mapping[str, str]) -> dict[str, str]:
    return {**config, "minibroker.emulate": "3.9"}


@pytest.mark.torture
@pytest.mark.parametrize("name", [*SCRIPTS, *CHANGED_IN_4_4])
def test_kafka_and_this_broker_answer_consumers_alike(name: str, kafka_address: Address, our_address: Address) -> None:
    script = {**SCRIPTS, **CHANGED_IN_4_4}[name]
    ours, theirs = ConsumerWorld.transcripts_of((our_address, kafka_address), script, f"group-{name}")
    assert ours == theirs


@pytest.mark.parametrize("name", one_in(5, SCRIPTS))
def test_kafka_4_4_and_this_broker_answer_the_same_requests_alike(
    name: str, groups_kafka: Address, our_groups: Address
) -> None:
    ours, theirs = NewestWorld.transcripts_of((our_groups, groups_kafka), SCRIPTS[name], f"group-{name}")
    assert ours == theirs


@pytest.mark.parametrize("name", [*CHANGED_IN_4_3, *CHANGED_IN_4_4])
def test_kafka_4_4_and_this_broker_answer_consumers_alike(
    name: str, groups_kafka: Address, our_groups: Address
) -> None:
    script = {**CHANGED_IN_4_3, **CHANGED_IN_4_4}[name]
    ours, theirs = ConsumerWorld.transcripts_of((our_groups, groups_kafka), script, f"group-{name}")
    assert ours == theirs
