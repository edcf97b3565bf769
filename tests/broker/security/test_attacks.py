"""Unauthenticated clients attack a broker that requires authentication, as listed in docs/security.md.

Each attack is executed, and the page must state its outcome. Attacks on access control lists are in test_bypass.py.
"""

import base64
import json
import socket
import ssl
import struct
import warnings
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from minibroker import Broker, Security
from minibroker.cluster.routing.routes import ROUTES
from minibroker.security.tls.certificates import Certificates
from minibroker.server import tls_server
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delegation_tokens import CreateDelegationTokenRequest
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.primitives import write_uvarint
from tests.broker.security.sasl.login import TlsClient, authenticate, closes, connections_of, handshake, log_in
from tests.broker.security.sasl.scram_client import ScramClient
from tests.broker.socket_client import SocketClient, framed

PAGE: Final = Path(__file__).parents[3] / "docs" / "security.md"
METADATA: Final = MetadataRequest(topics=None)
MOST_HELD: Final = 1 << 20
ALLOWED_FIRST: Final = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}


class Target(NamedTuple):
    """A broker to attack, and the authority that its clients trust."""

    broker: Broker
    certificates: Certificates

    def address(self, listener: str) -> tuple[str, int]:
        host, port = self.broker.bootstrap_servers_of(listener).split(":")
        return host, int(port)

    def client(self, listener: str = "SASL_PLAINTEXT") -> SocketClient:
        if not listener.endswith("SSL"):
            return SocketClient(self.address(listener))
        return TlsClient(self.address(listener), ssl.create_default_context(cafile=self.certificates.ca))

    def closes(self, *sent: bytes, listener: str = "SASL_PLAINTEXT") -> None:
        """Check that the broker closes a connection that sends these bytes, without a response."""
        with self.client(listener) as client:
            for data in sent:
                client.send_bytes(data)
            assert client.is_closed()

    def held(self) -> int:
        """Return the number of bytes that the broker holds for incomplete requests."""

        async def count() -> int:
            return sum(len(each._reader._own or b"") for each in connections_of(self.broker))

        return self.broker.wait(count())


class Attack(NamedTuple):
    """A row of the table, with the function that executes the attack."""

    title: str
    outcome: str
    run: Callable[[Target], None]


ATTACKS: Final[list[Attack]] = []


def attack(title: str, outcome: str) -> Callable[[Callable[[Target], None]], Callable[[Target], None]]:
    """Return a decorator that makes a function the attack of a row."""

    def add(run: Callable[[Target], None]) -> Callable[[Target], None]:
        ATTACKS.append(Attack(title, outcome, run))
        return run

    return add


@pytest.fixture(scope="module")
def target(certificates: Certificates) -> Iterator[Target]:
    """A broker with a listener of each protocol."""
    directory = str(Path(certificates.ca).parent)
    users = {"alice": "secret", "bob": "other"}
    settings: dict[str, str] = {}
    for protocol in ("SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        given = None if protocol == "SASL_PLAINTEXT" else directory
        known = None if protocol == "SSL" else users
        settings |= Security(protocol, users=known, certificates=given).settings()
    settings |= {
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": "x.OAuthBearerLoginModule required;",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "0",
        "connections.max.reauth.ms": "60000",
        "delegation.token.secret.key": "a secret",
    }
    listeners = ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
    with Broker(listeners=listeners, config=settings) as broker:
        yield Target(broker, certificates)


def request(key: int, version: int = 0, body: bytes = b"") -> bytes:
    return framed(struct.pack(">hhih", key, version, 1, -1) + body)


@attack(
    "a request of any API except ApiVersions and SaslHandshake before a login",
    "the broker does not read it, and closes the connection",
)
def every_api(target: Target) -> None:
    for route in ROUTES:
        if route.key not in ALLOWED_FIRST:
            target.closes(request(route.key, route.last))


@attack("such a request after ApiVersions, or between SaslHandshake and its token", "the connection closes")
def between(target: Target) -> None:
    name = struct.pack(">h", 5) + b"PLAIN"
    with target.client() as client:
        handshake(client)
        client.send(METADATA, 9)
        assert client.is_closed()
    with target.client() as client:
        client.send_bytes(request(ApiKey.API_VERSIONS))
        client.receive_frame()
        client.send_bytes(request(ApiKey.API_VERSIONS))  # A single request suffices.
        assert client.is_closed()
    with target.client() as client:
        client.send_bytes(request(ApiKey.SASL_HANDSHAKE, 1, name) + request(ApiKey.METADATA))
        client.receive_frame()
        assert client.is_closed()


@attack(
    "ApiVersions requests that are refused, one after another",
    "two are answered; the third one closes the connection",
)
def refused_versions(target: Target) -> None:
    invalid = b"\x02?\x02?\x00"  # No software has this name.
    for asked in (request(ApiKey.API_VERSIONS, 99), request(ApiKey.API_VERSIONS, 3, b"\x00" + invalid)):
        with target.client() as client:
            client.send_bytes(asked * 50)
            answers = 0
            with suppress(ConnectionError):
                while True:
                    client.receive_frame()
                    answers += 1
            assert answers == 2


@attack("half a megabyte of tagged fields before a login", "the broker reads 127 fields, and closes the connection")
def tagged_fields(target: Target) -> None:
    count = bytearray()
    write_uvarint(count, 250_000)
    tags = bytes(count) + b"\x7f\x00" * 250_000
    target.closes(request(ApiKey.API_VERSIONS, 3, tags))
    target.closes(request(ApiKey.API_VERSIONS, 3, b"\x00\x02a\x02b" + tags))


@attack("SaslAuthenticate without SaslHandshake, or a raw GSSAPI token", "the connection closes")
def tokens_out_of_turn(target: Target) -> None:
    token = b"\0alice\0secret"
    target.closes(request(ApiKey.SASL_AUTHENTICATE, 0, framed(token)))
    target.closes(framed(b"\x60\x82\x02\x5f\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"))


@attack(
    "a wrong password, or a user that does not exist",
    "SASL_AUTHENTICATION_FAILED with the same text for both, and the connection closes. In SCRAM, an unknown user gets "
    "the error one message earlier, as in Kafka",
)
def wrong_passwords(target: Target) -> None:
    messages: set[str | None] = set()
    for name, password in (("alice", "wrong"), ("nobody", "secret"), ("bob", "secret")):
        with target.client() as client:
            answer = log_in(client, name, password)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert client.is_closed()
            messages.add(answer.error_message)
    assert len(messages) == 1
    words: set[str | None] = set()
    for name in ("alice", "nobody"):
        user = ScramClient("SCRAM-SHA-256", name, "wrong")
        with target.client() as client:
            handshake(client, "SCRAM-SHA-256")
            answer = authenticate(client, user.first())
            if answer.error_code == 0:
                answer = authenticate(client, user.answer(bytes(answer.auth_bytes)))
            words.add(answer.error_message)
            assert client.is_closed()
    assert len(words) == 1


@attack("a second password on the same connection", "never read, because the first one closes the connection")
def second_guess(target: Target) -> None:
    token = b"\0alice\0secret"
    with target.client() as client:
        handshake(client)
        wrong = request(ApiKey.SASL_AUTHENTICATE, 0, framed(b"\0alice\0wrong"))
        client.send_bytes(wrong + request(ApiKey.SASL_AUTHENTICATE, 0, framed(token)))
        assert client.receive_frame()[4:6] == struct.pack(">h", ErrorCode.SASL_AUTHENTICATION_FAILED)
        assert client.is_closed()


@attack(
    "a replay of the messages of an intercepted SCRAM login",
    "SASL_AUTHENTICATION_FAILED, because each login has a new nonce",
)
def replay(target: Target) -> None:
    user = ScramClient("SCRAM-SHA-512", "alice", "secret")
    with target.client() as client:
        handshake(client, "SCRAM-SHA-512")
        assert user.trusts(
            bytes(authenticate(client, user.answer(bytes(authenticate(client, user.first()).auth_bytes))).auth_bytes)
        )
    with target.client() as client:
        handshake(client, "SCRAM-SHA-512")
        authenticate(client, user.first())
        assert authenticate(client, user.final).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed()


@attack("an expired token, or a malformed one", '`{"status":"invalid_token"}`')
def bad_tokens(target: Target) -> None:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    for token in (
        f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'exp': 1})}.",
        f"{part({'alg': 'HS256'})}.{part({'sub': 'alice', 'exp': 1e12})}.c2ln",
        "....",
        "a" * 60_000,
    ):
        with target.client() as client:
            handshake(client, "OAUTHBEARER")
            answer = authenticate(client, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
            assert bytes(answer.auth_bytes) == b'{"status":"invalid_token"}'
            answer = authenticate(client, b"\x01")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert client.is_closed()


@attack("a mechanism that is not enabled, such as GSSAPI", "UNSUPPORTED_SASL_MECHANISM, and the connection closes")
def other_mechanisms(target: Target) -> None:
    for mechanism in ("GSSAPI", "SCRAM-SHA-1", "ANONYMOUS", "EXTERNAL", ""):
        with target.client() as client:
            assert handshake(client, mechanism).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert client.is_closed()


@attack(
    "a SCRAM message with channel binding, or with an authorization id that is not the user name",
    "SASL_AUTHENTICATION_FAILED",
)
def scram_headers(target: Target) -> None:
    for message in (b"p=tls-unique,,n=alice,r=x", b"y,,n=alice,r=x", b"n,a=bob,n=alice,r=x"):
        with target.client() as client:
            handshake(client, "SCRAM-SHA-256")
            assert authenticate(client, message).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert client.is_closed()


@attack("TLS below 1.2, or no common cipher suite", "the handshake fails with an alert")
def old_tls(target: Target) -> None:
    weak = ssl.create_default_context(cafile=target.certificates.ca)
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("ECDHE-RSA-AES256-GCM-SHA384")  # The broker's key is not an RSA key.
    old = ssl.create_default_context(cafile=target.certificates.ca)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns that these are outdated.
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    for listener in ("SSL", "SASL_SSL"):
        for context in (weak, old):
            with pytest.raises(ssl.SSLError, match="ALERT"):
                TlsClient(target.address(listener), context)


@attack("plaintext on a TLS port", "the connection closes, and advice is logged")
def plain_on_tls(target: Target) -> None:
    for listener in ("SSL", "SASL_SSL"):
        with SocketClient(target.address(listener)) as client:
            client.send_bytes(request(ApiKey.METADATA, 9))
            assert closes(client)


@attack("TLS on a plaintext port", "the connection closes, and advice is logged")
def tls_on_plain(target: Target) -> None:
    for listener in ("PLAINTEXT", "SASL_PLAINTEXT"):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            TlsClient(target.address(listener), ssl.create_default_context())


@attack(
    "a request above `sasl.server.max.receive.size` (524288 bytes), or of a negative size, before a login",
    "the connection closes as soon as the length has arrived",
)
def oversized(target: Target) -> None:
    for size in (524_289, 2**31 - 1, -1, -(2**31)):
        target.closes(struct.pack(">i", size))
    with target.client() as client:
        log_in(client)
        client.send_bytes(struct.pack(">i", 524_289))  # Requests of this size are allowed now.
        assert len(target.broker.topics()) >= 0
    target.closes(request(ApiKey.SASL_HANDSHAKE, 1, struct.pack(">h", 30_000)))


@attack(
    "a hundred connections that announce a request of 512 KiB, send a few bytes of it and stop",
    "they take at most twice the memory of the bytes sent; all are closed after a minute",
)
def unfinished_requests(target: Target) -> None:
    clients = [target.client() for _ in range(100)]
    try:
        for client in clients:
            client.send_bytes(struct.pack(">i", 524_288) + b"abc")
        log_in_and_ask(target)  # By now all of them have been read.
        assert target.held() < MOST_HELD
        target.broker.clock.advance(60)
        assert all(client.is_closed() for client in clients)
    finally:
        for client in clients:
            client.socket.close()
    assert target.held() == 0


@attack(
    "a hundred TLS connections that send nothing, or only the beginning of a client hello",
    "each takes only a few kilobytes, because no TLS state is created; closed after 30 seconds",
)
def silent_handshakes(target: Target) -> None:
    made: list[SSLProtocol] = []
    with ExitStack() as held, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tls_server, "HANDSHAKE_SECONDS", 0.05)
        patch.setattr(SSLProtocol, "__init__", lambda each, *_, **__: made.append(each))
        clients = [held.enter_context(SocketClient(target.address("SASL_SSL"))) for _ in range(100)]
        for client in clients[::2]:
            client.send_bytes(b"\x16\x03\x01\x02\x00\x01")
        assert all(client.is_closed() for client in clients)
    assert made == []


@attack("more connections from one address than `max.connections.per.ip`", "closed immediately, before a handshake")
def too_many_connections(target: Target) -> None:
    with ExitStack() as held:
        target.broker.configure({"max.connections.per.ip": 3})
        clients = [held.enter_context(SocketClient(target.address("SASL_SSL"))) for _ in range(50)]
        assert all(client.is_closed() for client in clients[3:])
        target.broker.configure({"max.connections.per.ip": None})


@attack("TLS handshakes that are not completed", "closed after 30 seconds, or when the broker stops")
def unfinished_handshakes(target: Target) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tls_server, "HANDSHAKE_SECONDS", 0.05)
        for begun in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"):
            with SocketClient(target.address("SASL_SSL")) as client:
                client.send_bytes(begun)
                assert closes(client)


@attack(
    "reauthentication as another user or with another mechanism",
    "the reauthentication fails, and the connection closes",
)
def other_user(target: Target) -> None:
    with target.client() as client:
        log_in(client)
        assert log_in(client, "bob", "other").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed()
    with target.client() as client:
        log_in(client)
        handshake(client, "SCRAM-SHA-256")
        client.send(METADATA, 9)
        assert client.is_closed()


@attack("requests after the end of a session", "the connection closes before the first request is served")
def late_requests(target: Target) -> None:
    with target.client() as client:
        log_in(client)
        target.broker.clock.advance(61)
        client.send(METADATA, 9)
        assert client.is_closed()


@attack(
    "a request for a delegation token over plaintext, or by a client that logged in with a token",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
)
def tokens_from_tokens(target: Target) -> None:
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    for listener in ("PLAINTEXT", "SSL"):
        with target.client(listener) as client:
            assert client.ask(request, 3).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with target.client() as client:
        log_in(client)
        token = client.ask(request, 3)
        assert token.error_code == 0
    password = base64.b64encode(bytes(token.hmac)).decode()
    user = ScramClient("SCRAM-SHA-256", token.token_id, password, extensions=",tokenauth=true")
    with target.client() as client:
        handshake(client, "SCRAM-SHA-256")
        first = authenticate(client, user.first())
        assert authenticate(client, user.answer(bytes(first.auth_bytes))).error_code == 0
        assert client.ask(request, 3).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def log_in_and_ask(target: Target) -> None:
    with target.client() as client:
        log_in(client)
        assert client.ask(METADATA, 9).brokers


@pytest.mark.parametrize("each", ATTACKS, ids=lambda each: each.run.__name__)
def test_an_attack_comes_to_what_the_page_says(target: Target, each: Attack) -> None:
    row = f"| {each.title} | {each.outcome} |"
    assert row in PAGE.read_text(encoding="utf-8"), f"docs/security.md lacks the row:\n{row}"
    each.run(target)
    log_in_and_ask(target)  # The broker still serves all other clients.


def test_the_page_has_no_other_attacks() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| attack | outcome |\n|---|---|\n")[2].partition("\n\n")[0]
    assert [line for line in table.splitlines() if line.startswith("| ")] == [
        f"| {each.title} | {each.outcome} |" for each in ATTACKS
    ]


def test_why_a_login_has_failed_is_said_once_in_the_log(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "minibroker.support.advice")
    target.broker.asynchronous.services.core.advice._kinds.clear()
    for _ in range(2):
        with target.client() as client:
            log_in(client, "alice", "wrong")
    with target.client() as client:
        handshake(client, "GSSAPI")
    target.held()
    wrong, unknown = caplog.messages
    assert wrong == "/127.0.0.1 failed to authenticate: Authentication failed: Invalid username or password"
    assert unknown.endswith(
        "the mechanism 'GSSAPI' is not enabled, but PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"
    )


def test_a_client_that_does_not_log_in_is_told_how_in_the_log(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "minibroker.support.advice")
    target.broker.asynchronous.services.core.advice._kinds.clear()
    target.closes(request(ApiKey.METADATA, 9))
    target.held()
    assert "give the client security.protocol=SASL_PLAINTEXT" in caplog.text
    target.broker.asynchronous.services.core.advice._kinds.clear()
    caplog.clear()
    with target.client() as client:  # Current clients begin like this.
        client.send_bytes(request(ApiKey.API_VERSIONS))
        client.receive_frame()
        client.send(METADATA, 9)
        assert client.is_closed()
    target.held()
    assert "give the client security.protocol=SASL_PLAINTEXT" in caplog.text
    with socket.create_connection(target.address("PLAINTEXT")):
        pass
