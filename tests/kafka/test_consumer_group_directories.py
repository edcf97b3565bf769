"""Groups of the consumer protocol go from Kafka 3.9.1 to this broker and back, in the midst of what they do."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.broker.coordinators.groups.member_requests import subscription
from tests.broker.socket_client import Address, address_of
from tests.clients.broker_process import BrokerProcess
from tests.kafka.consumer_group_world import ConsumerWorld
from tests.kafka.coordinators import with_coordinators
from tests.kafka.exchange import errors_of, hand_over, however_it_ends
from tests.kafka.real_kafka import RealKafka

SESSION_MS: Final = 600_000


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


class Scene:
    """A group with two members, of which "a" has to give up something, a static one that is away, and a classic one."""

    def __init__(self, address: Address, name: str) -> None:
        self.name = name
        world = ConsumerWorld(address, name)
        world.create(t=8)
        world.beat("a", 0)
        world.beat("away", 0, instance_id="i")
        world.beat("a", 1, owned={"t": [0, 1, 2, 3]})
        world.beat("away", 2, instance_id="i")
        world.beat("away", -2, instance_id="i")
        world.join("c", "classic", self._protocols(world), session_ms=SESSION_MS, rebalance_ms=SESSION_MS)
        world.beat("a", 2, owned={"t": [0, 1, 2, 3]})
        world.commit_as("classic", 3)
        world.look()
        self.expected = world.transcript[-1]
        world.close()

    def _protocols(self, world: ConsumerWorld) -> tuple[tuple[str, bytes], ...]:
        return (("range", subscription(world.topic("t"))),)

    def look(self, address: Address) -> Any:
        """The response of ConsumerGroupDescribe."""
        world = self._world(address)
        world.look()
        world.close()
        return world.transcript[-1]

    def go_on(self, address: Address) -> list[tuple[str, Any]]:
        """Everybody goes on where he was; what they were told."""
        world = self._world(address)
        world.fetch_as("classic", 3)
        world.beat("again", 0, instance_id="i")
        world.beat("a", 2, owned={"t": [0, 1]})
        world.heartbeat("c", "classic", 3)
        world.beat("a", 3)
        world.look()
        self.expected = world.transcript[-1]
        world.close()
        return world.transcript

    def end(self, address: Address) -> list[tuple[str, Any]]:
        """Everybody goes; what they were told."""
        world = self._world(address)
        world.beat("a", 3)
        world.leave("c", ("classic", None))
        world.beat("a", -1)
        world.beat("again", -1, instance_id="i")
        world.look()
        world.delete()
        world.look()
        world.close()
        return world.transcript

    def _world(self, address: Address) -> ConsumerWorld:
        world = ConsumerWorld(address, self.name)
        world.know("t")
        return world


@however_it_ends("stopped")
def test_groups_of_consumers_go_from_kafka_to_us_and_back(kafka: RealKafka, ours: BrokerProcess, end: str) -> None:
    kafka.start()
    address = with_coordinators(kafka.bootstrap)
    theirs, other, mine = (Scene(address, name) for name in ("theirs", "other", "mine"))
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
