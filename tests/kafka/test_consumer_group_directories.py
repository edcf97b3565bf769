"""Groups of the consumer protocol go from Kafka 3.9.1 to this broker and back, in the midst of what they do."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.broker.groups.member_requests import subscription
from tests.clients.broker_process import BrokerProcess
from tests.kafka.consumer_group_world import ConsumerWorld
from tests.kafka.real_kafka import RealKafka
from tests.kafka.test_consumer_groups import prepare

_CONFIG: Final = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "600000",
}
SESSION_MS: Final = 600_000
Address = tuple[str, int]


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


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
        self.told = world.transcript[-1]
        world.close()

    def _protocols(self, world: ConsumerWorld) -> tuple[tuple[str, bytes], ...]:
        return (("range", subscription(world.topic("t"))),)

    def look(self, address: Address) -> Any:
        """What ConsumerGroupDescribe says."""
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
        self.told = world.transcript[-1]
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


@pytest.fixture
def kafka(kafka_libs: Path, tmp_path: Path) -> Iterator[RealKafka]:
    running = RealKafka(tmp_path / "kafka", kafka_libs, _CONFIG)
    yield running
    running.close()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[BrokerProcess]:
    (tmp_path / "ours").mkdir()
    options = [f"--set={name}={value}" for name, value in _CONFIG.items()]
    running = BrokerProcess(tmp_path / "ours", options)
    yield running
    running.close()


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_groups_of_consumers_go_from_kafka_to_us_and_back(kafka: RealKafka, ours: BrokerProcess, end: str) -> None:
    kafka.start()
    prepare(_address(kafka.bootstrap))
    theirs, other, mine = (Scene(_address(kafka.bootstrap), name) for name in ("theirs", "other", "mine"))
    their_way = other.go_on(_address(kafka.bootstrap))
    (kafka.kill if end == "killed" else kafka.stop)()

    shutil.copytree(kafka.data_dir, ours.data_dir)
    ours.start()
    address = _address(ours.bootstrap)
    for scene in (theirs, other, mine):
        assert scene.look(address) == scene.told
    assert theirs.go_on(address) == their_way
    our_end = other.end(address)
    mine.go_on(address)
    (ours.kill if end == "killed" else ours.terminate)()

    shutil.rmtree(kafka.data_dir)
    shutil.copytree(ours.data_dir, kafka.data_dir)
    kafka.start()
    address = _address(kafka.bootstrap)
    prepare(address)
    for scene in (theirs, mine):
        assert scene.look(address) == scene.told
        assert scene.end(address) == our_end
    assert "ERROR" not in kafka.output()
