"""The brokers of a process on their sockets: their addresses, and nodes that stop and start again."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from minibroker import Broker
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.harness import fetch_request
from tests.broker.socket_client import SocketClient


async def stop(broker: Broker, *node_ids: int) -> None:
    for node_id in node_ids:
        broker.services.core.cluster.stop_node(node_id)
    await broker.services.core.cluster.wait_until_settled()


async def start(broker: Broker, *node_ids: int) -> None:
    for node_id in node_ids:
        broker.services.core.cluster.start_node(node_id)
    await broker.services.core.cluster.wait_until_settled()


def addresses(broker: Broker) -> list[tuple[str, int]]:
    pairs = (text.rpartition(":") for text in broker.bootstrap_servers.split(","))
    return [(host, int(port)) for host, _, port in pairs]


def metadata(address: tuple[str, int]) -> MetadataResponse:
    with SocketClient(address) as client:
        response = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
    assert isinstance(response, MetadataResponse)
    return response


def is_refused(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.fixture
def three() -> Iterator[Broker]:
    with Broker(brokers=3, topics=["t:3"], config={"default.replication.factor": 3}) as broker:
        yield broker


def test_each_broker_listens_where_the_others_say(three: Broker) -> None:
    where = addresses(three)
    assert len(set(where)) == 3
    assert three.address == where[0]
    for address in where:
        assert [(broker.node_id, broker.host, broker.port) for broker in metadata(address).brokers] == [
            (number, *address) for number, address in enumerate(where, 1)
        ]


def test_ports_and_node_ids_count_up() -> None:
    with ExitStack() as exit_stack:
        while True:  # Repeat this until three consecutive ports are free.
            with socket.create_server(("127.0.0.1", 0)) as free:
                base = free.getsockname()[1]
            try:
                broker = exit_stack.enter_context(
                    Broker(listen=f"127.0.0.1:{base}", brokers=3, config={"node.id": 7}, advertise="broker.test:9092")
                )
            except (OSError, ValueError):
                continue
            break
        assert [port for _, port in addresses(broker)] == [base, base + 1, base + 2]
        brokers = metadata(broker.address).brokers
        assert [(broker.node_id, broker.host, broker.port) for broker in brokers] == [
            (7, "broker.test", 9092),
            (8, "broker.test", 9093),
            (9, "broker.test", 9094),
        ]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"brokers": 0}, "brokers: 0 is not at least 1"),
        ({"brokers": 3, "listen": "127.0.0.1:65534"}, "listen: 3 brokers need the ports from 65534 on"),
        ({"brokers": 2, "advertise": "h:65535"}, "advertise: 2 brokers need the ports from 65535 on"),
    ],
)
def test_brokers_that_cannot_be_are_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Broker(**options)  # type: ignore[arg-type]  # of all kinds


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        with pytest.raises(OSError, match=r"cannot listen on 127\.0\.0\.1:"):
            Broker(listen=f"127.0.0.1:{port - 1}", brokers=2).start()


def test_more_replicas_than_brokers_are_worth_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"default.replication.factor is 3, but there are 2 brokers"):
        Broker(brokers=2, config={"default.replication.factor": 3})


def test_a_node_that_is_stopped_refuses_clients_and_drops_those_that_it_has(three: Broker) -> None:
    first, second, _ = addresses(three)
    with SocketClient(second) as idle, SocketClient(second) as waiting:
        assert idle.ask(MetadataRequest(topics=[]), 12).brokers
        waiting.send(fetch_request(("t", 1, 0), max_wait_ms=60_000), 12)
        three.wait(stop(three, 2))
        for client in (idle, waiting):
            with pytest.raises(ConnectionError):
                client.receive()
    assert is_refused(second)
    assert [broker.node_id for broker in metadata(first).brokers] == [1, 3]


def test_a_node_that_is_started_again_is_found_where_it_was(three: Broker) -> None:
    where = addresses(three)
    three.wait(stop(three, 1, 3))
    assert addresses(three) == where
    three.wait(start(three, 1, 3))
    for address in where:
        assert len(metadata(address).brokers) == 3


def test_a_node_may_be_stopped_and_started_again_and_again_without_waiting(three: Broker) -> None:
    async def flap() -> None:
        for _ in range(5):
            three.services.core.cluster.stop_node(2)
            three.services.core.cluster.start_node(2)
        await three.services.core.cluster.wait_until_settled()

    second = addresses(three)[1]
    for _ in range(3):
        three.wait(flap())
        assert len(metadata(second).brokers) == 3
    three.wait(stop(three, 2))
    assert is_refused(second)


def test_the_port_of_a_node_that_is_down_is_kept_from_others(three: Broker) -> None:
    second = addresses(three)[1]
    three.wait(stop(three, 2))
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(second)


def test_a_broker_may_be_stopped_while_nodes_are_down() -> None:
    with Broker(brokers=3) as broker:
        broker.wait(stop(broker, 1, 2, 3))
        where = addresses(broker)
    for host, port in where:
        with socket.create_server((host, port)):
            pass


def test_a_single_broker_may_be_stopped_and_started_too() -> None:
    with Broker(topics=["t"]) as broker:
        broker.wait(stop(broker, 1))
        assert is_refused(broker.address)
        broker.wait(start(broker, 1))
        (partition,) = metadata(broker.address).topics[0].partitions
        assert (partition.leader_id, partition.leader_epoch) == (1, 2)
