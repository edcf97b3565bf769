"""Groups of clients that would stall, or wait for a timer, depending on when a response arrives."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from minibroker import Broker
from minibroker.clock import ManualClock
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.groups import FindCoordinatorRequest, ListGroupsRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.coordinators.groups.member_requests import CHANGED, heartbeat_request, join_request, sync_request
from tests.broker.socket_client import SocketClient
from tests.patience import PATIENCE_S

REBALANCE_IN_PROGRESS = 27
HELD_S = 0.19
HEAD_START_S = 0.005


class Consumer:
    """A consumer with separate connections to a broker and to its coordinator, like kafka-python 3."""

    def __init__(self, ends: ExitStack, address: tuple[str, int], software: str, version: str) -> None:
        self.broker = ends.enter_context(SocketClient(address))
        self.coordinator = ends.enter_context(SocketClient(address))
        for connection in (self.broker, self.coordinator):
            connection.ask(ApiVersionsRequest(client_software_name=software, client_software_version=version), 3)
        self.broker.ask(FindCoordinatorRequest(key="g", key_type=0), 2)

    def ask_for_metadata(self, *topics: str) -> None:
        """Request the metadata of topics."""
        self.broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics]), 8)

    def is_held(self) -> bool:
        """Return whether the coordinator has not responded yet, after the broker has."""
        for _ in range(20):
            self.broker.ask(ListGroupsRequest(), 1)
        self.coordinator.socket.setblocking(False)
        try:
            self.coordinator.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self.coordinator.socket.settimeout(PATIENCE_S)
        return False


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Return a broker with the members' topics."""
    config = getattr(request, "param", {})
    with Broker(topics=["t", "u"], config=config, clock=ManualClock()) as running:
        yield running


Connect = Callable[..., Consumer]


@pytest.fixture
def connect(broker: Broker) -> Iterator[Connect]:
    """Return a function that connects a consumer, by default kafka-python 3, until the end of the test."""
    with ExitStack() as ends:
        yield lambda software="kafka-python", version="3.0.12": Consumer(ends, broker.address, software, version)


def test_a_first_join_waits_until_the_client_has_requested_metadata(broker: Broker, connect: Connect) -> None:
    consumer = connect()
    consumer.coordinator.send(join_request("g", protocols=CHANGED), 3)
    broker.clock.advance(HELD_S)
    assert consumer.is_held()
    consumer.ask_for_metadata()
    consumer.ask_for_metadata("t")
    assert consumer.is_held()
    consumer.ask_for_metadata("t", "u")
    broker.clock.advance(HEAD_START_S)
    assert consumer.coordinator.receive()[1].generation_id == 1


def test_a_first_join_waits_at_most_200_ms(broker: Broker, connect: Connect) -> None:
    consumer = connect()
    consumer.coordinator.send(join_request("g"), 3)
    assert consumer.is_held()
    broker.clock.advance(HELD_S)
    assert consumer.is_held()
    broker.clock.advance(0.01)
    assert consumer.coordinator.receive()[1].generation_id == 1


@pytest.mark.parametrize("broker", [{"group.initial.rebalance.delay.ms": 50}], indirect=True)
def test_a_first_join_also_waits_after_the_initial_delay(broker: Broker, connect: Connect) -> None:
    consumer = connect()
    consumer.coordinator.send(join_request("g"), 3)
    assert consumer.is_held()
    broker.clock.advance(0.05)
    assert consumer.is_held()
    consumer.ask_for_metadata("t")
    broker.clock.advance(HEAD_START_S)
    assert consumer.coordinator.receive()[1].generation_id == 1


@pytest.mark.parametrize("topics", [("t",), ("u", "t")])
def test_a_client_that_already_has_metadata_does_not_wait(connect: Connect, topics: tuple[str, ...]) -> None:
    consumer = connect()
    consumer.ask_for_metadata(*topics)
    assert consumer.coordinator.ask(join_request("g"), 3).generation_id == 1


@pytest.mark.parametrize(
    ("software", "version"), [("kafka-python", "2.2.15"), ("apache-kafka-java", "3.9.1"), ("librdkafka", "3.0.12")]
)
def test_other_clients_do_not_wait_even_for_kafka_python(connect: Connect, software: str, version: str) -> None:
    connect()
    assert connect(software, version).coordinator.ask(join_request("g"), 3).generation_id == 1


@pytest.mark.parametrize("broker", [{"minibroker.client.workarounds.enable": "false"}], indirect=True)
def test_a_broker_without_workarounds_answers_the_first_join(connect: Connect) -> None:
    consumer = connect()
    member = consumer.coordinator.ask(join_request("g"), 3).member_id
    consumer.coordinator.ask(sync_request("g", member, 1, {member: b"1"}), 2)
    assert consumer.coordinator.ask(join_request("g", member), 3).generation_id == 2
    assert consumer.coordinator.ask(sync_request("g", member, 2, {member: b"1"}), 2).error_code == 0


def test_a_member_that_rejoins_without_a_rebalance_must_join_again(connect: Connect) -> None:
    consumer = connect()
    consumer.ask_for_metadata("t")
    coordinator = consumer.coordinator
    member = coordinator.ask(join_request("g"), 3).member_id
    assert coordinator.ask(sync_request("g", member, 1, {member: b"1"}), 2).error_code == 0
    assert coordinator.ask(join_request("g", member), 3).generation_id == 2
    assert coordinator.ask(sync_request("g", member, 2, {member: b"1"}), 2).error_code == REBALANCE_IN_PROGRESS
    assert coordinator.ask(join_request("g", member), 3).generation_id == 3
    assert coordinator.ask(sync_request("g", member, 3, {member: b"1"}), 2).error_code == 0


def test_a_member_that_joins_again_in_a_rebalance_joins_once(connect: Connect) -> None:
    consumer, second = connect(), connect()
    consumer.ask_for_metadata("t")
    second.ask_for_metadata("t")
    coordinator = consumer.coordinator
    member = coordinator.ask(join_request("g"), 3).member_id
    assert coordinator.ask(sync_request("g", member, 1, {member: b"1"}), 2).error_code == 0
    second.coordinator.send(join_request("g"), 3)
    assert second.is_held()
    assert coordinator.ask(join_request("g", member), 3).generation_id == 2
    assert coordinator.ask(sync_request("g", member, 2, {member: b"1"}), 2).error_code == 0


def test_a_first_join_waits_for_pending_members(connect: Connect) -> None:
    first, second = (connect("librdkafka", "2.16") for _ in range(2))
    members = [consumer.coordinator.ask(join_request("g"), 5).member_id for consumer in (first, second)]
    first.coordinator.send(join_request("g", members[0]), 5)
    assert first.is_held()
    assert second.coordinator.ask(join_request("g", members[1]), 5).generation_id == 1
    assert first.coordinator.receive()[1].generation_id == 1


@pytest.mark.parametrize(
    ("software", "version", "is_pending", "held_s"),
    [("librdkafka", "2.16", True, HELD_S), ("aiokafka", "0.14.0", False, 0.09)],
)
def test_a_first_join_stops_waiting_for_a_lost_client(
    broker: Broker, connect: Connect, software: str, version: str, held_s: float, *, is_pending: bool
) -> None:
    first, second = (connect(software, version) for _ in range(2))
    member = first.coordinator.ask(join_request("g"), 5).member_id
    if is_pending:
        second.coordinator.ask(join_request("g"), 5)
    first.coordinator.send(join_request("g", member), 5)
    broker.clock.advance(held_s)
    assert first.is_held()
    broker.clock.advance(0.01)
    assert first.coordinator.receive()[1].generation_id == 1


def test_a_first_join_waits_for_aiokafka_after_its_lookup(connect: Connect) -> None:
    first, second = (connect("aiokafka", "0.14.0") for _ in range(2))
    member = first.coordinator.ask(join_request("g"), 5).member_id
    first.coordinator.send(join_request("g", member), 5)
    assert first.is_held()
    other = second.coordinator.ask(join_request("g"), 5).member_id
    assert first.is_held()
    assert second.coordinator.ask(join_request("g", other), 5).generation_id == 1
    assert first.coordinator.receive()[1].generation_id == 1


@pytest.mark.parametrize(("software", "version"), [("aiokafka", "0.14.0"), ("librdkafka", "2.16")])
def test_a_first_join_does_not_wait_for_a_lookup_of_its_own_or_of_another_client(
    connect: Connect, software: str, version: str
) -> None:
    first = connect(software, version)
    connect("librdkafka", "2.16")
    member = first.coordinator.ask(join_request("g"), 5).member_id
    assert first.coordinator.ask(join_request("g", member), 5).generation_id == 1


def join_before_sync(first: Consumer, second: Consumer) -> str:
    """Join two members, the second one before the SyncGroup of the first, and return the id of the first."""
    member = first.coordinator.ask(join_request("g"), 3).member_id
    second.coordinator.send(join_request("g"), 3)
    assert second.is_held()
    return str(member)


def test_a_join_is_served_after_the_sync_of_sarama(connect: Connect) -> None:
    first, second = (connect("sarama", "1.46") for _ in range(2))
    member = join_before_sync(first, second)
    assert first.coordinator.ask(sync_request("g", member, 1, {member: b"1"}), 2).error_code == 0
    assert first.coordinator.ask(heartbeat_request("g", member, 1), 3).error_code == REBALANCE_IN_PROGRESS
    assert first.coordinator.ask(join_request("g", member), 3).generation_id == 2
    assert second.coordinator.receive()[1].generation_id == 2


def test_a_join_stops_waiting_for_sarama_without_a_sync(broker: Broker, connect: Connect) -> None:
    first, second = (connect("sarama", "1.46") for _ in range(2))
    member = join_before_sync(first, second)
    broker.clock.advance(0.2)
    assert second.is_held()
    sync = sync_request("g", member, 1, {member: b"1"})
    assert first.coordinator.ask(sync, 2).error_code == REBALANCE_IN_PROGRESS
    assert first.coordinator.ask(join_request("g", member), 3).generation_id == 2
    assert second.coordinator.receive()[1].generation_id == 2


def test_a_join_before_the_sync_of_another_client_is_served_immediately(connect: Connect) -> None:
    first, second = connect("librdkafka", "2.16"), connect("sarama", "1.46")
    member = join_before_sync(first, second)
    sync = sync_request("g", member, 1, {member: b"1"})
    assert first.coordinator.ask(sync, 2).error_code == REBALANCE_IN_PROGRESS
