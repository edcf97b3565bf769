"""Groups of the consumer protocol go from Kafka 3.9.1 to this broker and back, in the midst of what they do."""

from collections.abc import Mapping

import pytest

from tests.broker.socket_client import address_of
from tests.clients.broker_process import BrokerProcess
from tests.kafka.consumer_group_scene import ConsumerScene
from tests.kafka.coordinators import with_coordinators
from tests.kafka.exchange import errors_of, hand_over
from tests.kafka.real_kafka import RealKafka


@pytest.fixture(scope="module")
def config() -> dict[str, str]:
    return {
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.max.session.timeout.ms": "600000",
        "group.consumer.session.timeout.ms": "600000",
    }


@pytest.fixture(scope="module")
def our_config(config: Mapping[str, str]) -> dict[str, str]:
    return {**config, "minibroker.emulate": "3.9"}


@pytest.mark.torture
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_groups_of_consumers_go_from_kafka_to_us_and_back(kafka: RealKafka, ours: BrokerProcess, end: str) -> None:
    kafka.start()
    address = with_coordinators(kafka.bootstrap)
    theirs, other, mine = (ConsumerScene(address, name) for name in ("theirs", "other", "mine"))
    their_way = other.go_on(address)

    hand_over(kafka, ours, end)
    address = address_of(ours.bootstrap)
    for scene in (theirs, other, mine):
        assert scene.look(address) == scene.expected
    assert theirs.go_on(address) == their_way
    our_end = other.end(address)
    mine.go_on(address)

    hand_over(ours, kafka, end)
    address = with_coordinators(kafka.bootstrap)
    for scene in (theirs, mine):
        assert scene.look(address) == scene.expected
        assert scene.end(address) == our_end
    assert errors_of(kafka) == []
