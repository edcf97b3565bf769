"""Clients that log in over a plain socket, request by request."""

import ssl
from typing import Any

from minibroker import Broker, Security
from minibroker_protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.broker.socket_client import SocketClient


def handshake(client: SocketClient, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
    """Send a SaslHandshake request and return its response."""
    response: SaslHandshakeResponse = client.ask(SaslHandshakeRequest(mechanism=mechanism), version)
    return response


def authenticate(client: SocketClient, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    """Send a SaslAuthenticate request and return its response."""
    response: SaslAuthenticateResponse = client.ask(SaslAuthenticateRequest(auth_bytes=token), version)
    return response


def log_in(client: SocketClient, name: str = "alice", password: str = "secret") -> SaslAuthenticateResponse:
    """Log in with PLAIN and return the last response."""
    assert handshake(client).error_code == 0
    return authenticate(client, f"\0{name}\0{password}".encode())


def connections_of(broker: Broker) -> list[Any]:
    """Return the open connections of all nodes."""
    listeners: list[Any] = [node.listener for node in broker.asynchronous.services.core.cluster.nodes.values()]
    return [each for listener in listeners for each in listener.connections]


class TlsClient(SocketClient):
    """A connection with TLS."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext) -> None:
        super().__init__(address)
        self.socket: Any = context.wrap_socket(self.socket, server_hostname="localhost")


def connect(broker: Broker, security: Security) -> SocketClient:
    """Connect as the listener requires, without logging in."""
    if security.has_tls:
        return TlsClient(broker.address, security.context())
    return SocketClient(broker.address)


def closes(client: SocketClient) -> bool:
    """Return whether the broker closes the connection, possibly after a TLS alert."""
    try:
        while client.socket.recv(1000):
            pass
    except ConnectionResetError:
        pass
    return True
