"""Test clients that check whether a broker serves, delays or refuses their connections."""

from contextlib import ExitStack
from typing import Self

from minibroker import Broker
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.socket_client import SocketClient
from tests.patience import PATIENCE_S

PING = MetadataRequest(topics=[])
_ROUNDS = 20


def address_of(broker: Broker, listener: str) -> tuple[str, int]:
    host, port = broker.bootstrap_servers_of(listener).split(",")[0].split(":")
    return host, int(port)


def is_served(client: SocketClient) -> bool:
    """Return whether the client gets a response. False if its connection is closed."""
    try:
        return bool(client.ask(PING, 12).brokers)
    except ConnectionError:
        return False


class Visitors(ExitStack):
    """Clients of one broker, with the addresses of its listeners."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def come(self, listener: str = "PLAINTEXT") -> SocketClient:
        """Connect without sending anything, and give the broker time to accept the connection."""
        client = self.enter_context(SocketClient(address_of(self.broker, listener)))
        self._let_it_run()
        return client

    def served(self, listener: str = "PLAINTEXT") -> SocketClient:
        """Connect, and assert that the client is served."""
        client = self.come(listener)
        assert is_served(client)
        return client

    def waiting(self, listener: str = "PLAINTEXT") -> SocketClient:
        """Connect, and assert that a request is not answered yet."""
        client = self.come(listener)
        client.send(PING, 12)
        assert self.hears_nothing(client)
        return client

    def hears_nothing(self, client: SocketClient) -> bool:
        """Return whether the broker has sent nothing, although it had the time."""
        self._let_it_run()
        client.socket.setblocking(False)
        try:
            client.socket.recv(1)
        except BlockingIOError:
            return True
        finally:
            client.socket.settimeout(PATIENCE_S)
        return False

    def _let_it_run(self) -> None:
        """Wait for some rounds of the broker's event loop, which read everything sent before."""
        for _ in range(_ROUNDS):
            self.broker.wait(_nothing())


async def _nothing() -> None:
    """Take one round of the broker's event loop."""
