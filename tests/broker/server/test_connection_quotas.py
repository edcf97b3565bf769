"""Connection quotas: the number and rate of connections, and those closed for others (KIP-402, KIP-612)."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from minibroker import Broker
from minibroker.clock import ManualClock
from minibroker.security.tls.certificates import Certificates, write_certificates
from minibroker.server.connection_quotas import ConnectionQuotas
from minibroker.server.node_listener import NodeListener
from tests.broker.quotas.asking import alter_request
from tests.broker.security.sasl.login import TlsClient
from tests.broker.server.connecting import Visitors, address_of, is_served
from tests.broker.socket_client import SocketClient

ADVICE = "minibroker.support.advice"
TWO = {
    "listeners": "PLAINTEXT://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT",
}
PER_IP = "max.connections.per.ip"
OVERRIDES = "max.connections.per.ip.overrides"
RATE = "max.connection.creation.rate"

Start = Callable[..., Visitors]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start brokers with a given configuration."""
    with ExitStack() as brokers:

        def run(config: dict[str, Any], **fields: Any) -> Visitors:
            listeners = config.get("listeners")
            others = {key: value for key, value in config.items() if key != "listeners"}
            broker = brokers.enter_context(Broker(listeners=listeners, config=others, clock=ManualClock(), **fields))
            return brokers.enter_context(Visitors(broker))

        yield run


def quotas_of(broker: Broker) -> list[ConnectionQuotas]:
    """Return the internal quotas of each node."""
    listeners = [node.listener for node in broker.asynchronous.services.core.cluster.nodes.values()]
    return [listener.quotas for listener in listeners if isinstance(listener, NodeListener)]


def addresses_of(broker: Broker) -> list[tuple[str, int]]:
    """Return the address of each node."""
    servers = (server.rsplit(":", 1) for server in broker.bootstrap_servers.split(","))
    return [(host, int(port)) for host, port in servers]


def counted(broker: Broker) -> int:
    async def count() -> int:
        return sum(map(len, quotas_of(broker)))

    return broker.wait(count())


async def looked_up(broker: Broker, host: str) -> None:
    """Wait for the addresses of a host, and for all earlier lookups."""
    resolved: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    broker.asynchronous.services.host_names.look_up(host, resolved.set_result)
    await resolved


# A full broker


def test_each_broker_has_room_of_its_own(start: Start) -> None:
    visitors = start({"max.connections": 1}, brokers=2)
    for address in addresses_of(visitors.broker):
        assert is_served(visitors.enter_context(SocketClient(address)))
    assert counted(visitors.broker) == 2


def test_a_full_listener_keeps_nobody_from_another_one(start: Start) -> None:
    visitors = start({**TWO, "listener.name.external.max.connections": 1})
    outside = visitors.served("EXTERNAL")
    waiting = visitors.waiting("EXTERNAL")
    visitors.served()
    outside.socket.close()
    waiting.receive()


def test_brokers_among_themselves_push_out_whoever_was_silent_for_longest(start: Start) -> None:
    visitors = start({**TWO, "max.connections": 3, "listener.name.plaintext.max.connections": 4})
    outside = [visitors.served("EXTERNAL") for _ in range(3)]
    visitors.broker.clock.advance(1)
    assert is_served(outside[0])
    brokers = [visitors.served()]
    assert outside[1].is_closed()
    brokers.append(visitors.served())
    assert outside[2].is_closed()
    assert is_served(outside[0])
    brokers += [visitors.served(), visitors.served()]  # Two more than three, since their listener has its own limit.
    assert outside[0].is_closed()
    brokers.pop().socket.close()
    late = visitors.waiting("EXTERNAL")
    brokers.pop().socket.close()
    late.receive()


def test_the_only_listener_is_not_protected(start: Start) -> None:
    visitors = start({"max.connections": 1})
    first = visitors.served()
    visitors.waiting()
    assert is_served(first)


@pytest.mark.parametrize("most", [0, 1])
def test_a_client_without_room_is_served_once_there_is_more(start: Start, most: int) -> None:
    visitors = start({"max.connections": most})
    for _ in range(most):
        visitors.served()
    waiting = visitors.waiting()
    visitors.broker.configure({"max.connections": most + 1})
    waiting.receive()


def test_who_waits_while_a_broker_stops_is_closed(start: Start) -> None:
    visitors = start({"max.connections": 1})
    visitors.served()
    waiting = [visitors.come() for _ in range(3)]
    visitors.broker.stop()
    assert all(client.is_closed() for client in waiting)


def test_who_waits_while_a_node_is_taken_down_is_closed(start: Start) -> None:
    visitors = start({"max.connections": 1})
    visitors.served()
    waiting = visitors.come()
    node = visitors.broker.brokers[next(iter(visitors.broker.brokers))]
    node.stop()
    assert waiting.is_closed()
    node.start()
    visitors.served()
    assert counted(visitors.broker) == 1


def test_who_has_gone_while_it_waited_leaves_its_turn_to_the_next(start: Start) -> None:
    visitors = start({"max.connections": 1})
    first = visitors.served()
    closed, waiting = visitors.come(), visitors.waiting()
    closed.socket.close()
    first.socket.close()
    waiting.receive()


# Altered limits


def test_of_too_many_those_go_that_were_silent_for_longest(start: Start) -> None:
    visitors = start({})
    clients = [visitors.served() for _ in range(4)]
    visitors.broker.clock.advance(1)
    assert is_served(clients[0])
    assert is_served(clients[2])
    visitors.broker.configure({"max.connections": 2})
    assert clients[1].is_closed()
    assert clients[3].is_closed()
    assert is_served(clients[0])
    assert is_served(clients[2])
    visitors.broker.configure({"max.connections": None})
    visitors.served()


def test_a_listener_may_be_given_less_while_it_serves(start: Start) -> None:
    visitors = start(TWO)
    clients = [visitors.served("EXTERNAL") for _ in range(2)]
    visitors.broker.configure({"listener.name.external.max.connections": 1})
    assert all(map(is_served, clients))  # No connection is closed, but no new one is accepted either.
    waiting = visitors.waiting("EXTERNAL")
    clients[0].socket.close()
    assert visitors.hears_nothing(waiting)
    clients[1].socket.close()
    waiting.receive()


# Limits per address


def test_a_place_of_an_address_is_free_again_once_a_connection_is_closed(start: Start) -> None:
    visitors = start({PER_IP: 1})
    for _ in range(5):
        client = visitors.served()
        client.socket.close()
        while counted(visitors.broker):
            pass


def test_addresses_may_have_limits_of_their_own(start: Start) -> None:
    visitors = start({PER_IP: 0, OVERRIDES: "localhost:1, nowhere.invalid:7"})
    visitors.broker.wait(looked_up(visitors.broker, "localhost"))
    visitors.served()
    assert visitors.come().is_closed()
    visitors.broker.configure({OVERRIDES: "127.0.0.1:2"})
    visitors.served()
    assert visitors.come().is_closed()
    visitors.broker.configure({OVERRIDES: "10.0.0.1:2"})
    assert visitors.come().is_closed()


# Limits of the rate


@pytest.mark.parametrize("key", [RATE, f"listener.name.plaintext.{RATE}"])
def test_connections_that_come_too_fast_have_to_wait(start: Start, caplog: pytest.LogCaptureFixture, key: str) -> None:
    caplog.set_level(logging.INFO, ADVICE)
    visitors = start({key: 1})
    for _ in range(10):
        visitors.served().socket.close()
    late, later = visitors.waiting(), visitors.waiting()
    visitors.broker.clock.advance(1)
    late.receive()
    assert visitors.hears_nothing(later)
    visitors.broker.clock.advance(1)
    later.receive()
    assert [RATE in record.getMessage() for record in caplog.records if record.name == ADVICE] == [True]


def test_brokers_among_themselves_may_come_as_fast_as_they_like(start: Start) -> None:
    visitors = start({**TWO, RATE: 1, f"listener.name.plaintext.{RATE}": 1000})
    for _ in range(30):
        visitors.served().socket.close()
    for _ in range(10):
        visitors.served("EXTERNAL").socket.close()
    visitors.waiting("EXTERNAL")


def test_who_is_closed_for_coming_too_fast_slows_nobody_down(start: Start) -> None:
    visitors = start({RATE: 2})
    with visitors.served() as first:
        first.ask(alter_request(({"ip": "127.0.0.1"}, {"connection_creation_rate": 1})), 1)
        for _ in range(10):
            visitors.served()
        refused = [visitors.come() for _ in range(30)]
        assert visitors.hears_nothing(refused[-1])
        assert counted(visitors.broker) == 11
        visitors.broker.clock.advance(1.5)
        assert all(client.is_closed() for client in refused)
        first.ask(alter_request(({"ip": "127.0.0.1"}, {"connection_creation_rate": None})), 1)
        visitors.served()


def test_each_broker_counts_what_comes_to_it(start: Start) -> None:
    visitors = start({}, brokers=2)
    one, other = addresses_of(visitors.broker)
    with visitors.served() as first:
        first.ask(alter_request(({"ip": None}, {"connection_creation_rate": 1})), 1)
        for _ in range(10):
            with SocketClient(one) as client:
                assert is_served(client)
        with SocketClient(other) as client:
            assert is_served(client)


# TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return write_certificates(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture
def with_tls(start: Start, certificates: Certificates) -> Start:
    """Start brokers with an additional TLS listener."""

    def run(config: dict[str, Any]) -> Visitors:
        keys = {
            "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": certificates.server_keystore,
        }
        return start({**keys, **config})

    return run


@pytest.mark.parametrize("begun", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"])
def test_a_handshake_that_is_not_ended_is_a_connection(with_tls: Start, begun: bytes) -> None:
    visitors = with_tls({PER_IP: 1})
    client = visitors.come("SSL")
    client.send_bytes(begun)
    while not counted(visitors.broker):
        pass
    assert visitors.come("SSL").is_closed()
    assert visitors.come().is_closed()
    client.socket.close()
    while counted(visitors.broker):
        pass
    visitors.served()


def test_a_handshake_that_fails_leaves_its_place(with_tls: Start, certificates: Certificates) -> None:
    visitors = with_tls({"max.connections": 1})
    strict = ssl.create_default_context()
    for _ in range(3):
        with pytest.raises((ConnectionError, ssl.SSLError)):
            TlsClient(address_of(visitors.broker, "SSL"), strict)
    trusting = ssl.create_default_context(cafile=certificates.ca)
    with TlsClient(address_of(visitors.broker, "SSL"), trusting) as client:
        assert is_served(client)
        assert counted(visitors.broker) == 1
    visitors.served()


def test_handshakes_that_are_silent_make_room_for_brokers(with_tls: Start) -> None:
    visitors = with_tls({"max.connections": 2})
    silent = [visitors.come("SSL") for _ in range(2)]
    while counted(visitors.broker) < 2:
        pass
    visitors.served()
    assert silent[0].is_closed()
    assert visitors.hears_nothing(silent[1])


def test_a_hello_in_pieces_is_waited_for(with_tls: Start, certificates: Certificates) -> None:
    visitors = with_tls({})
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=certificates.ca)
    line = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    client = visitors.come("SSL")
    with pytest.raises(ssl.SSLWantReadError):
        line.do_handshake()
    hello = outgoing.read()
    for start, end in ((0, 3), (3, 5), (5, 60), (60, len(hello))):
        assert visitors.hears_nothing(client)
        client.send_bytes(hello[start:end])
    while True:
        incoming.write(client.socket.recv(1 << 16))
        try:
            line.do_handshake()
        except ssl.SSLWantReadError:
            continue
        break
    assert line.version() is not None
