"""Apache Kafka with its StandardAuthorizer, and clients of it that say who they are (SASL PLAIN)."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.broker.socket_client import SocketClient, address_of
from tests.kafka.real_kafka import RealKafka, free_ports

PASSWORD: Final = "secret"
_HANDSHAKE: Final = 17
_AUTHENTICATE: Final = 36


class SecuredKafka(RealKafka):
    """A Kafka whose plain listener is for the super user, and whose other listener has users with passwords."""

    def __init__(
        self, directory: Path, libs: Path, users: tuple[str, ...], properties: Mapping[str, str] | None = None
    ) -> None:
        known = " ".join(f'user_{name}="{PASSWORD}"' for name in users)
        secured = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
            ),
        }
        super().__init__(directory, libs, {**secured, **(properties or {})})
        self.users_port = 0

    def listeners(self, port: int, controller: int) -> dict[str, str]:
        """One more, for users."""
        (self.users_port,) = free_ports(1)
        users = f"USERS://127.0.0.1:{self.users_port}"
        return {name: f"{value},{users}" for name, value in super().listeners(port, controller).items()}

    def client(self, user: str | None = None) -> SocketClient:
        """A connection of a user, or of the super user."""
        if user is None:
            return SocketClient(address_of(self.bootstrap))
        client = SocketClient(("127.0.0.1", self.users_port))
        log_in(client, user)
        return client


def log_in(client: Any, user: str, password: str = PASSWORD) -> None:
    """SaslHandshake v1 and SaslAuthenticate v0, byte by byte."""
    mechanism = b"PLAIN"
    _exchange(client, _HANDSHAKE, 1, struct.pack(">h", len(mechanism)) + mechanism)
    token = f"\0{user}\0{password}".encode()
    _exchange(client, _AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)


def _exchange(client: SocketClient, key: int, version: int, body: bytes) -> None:
    frame = struct.pack(">hhih", key, version, 0, -1) + body
    client.send_bytes(struct.pack(">i", len(frame)) + frame)
    answer = client.receive_frame()
    (error,) = struct.unpack_from(">h", answer, 4)
    assert error == 0, answer
