"""Connections that are too many, and connections that are silent: what Kafka does with them is done here, too."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest

from minibroker import Broker
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.config.configs import BROKER, SET, change_request
from tests.broker.harness import fetch_request, only_partition
from tests.broker.socket_client import Address, SocketClient, address_of
from tests.kafka.real_kafka import RealKafka, free_ports
from tests.patience import PATIENCE_S

PING: Final = MetadataRequest(topics=[])
SHORT_S: Final = 0.3
NOT_FOR_ALL: Final = "Cannot update these configs at default cluster level, broker id must be specified: Set"
PROTOCOLS: Final = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT"

Doors = tuple[Address, Address]
"""Where brokers among themselves come, and where others do."""
Start = Callable[[dict[str, str]], Doors]


class _WithClients(RealKafka):
    """A Kafka with a listener that is not for brokers among themselves."""

    def listeners(self, port: int, controller: int) -> dict[str, str]:
        (self.external,) = free_ports(1)
        external = f"EXTERNAL://127.0.0.1:{self.external}"
        others = super().listeners(port, controller)
        return {name: f"{value},{external}" for name, value in others.items()}


@pytest.fixture(params=["ours", pytest.param("kafka", marks=pytest.mark.torture)])
def start(request: pytest.FixtureRequest, kafka_libs: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a broker with two listeners."""
    with ExitStack() as held:

        def kafka(config: dict[str, str]) -> Doors:
            properties = {"listener.security.protocol.map": PROTOCOLS, **config}
            running = held.enter_context(closing(_WithClients(tmp_path, kafka_libs, properties)))
            running.start()
            return address_of(running.bootstrap), ("127.0.0.1", running.external)

        def ours(config: dict[str, str]) -> Doors:
            listeners = "PLAINTEXT://127.0.0.1:0,EXTERNAL://127.0.0.1:0"
            properties = {"listener.security.protocol.map": PROTOCOLS, **config}
            running = held.enter_context(Broker(listeners=listeners, config=properties))
            return address_of(running.bootstrap_servers), address_of(running.bootstrap_servers_of("EXTERNAL"))

        yield kafka if request.param == "kafka" else ours


def is_served(client: SocketClient) -> bool:
    """Does it get an answer? False when it is closed instead."""
    try:
        return bool(client.ask(PING, 5).brokers)
    except ConnectionError:
        return False


def waits(client: SocketClient) -> bool:
    """Does it ask in vain?"""
    client.send(PING, 5)
    client.socket.settimeout(SHORT_S)
    try:
        return not client.socket.recv(1)
    except TimeoutError:
        return True
    finally:
        client.socket.settimeout(PATIENCE_S)


def test_a_full_broker_lets_clients_wait_and_brokers_push_them_out(start: Start) -> None:
    brokers, others = start({"max.connections": "3", "listener.name.plaintext.max.connections": "10"})
    with ExitStack() as held:
        clients = [held.enter_context(SocketClient(others)) for _ in range(3)]
        assert all(map(is_served, clients))
        late = held.enter_context(SocketClient(others))
        assert waits(late)
        assert is_served(clients[0])  # so that the second is the one that was silent for longest
        inner = held.enter_context(SocketClient(brokers))
        assert is_served(inner)
        assert clients[1].is_closed()
        assert is_served(clients[0])
        more = [held.enter_context(SocketClient(brokers)) for _ in range(4)]
        assert all(map(is_served, more))
        assert clients[0].is_closed()
        assert clients[2].is_closed()
        for client in (inner, *more):
            client.socket.close()
        late.receive()


def test_an_address_has_as_many_connections_as_it_may_and_no_more(start: Start) -> None:
    brokers, others = start({"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "127.0.0.1:3"})
    with ExitStack() as held:
        clients = [held.enter_context(SocketClient(where)) for where in (brokers, others, others)]
        assert all(map(is_served, clients))
        assert not is_served(held.enter_context(SocketClient(others)))
        assert not is_served(held.enter_context(SocketClient(brokers)))


def test_who_is_silent_is_closed_also_while_it_waits_for_an_answer(start: Start) -> None:
    brokers, _ = start({"connections.max.idle.ms": "1500"})
    with SocketClient(brokers) as silent, SocketClient(brokers) as waiting:
        create = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
        while waiting.ask(create, 5).topics[0].error_code:
            pass
        while only_partition(waiting.ask(fetch_request(("t", 0, 0), max_wait_ms=0), 11)).error_code:
            pass
        waiting.send(fetch_request(("t", 0, 0), max_wait_ms=3_600_000), 11)
        assert waiting.is_closed()
        assert silent.is_closed()


def test_limits_are_altered_as_by_kafka(start: Start) -> None:
    brokers, _ = start({})
    none_at_all = (
        "Invalid value org.apache.kafka.common.config.ConfigException: Invalid max.connections 0 for configuration "
        "Invalid dynamic configuration"
    )
    key, own = "max.connections", "listener.name.external.max.connections"
    with SocketClient(brokers) as client:
        for name, change, message in (
            ("1", (SET, key, "0"), none_at_all),
            ("", (SET, key, "0"), none_at_all),
            ("", (SET, key, "7"), None),
            ("", (SET, own, "7"), None),
            ("1", (SET, own, "0"), none_at_all),
            ("", (SET, f"{own}.per.ip", "7"), f"{NOT_FOR_ALL}({own}.per.ip)"),
            ("1", (SET, "max.connections.per.ip.overrides", "127.0.0.1:x"), 'For input string: "x"'),
        ):
            (answer,) = client.ask(change_request(BROKER, name, change), 1).responses
            assert answer.error_message == message
