"""A broker with several listeners: each tells its own address."""

import socket
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker.cli import main
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.socket_client import SocketClient


def told(address: tuple[str, int]) -> tuple[str, int]:
    """Where a client that has connected to `address` is sent."""
    with SocketClient(address) as client:
        (node,) = client.ask(MetadataRequest(topics=None), 9).brokers
        return node.host, node.port


def test_each_listener_sends_clients_where_it_says() -> None:
    further = ["127.0.0.1:0=broker.test:29092", "127.0.0.1:0"]
    with Broker(advertise="first.test:1", also_listen=further) as broker:
        ports = [door.port for door in broker.twin.state.cluster.first.doors.values()][1:]
        assert told(broker.address) == ("first.test", 1)
        assert told(("127.0.0.1", ports[0])) == ("broker.test", 29092)
        assert told(("127.0.0.1", ports[1])) == ("127.0.0.1", ports[1])
        node_id = next(iter(broker.brokers))
        broker.brokers[node_id].stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", ports[0]))
        broker.brokers[node_id].start()
        broker.reset()
        assert told(("127.0.0.1", ports[0])) == ("broker.test", 29092)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--also-listen", "nonsense"], "also_listen: 'nonsense' is not HOST:PORT"),
        (["--also-listen", "127.0.0.1:0="], "advertise: '' is not HOST:PORT"),
    ],
)
def test_a_listener_that_cannot_be_is_named(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path), *options]) == 1
    assert reason in capsys.readouterr().err
