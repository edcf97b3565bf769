"""A broker with several listeners, each with its own advertised address."""

import socket
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker.cli.main import main
from minibroker.cluster.listeners import ListenerError, ServedListener, port_step, served_listeners
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementallyAlteredConfig,
    IncrementallyAlteredResource,
)
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.socket_client import SocketClient

MAP = {"listener.security.protocol.map": "INSIDE:PLAINTEXT,SECURE:SASL_SSL,PLAINTEXT:PLAINTEXT"}


def advertised(address: tuple[str, int]) -> tuple[str, int]:
    """Return the advertised address in the metadata for a client that has connected to `address`."""
    with SocketClient(address) as client:
        (node,) = client.ask(MetadataRequest(topics=None), 9).brokers
        return node.host, node.port


def test_each_listener_sends_clients_where_it_says() -> None:
    further = ["127.0.0.1:0=broker.test:29092", "127.0.0.1:0"]
    with Broker(advertise="first.test:1", also_listen=further) as broker:
        ports = [endpoint.port for endpoint in broker.asynchronous.services.core.cluster.first.endpoints.values()][1:]
        assert advertised(broker.address) == ("first.test", 1)
        assert advertised(("127.0.0.1", ports[0])) == ("broker.test", 29092)
        assert advertised(("127.0.0.1", ports[1])) == ("127.0.0.1", ports[1])
        node_id = next(iter(broker.brokers))
        broker.brokers[node_id].stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", ports[0]))
        broker.brokers[node_id].start()
        broker.reset()
        assert advertised(("127.0.0.1", ports[0])) == ("broker.test", 29092)


def test_port_0_is_advertised_as_the_port_that_the_broker_listens_on() -> None:
    config = {"advertised.listeners": "PLAINTEXT://localhost:0"}
    with Broker(brokers=2, listeners="PLAINTEXT://127.0.0.1:0", config=config) as broker:
        ports = [int(address.rpartition(":")[2]) for address in broker.bootstrap_servers.split(",")]
        with SocketClient(broker.address) as client:
            nodes = client.ask(MetadataRequest(topics=None), 9).brokers
            assert [(node.host, node.port) for node in nodes] == [("localhost", port) for port in ports]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--also-listen", "nonsense"], "also_listen: 'nonsense' is not HOST:PORT"),
        (["--also-listen", "127.0.0.1:0="], "also_listen: '' is not HOST:PORT"),
        (["--brokers", "2", "--also-listen", "127.0.0.1:65535"], "also_listen: 2 brokers need the ports from 65535 on"),
        (["--brokers", "2", "--also-listen", "127.0.0.1:0=h:65535"], "also_listen: 2 brokers need the ports from 655"),
        (
            ["--brokers", "2", "--listen", "127.0.0.1:65533", "--also-listen", "127.0.0.1:65534"],
            "PLAINTEXT-2: 2 brokers need the ports from 65534 to 65536",
        ),
    ],
)
def test_a_listener_that_cannot_be_is_named(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path), *options]) == 1
    assert reason in capsys.readouterr().err


# Lists of listeners


def test_listeners_have_protocols_and_addresses_and_plaintext_comes_first() -> None:
    configs = {**MAP, "advertised.listeners": "SECURE://kafka.test:1,INSIDE://:2"}
    text = "SECURE://[::1]:9093, INSIDE://:9094,CONTROLLER://:9095,PLAINTEXT://h:9092"
    assert served_listeners(configs, text, "listeners") == [
        ServedListener("PLAINTEXT", "PLAINTEXT", "h", 9092),
        ServedListener("SECURE", "SASL_SSL", "::1", 9093, ("kafka.test", 1)),
        ServedListener("INSIDE", "PLAINTEXT", "0.0.0.0", 9094),
    ]


@pytest.mark.parametrize(
    ("configs", "text", "reason"),
    [
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
            "PLAINTEXT://:1",
            "name the host by which they reach the broker",
        ),
        ({}, "OTHER://:1", "no security protocol is defined for the listener OTHER"),
        ({"listener.security.protocol.map": "OTHER:NONSENSE"}, "OTHER://:1", "it must be one of PLAINTEXT, SSL"),
        ({}, "SSL://:1,SSL://:2", "there are two of SSL"),
        ({}, "CONTROLLER://:1", "has no listener for clients"),
        ({}, "SSL://:65536", "has no port of 0 to 65535"),
        ({}, "SSL", "is not NAME://HOST:PORT"),
        ({"inter.broker.listener.name": "INSIDE"}, "SSL://:1", "there is no listener INSIDE"),
        ({"advertised.listeners": "x"}, "SSL://:1", "advertised.listeners: 'x' is not"),
    ],
)
def test_a_list_that_cannot_be_honored_is_refused(configs: dict[str, str], text: str, reason: str) -> None:
    with pytest.raises(ListenerError, match=reason):
        served_listeners(configs, text, "listeners")


@pytest.mark.parametrize(
    ("ports", "brokers", "step"),
    [
        ([9092], 3, 1),
        ([9092, 9093], 3, 2),
        ([9092, 9093, 9095], 2, 4),
        ([9092, 19092], 3, 1),
        ([0, 9092], 5, 1),
        ([], 9, 1),
    ],
)
def test_no_port_is_given_to_two_brokers(ports: list[int], brokers: int, step: int) -> None:
    assert port_step(ports, brokers) == step


def test_each_broker_has_each_listener() -> None:
    with Broker(brokers=2, also_listen=["127.0.0.1:0=broker.test:29092"]) as broker:
        for address in broker.bootstrap_servers_of("PLAINTEXT-2").split(","):
            host, port = address.split(":")
            with SocketClient((host, int(port))) as client:
                nodes = client.ask(MetadataRequest(topics=None), 9).brokers
            assert [(node.host, node.port) for node in nodes] == [("broker.test", 29092), ("broker.test", 29093)]


def test_a_listener_that_there_is_not_is_named() -> None:
    with Broker() as broker, pytest.raises(ValueError, match="there is no listener 'SSL'; there are PLAINTEXT"):
        broker.bootstrap_servers_of("SSL")


def alter_advertised(address: tuple[str, int], value: str | None) -> int:
    """Alter `advertised.listeners` of broker 1, or remove it for None. Return the error code."""
    key = IncrementallyAlteredConfig(name="advertised.listeners", config_operation=0 if value else 1, value=value)
    resource = IncrementallyAlteredResource(resource_type=4, resource_name="1", configs=[key])
    with SocketClient(address) as client:
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        error: int = client.ask(request, 1).responses[0].error_code
        return error


def test_advertised_listeners_are_altered_while_the_broker_runs(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path), also_listen=["127.0.0.1:0=broker.test:29092"]) as broker:
        further = ("127.0.0.1", list(broker.asynchronous.services.core.cluster.first.endpoints.values())[1].port)
        assert alter_advertised(broker.address, "PLAINTEXT://first.test:1,BROKER://box:9092") == 0
        assert (advertised(broker.address), advertised(further)) == (("first.test", 1), ("broker.test", 29092))
        assert alter_advertised(broker.address, "BROKER://box:9092") == ErrorCode.INVALID_REQUEST
    with Broker(data_dir=str(tmp_path)) as broker:
        assert advertised(broker.address) == ("first.test", 1)
        assert alter_advertised(broker.address, None) == 0
        assert advertised(broker.address) == broker.address
