"""The frames of SASL, of this broker and of Kafka: byte for byte."""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from minibroker import Broker
from minibroker_protocol.api_keys import ApiKey
from tests.broker.security.sasl.scram_client import ScramClient
from tests.broker.socket_client import SocketClient
from tests.kafka.secured_kafka import SecuredKafka

HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE
AUTHENTICATE: Final = ApiKey.SASL_AUTHENTICATE
MECHANISMS: Final = "PLAIN,SCRAM-SHA-256"
LOGIN: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="secret";'
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
CONFIG: Final = {
    "sasl.enabled.mechanisms": MECHANISMS,
    "listener.name.users.plain.sasl.jaas.config": LOGIN,
    "listener.name.users.scram-sha-256.sasl.jaas.config": SCRAM,
    "connections.max.reauth.ms": "3600000",
}

Connect = Callable[[], SocketClient]


class Line:
    """One connection, and what it has heard: bodies without their correlation ids, or None for its end."""

    def __init__(self, client: SocketClient) -> None:
        self._client = client
        self.heard: list[bytes | None] = []

    def ask(self, key: int, version: int, body: bytes = b"", *, flexible: bool = False) -> bytes | None:
        """One request; a flexible one has tagged fields after its header, and its answer too."""
        tags = b"\0" if flexible else b""
        return self.tell(struct.pack(">hhih", key, version, 7, -1) + tags + body, skip=4 + len(tags))

    def tell(self, frame: bytes, skip: int = 0) -> bytes | None:
        """Anything, with its length in front."""
        heard: bytes | None = None
        with suppress(ConnectionError):
            self._client.send_bytes(struct.pack(">i", len(frame)) + frame)
            heard = self._client.receive_frame()[skip:]
        self.heard.append(heard)
        return heard

    def handshake(self, mechanism: str, version: int = 1) -> None:
        """SaslHandshake, whose mechanisms are sorted: Kafka has them in no order."""
        answer = self.ask(HANDSHAKE, version, _text(mechanism))
        if answer is not None and len(answer) > 6:
            names = sorted(name for name in MECHANISMS.split(",") if name.encode() in answer)
            self.heard[-1] = answer[:6] + ",".join(names).encode()

    def authenticate(self, token: bytes, version: int = 1) -> bytes | None:
        """SaslAuthenticate v0-1."""
        return self.ask(AUTHENTICATE, version, struct.pack(">i", len(token)) + token)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


Step = Callable[[Line], object]


def handshake(mechanism: str, version: int = 1) -> Step:
    return lambda line: line.handshake(mechanism, version)


def token(token: bytes, version: int = 1) -> Step:
    return lambda line: line.authenticate(token, version)


def told(frame: bytes) -> Step:
    return lambda line: line.tell(frame)


PLAIN: Final = handshake("PLAIN")
ALICE: Final = token(b"\0alice\0secret")
STORIES: Final[dict[str, Sequence[Step]]] = {
    "logs in, and again, and too soon": (PLAIN, ALICE) * 3,
    "wrong password": (PLAIN, token(b"\0alice\0wrong")),
    "unknown user": (PLAIN, token(b"\0nobody\0secret", 0)),
    "malformed": (PLAIN, token(b"nonsense")),
    "empty name": (PLAIN, token(b"\0\0secret")),
    "empty password": (PLAIN, token(b"\0alice\0")),
    "another id": (PLAIN, token(b"bob\0alice\0secret")),
    "unknown mechanism": (handshake("GSSAPI"),),
    "unknown mechanism in version 0": (handshake("SCRAM-SHA-1", 0),),
    "unknown SCRAM user": (handshake("SCRAM-SHA-256"), token(ScramClient("SCRAM-SHA-256", "nobody", "x").first())),
    "malformed SCRAM": (handshake("SCRAM-SHA-256"), token(b"y,,n=alice,r=x")),
    "bare tokens": (handshake("PLAIN", 0), told(b"\0alice\0secret")),
    "wrong bare token": (handshake("PLAIN", 0), told(b"\0alice\0wrong")),
    "metadata first": (lambda line: line.ask(ApiKey.METADATA, 1, struct.pack(">i", -1)),),
    "token first": (ALICE,),
    "Kerberos first": (told(b"\x60\x82\x02\x5f\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"),),
    "changes its name": (PLAIN, ALICE, PLAIN, token(b"\0bob\0secret")),
    "changes its mechanism": (PLAIN, ALICE, handshake("SCRAM-SHA-256"), token(b"n,,n=alice,r=x")),
    "too large": (told(bytes(524_289)),),
}


@pytest.fixture(scope="module")
def theirs(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    kafka = SecuredKafka(tmp_path_factory.mktemp("kafka"), kafka_libs, ("alice", "bob"), CONFIG)
    kafka.start()
    yield lambda: SocketClient(("127.0.0.1", kafka.users_port))
    kafka.stop()


@pytest.fixture(scope="module")
def ours() -> Iterator[Connect]:
    given = {**CONFIG, "listener.security.protocol.map": "USERS:SASL_PLAINTEXT"}
    with Broker(listeners="USERS://127.0.0.1:0", config=given) as broker:
        yield lambda: SocketClient(broker.address)


@pytest.mark.parametrize("story", STORIES)
def test_clients_hear_the_same(ours: Connect, theirs: Connect, story: str) -> None:
    heard: list[list[bytes | None]] = []
    for connect in (ours, theirs):
        with connect() as client:
            line = Line(client)
            for step in STORIES[story]:
                step(line)
            heard.append(line.heard)
    assert heard[0] == heard[1]
