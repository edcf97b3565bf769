"""Clients that look whether a broker serves them, lets them wait, or does not want them."""

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
    """Does it get an answer? False when it is closed instead."""
    try:
        return bool(client.ask(PING, 12).brokers)
    except ConnectionError:
        return False


class Visitors(ExitStack):
    """Clients of one broker, by address."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def come(self, listener: str = "PLAINTEXT") -> SocketClient:
        """Connect, and say nothing; the broker has had the time to take the connection."""
        client = self.enter_context(SocketClient(address_of(self.broker, listener)))
        self._let_it_run()
        return client

    def served(self, listener: str = "PLAINTEXT") -> SocketClient:
        """Connect, and be served."""
        client = self.come(listener)
        assert is_served(client)
        return client

    def hears_nothing(self, client: SocketClient) -> bool:
        """Does the broker say nothing to it, although it has had the time?"""
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
        """Some rounds of the broker's event loop: all that was sent before is read."""
        for _ in range(_ROUNDS):
            self.broker.wait(_nothing())


async def _nothing() -> None:
    """A round of the broker's event loop."""
