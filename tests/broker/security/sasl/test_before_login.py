"""Limits before login: the bytes, requests and steps that each API can use at most.

A step is a line of Python executed by the broker's thread. The number of steps measures the cost of a request
independently of the machine.
"""

import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from types import FrameType
from typing import Any, Final, NamedTuple

import pytest

from minibroker import Broker, Security
from minibroker.cluster.routing.routes import ROUTES
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.primitives import write_uvarint
from tests.broker.security.sasl.login import log_in
from tests.broker.socket_client import SocketClient, framed

BYTES: Final = 524_288
"""The size of the largest request: `sasl.server.max.receive.size`."""
TOKEN_BYTES: Final = 65_536
"""The size of the largest token. Reading it can take longer than copying it."""
STEPS: Final = 5000
"""Steps that take about a millisecond. Half of them are for the chunks in which so many bytes arrive."""
MANY: Final = 20
USERS: Final = {"alice": "secret"}


class Row(NamedTuple):
    """Requests of one kind.

    Attributes:
        title: the API, and the large part of its request.
        requests: the number of requests answered per connection; the next one closes it.
        frame: the request, of the maximum size.
        before: requests that precede it on the connection, all of which are answered.
    """

    title: str
    requests: int
    frame: bytes
    before: tuple[bytes, ...] = ()


def request(key: int, version: int, body: bytes = b"", filler: bytes = b"\0") -> bytes:
    """Return a request that is padded to the maximum size."""
    data = struct.pack(">hhih", key, version, 1, -1) + body
    return data + filler * ((BYTES - len(data)) // len(filler))


def uvarint(number: int) -> bytes:
    out = bytearray()
    write_uvarint(out, number)
    return bytes(out)


def short(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def handshake(mechanism: str, version: int = 1) -> bytes:
    return struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, version, 1, -1) + short(mechanism)


def token(data: bytes) -> bytes:
    """Return a SaslAuthenticate request."""
    head = struct.pack(">hhih", ApiKey.SASL_AUTHENTICATE, 1, 1, -1)
    return head + framed(data)


def large(start: bytes, filler: bytes = b"x", end: bytes = b"") -> bytes:
    """Return a token that is padded to the maximum size."""
    return start + filler * ((TOKEN_BYTES - len(start) - len(end)) // len(filler)) + end


AUTH: Final = b"auth=Bearer x\1\1"
BEARER: Final = b"n,,\1auth=Bearer "
VERSIONS, HANDSHAKE = ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE
ROWS: Final = [
    Row("ApiVersions of a version that nobody has", 2, request(VERSIONS, 99)),
    Row("ApiVersions with 250,000 tagged fields", 0, request(VERSIONS, 3, b"\0\2a\2b" + uvarint(250_000), b"\x7f\0")),
    Row("ApiVersions with a long name", 0, request(VERSIONS, 3, b"\0" + uvarint(BYTES - 19), b"?")[:-2] + b"\1\0"),
    Row("ApiVersions with bytes behind it", 1, request(VERSIONS, 0)),
    Row("SaslHandshake with a long mechanism", 1, request(HANDSHAKE, 1, struct.pack(">h", 32_767), b"x")),
    Row("SaslHandshake with bytes behind it", 1, request(HANDSHAKE, 1, short("PLAIN"))),
    Row("SaslAuthenticate, PLAIN", 1, token(large(b"\0alice\0")), (handshake("PLAIN"),)),
    Row("SaslAuthenticate, PLAIN of nothing but ends", 1, token(large(b"", b"\0")), (handshake("PLAIN"),)),
    Row("SaslAuthenticate, SCRAM", 2, token(large(b"n,,n=alice,r=")), (handshake("SCRAM-SHA-256"),)),
    Row("SaslAuthenticate, SCRAM with a long name", 1, token(large(b"n,,n=", b"=2C")), (handshake("SCRAM-SHA-256"),)),
    Row("SaslAuthenticate, OAUTHBEARER", 2, token(large(BEARER, b"x", b"\1\1")), (handshake("OAUTHBEARER"),)),
    Row("SaslAuthenticate, OAUTHBEARER of dots", 2, token(large(BEARER, b".", b"\1\1")), (handshake("OAUTHBEARER"),)),
    Row("SaslAuthenticate, pairs", 1, token(large(b"n,,\1", b"a=b\1", AUTH)), (handshake("OAUTHBEARER"),)),
    Row("SaslAuthenticate with a longer token", 1, token(bytes(TOKEN_BYTES + 1)), (handshake("PLAIN"),)),
    Row("a bare token that is longer", 0, bytes(BYTES), (handshake("PLAIN", 0),)),
    Row("a bare token", 0, large(b"\0alice\0"), (handshake("PLAIN", 0),)),
    Row("SaslAuthenticate without SaslHandshake", 0, token(large(b"\0alice\0"))),
    *(
        Row(f"{route.message}, the newest version", 0, request(route.key, route.last))
        for route in ROUTES
        if route.key not in {VERSIONS, HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    ),
]


class Steps:
    """Counts the lines that new threads execute."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        self.count += event == "line"
        return self


class Target(NamedTuple):
    broker: Broker
    steps: Steps

    def wait(self) -> None:
        """Wait until the broker has finished all work that it has started."""
        self.broker.topics()


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    steps = Steps()
    config = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": "x.OAuthBearerLoginModule required;",
        "connection.failed.authentication.delay.ms": "0",
    }
    with ExitStack() as held:
        threading.settrace(steps)
        try:
            broker = held.enter_context(Broker(security=Security("SASL_PLAINTEXT", users=USERS), config=config))
        finally:
            threading.settrace(None)
        with SocketClient(broker.address) as client:  # This loads the modules.
            client.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
            log_in(client)
        yield Target(broker, steps)


@pytest.mark.parametrize("before", [(), (handshake("PLAIN"),), (handshake("PLAIN", 0),)])
def test_a_larger_request_closes_the_connection_by_its_length(target: Target, before: tuple[bytes, ...]) -> None:
    with SocketClient(target.broker.address) as client:
        assert all(is_answered(client, frame) for frame in before)
        client.send_bytes(struct.pack(">i", BYTES + 1))
        assert client.is_closed()


def is_answered(client: SocketClient, frame: bytes) -> bool:
    """Send a request and return whether it is answered. The broker can close the connection before it is fully sent."""
    try:
        client.send_bytes(framed(frame))
        client.receive_frame()
    except ConnectionError:
        return False
    return True


@pytest.mark.parametrize("row", ROWS, ids=[row.title for row in ROWS])
def test_a_client_without_a_login_gets_so_much_and_no_more(target: Target, row: Row) -> None:
    with SocketClient(target.broker.address) as client:
        assert all(is_answered(client, frame) for frame in row.before)
        target.wait()
        before = target.steps.count
        answered = 0
        while answered < MANY and is_answered(client, row.frame):
            answered += 1
        target.wait()
        steps = target.steps.count - before
    assert (answered, steps < STEPS) == (row.requests, True), steps
