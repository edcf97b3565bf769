"""Groups of all new kinds go from Kafka 4.4.0 to this broker and back, in the midst of what they do."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.broker.socket_client import Address, address_of
from tests.clients.broker_process import BrokerProcess
from tests.kafka import jars
from tests.kafka.consumer_group_scene import ConsumerScene
from tests.kafka.consumer_group_world import NewestWorld
from tests.kafka.coordinators import with_coordinators
from tests.kafka.exchange import errors_of, hand_over
from tests.kafka.exchange_rounds import COORDINATORS, take_turns
from tests.kafka.fixtures import or_skip
from tests.kafka.real_kafka import RealKafka
from tests.kafka.share_group_scripts import ACCEPT, REJECT, RELEASE
from tests.kafka.share_group_world import ShareWorld
from tests.kafka.streams_group_world import StreamsWorld

_PLACE: Final = ("t", 0)
_STATES: Final = "share.coordinator.state.topic"


@pytest.fixture(scope="module")
def config() -> dict[str, str]:
    return {
        **COORDINATORS,
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.max.session.timeout.ms": "600000",
        "group.consumer.session.timeout.ms": "600000",
        f"{_STATES}.replication.factor": "1",
        f"{_STATES}.min.isr": "1",
        f"{_STATES}.num.partitions": "1",
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.heartbeat.interval.ms": "100",
        "group.share.assignment.interval.ms": "0",
        "group.share.initialize.retry.interval.ms": "200",
        "group.share.session.timeout.ms": "60000",
        "group.streams.session.timeout.ms": "60000",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.assignment.interval.ms": "0",
    }


@pytest.fixture
def kafka(tmp_path: Path, config: Mapping[str, str]) -> Iterator[RealKafka]:
    libs = or_skip(lambda: jars.find(version=jars.NEWEST))
    with closing(RealKafka(tmp_path / "kafka", libs, config)) as running:
        yield running


class Scene:
    """A share group and a streams group that one broker is left with, and what each broker says of them.

    Of six records the member of the share group has accepted, released and rejected one each, and has three in hand.
    """

    def __init__(self, address: Address, name: str) -> None:
        self.name = name
        with closing(ShareWorld(address, f"{name}-shares")) as world:
            world.know("t")
            world.configure(share_auto_offset_reset="earliest")
            world.join("a", "t")
            world.settle("t")
            world.produce(_PLACE, b"0", b"1", b"2", b"3", b"4", b"5")
            world.fetch_until("a", _PLACE, range(6), {})
            answer = world.acknowledge("a", {_PLACE: [(0, 0, [ACCEPT]), (1, 1, [RELEASE]), (2, 2, [REJECT])]})
            assert [each.error_code for topic in answer.responses for each in topic.partitions] == [0]
            self.epoch = world.epochs["a"]
        with closing(StreamsWorld(address, f"{name}-streams")) as app:
            app.know("t")
            for member in ("a", "b"):
                app.step(member)
            app.settle_streams()
            app.commit_as("a", app.epochs["a"], 7)
            self.epochs, self.tasks = app.epochs, app.tasks

    @staticmethod
    def create_topics(address: Address, name: str) -> None:
        """Make the topics of a scene: no controller hears of those that others make."""
        for kind in ("shares", "streams"):
            with closing(ShareWorld(address, f"{name}-{kind}")) as world:
                world.create(t=2)

    def go_on(self, address: Address) -> None:
        """The members go on with their epochs; what is not done with comes again, and what was released is counted."""
        with closing(ShareWorld(address, f"{self.name}-shares")) as world:
            world.know("t")
            world.epochs["a"] = self.epoch
            world.settle("t")
            found = world.fetch_until("a", _PLACE, (1, 3, 4, 5), {})
            assert found.keys() == {1, 3, 4, 5}
            assert found[1] == 2
            assert {found[each] for each in (3, 4, 5)} <= {1, 2}, "the end of its connection may have released them"
            world.acknowledge("a", {_PLACE: [(1, 1, [ACCEPT]), (3, 5, [ACCEPT])]})
            world.offsets(_PLACE)
            (topic,) = world.transcript[-1][1]["groups"][0]["topics"]
            assert [each["lag"] for each in topic["partitions"]] == [0]
        with closing(StreamsWorld(address, f"{self.name}-streams")) as app:
            app.know("t")
            app.epochs, app.tasks = dict(self.epochs), dict(self.tasks)
            app.settle_streams()
            assert app.tasks == self.tasks
            app.fetch_as("a", app.epochs["a"])
            assert "'committed_offset': 7" in repr(app.transcript[-1])


@pytest.mark.torture
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_groups_go_from_kafka_to_us_and_back(kafka: RealKafka, ours: BrokerProcess, end: str) -> None:
    kafka.start()
    address = with_coordinators(kafka.bootstrap)
    for name in ("theirs", "ours"):
        Scene.create_topics(address, name)
    theirs = Scene(address, "theirs")
    consumers, others = (ConsumerScene(address, name, NewestWorld) for name in ("consumers", "others"))
    later = ConsumerScene(address, "later", NewestWorld)
    their_way = others.go_on(address)

    hand_over(kafka, ours, end)
    address = address_of(ours.bootstrap)
    theirs.go_on(address)
    for scene in (consumers, others, later):
        assert scene.look(address) == scene.expected
    assert consumers.go_on(address) == their_way
    mine = Scene(address, "ours")

    hand_over(ours, kafka, end)
    address = with_coordinators(kafka.bootstrap)
    mine.go_on(address)
    for scene in (consumers, others, later):
        assert scene.look(address) == scene.expected
    assert later.go_on(address) == their_way
    assert consumers.end(address) == others.end(address)
    assert errors_of(kafka) == []


@pytest.mark.torture
def test_brokers_that_take_turns_on_a_directory_agree_on_everything(kafka: RealKafka, ours: BrokerProcess) -> None:
    take_turns(kafka, ours, rounds=30, seed=11)
