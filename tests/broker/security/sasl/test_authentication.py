"""SASL on a connection: the allowed order of requests, the clients' errors, and the end of sessions."""

import base64
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from minibroker import Broker, Security
from minibroker.clock import Clock, ManualClock
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.messages.sasl import SaslAuthenticateRequest
from tests.broker.harness import frame_of
from tests.broker.security.sasl.login import authenticate, connect, connections_of, handshake, log_in
from tests.broker.security.sasl.scram_client import ScramClient
from tests.broker.socket_client import SocketClient, framed

USERS = {"alice": "secret", "bob": "other"}
METADATA = MetadataRequest(topics=None)
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


class Start:
    """Starts a broker with users, and returns a function that connects to it."""

    def __init__(self, held: ExitStack) -> None:
        self._held = held
        self.broker = Broker()

    def __call__(
        self, config: dict[str, Any] | None = None, *, clock: Clock | None = None, **fields: Any
    ) -> Callable[[], SocketClient]:
        security = Security("SASL_PLAINTEXT", users=USERS, **fields)
        quick = {"connection.failed.authentication.delay.ms": 0}
        broker = Broker(security=security, config=quick | (config or {}), journal=True, clock=clock)
        self.broker = self._held.enter_context(broker)
        return lambda: self._held.enter_context(connect(self.broker, security))


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as held:
        yield Start(held)


def is_served(client: SocketClient) -> bool:
    return bool(client.ask(METADATA, 9).brokers)


def test_a_session_that_outlives_its_connection_keeps_nothing_of_the_login(start: Start) -> None:
    start()
    security = Security("SASL_PLAINTEXT", users=USERS)
    with connect(start.broker, security) as client:
        log_in(client)
        (connection,) = connections_of(start.broker)
        session = connection._session
        assert session.authentication is not None
    with connect(start.broker, security) as other:
        log_in(other)  # By now the broker has noticed the end of the first connection.
        assert is_served(other)
        assert session.authentication is None


@pytest.mark.parametrize("asks_for_versions", [False, True])
def test_who_has_logged_in_is_served_under_his_name(start: Start, *, asks_for_versions: bool) -> None:
    client = start()()
    if asks_for_versions:
        client.send_bytes(struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 99, 5, -1))
        assert client.receive_frame()[:6] == struct.pack(">ih", 5, ErrorCode.UNSUPPORTED_VERSION)
        assert client.ask(VERSIONS, 3).error_code == 0
    assert handshake(client).mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    answer = authenticate(client, b"\0alice\0secret")
    assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, "", 0)
    assert is_served(client)
    (connection,) = connections_of(start.broker)
    assert str(connection._session.principal) == "User:alice"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_after_handshake_0_tokens_come_and_go_without_requests(start: Start, mechanism: str) -> None:
    client = start()()
    handshake(client, mechanism, version=0)

    def exchange(token: bytes) -> bytes:
        client.send_bytes(framed(token))
        return client.receive_frame()

    if mechanism == "PLAIN":
        assert exchange(b"\0alice\0secret") == b""
    else:
        user = ScramClient(mechanism, "alice", "secret")
        assert user.trusts(exchange(user.answer(exchange(user.first()))))
    assert is_served(client)


def test_a_bare_token_may_come_in_one_packet_with_the_handshake(start: Start) -> None:
    client = start()()
    name = b"PLAIN"
    request = struct.pack(">hhihh", ApiKey.SASL_HANDSHAKE, 0, 7, -1, len(name)) + name
    token = b"\0alice\0secret"
    client.send_bytes(framed(request) + framed(token))
    assert client.receive_frame()[:6] == struct.pack(">ih", 7, 0)
    assert client.receive_bytes(4) == bytes(4)
    assert is_served(client)


def test_a_wrong_bare_token_gets_no_answer(start: Start) -> None:
    client = start()()
    handshake(client, version=0)
    client.send_bytes(struct.pack(">i", 3) + b"abc")
    assert client.is_closed()


def test_a_failure_is_told_late(start: Start) -> None:
    client = start({"connection.failed.authentication.delay.ms": 300_000})()
    handshake(client)
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
    client.send(METADATA, 9)  # It is not served meanwhile.
    broker = start.broker
    broker.wait_for_requests(1, api="SaslAuthenticate")
    broker.clock.advance(299)
    assert not broker.requests.entries(api="Metadata")
    broker.clock.advance(1)
    assert client.receive()[1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_closed()


def test_who_does_not_log_in_is_closed_in_the_end(start: Start) -> None:
    client = start()()
    assert client.ask(VERSIONS, 3).error_code == 0
    start.broker.clock.advance(60)
    assert client.is_closed()


def test_who_does_not_log_in_cannot_stay_by_leaving_its_answers_unread(start: Start) -> None:
    client = start()()
    asked = frame_of(VERSIONS, 3)
    unknown = struct.pack(">i", len(asked)) + asked[:2] + struct.pack(">h", 99) + asked[4:]
    with pytest.raises(ConnectionError):
        client.socket.sendall(unknown * 1_000_000)


def test_who_has_logged_in_may_be_silent(start: Start) -> None:
    client = start()()
    log_in(client)
    start.broker.clock.advance(590)
    assert is_served(client)


def test_a_session_that_is_over_ends_with_its_next_request(start: Start) -> None:
    client = start({"connections.max.reauth.ms": 300_000})()
    assert log_in(client).session_lifetime_ms == 300_000
    start.broker.clock.advance(300)
    client.send(METADATA, 9)
    assert client.is_closed()


def test_a_client_may_log_in_again_on_its_connection(start: Start) -> None:
    client = start({"connections.max.reauth.ms": 300_000})()
    log_in(client)
    for _ in range(3):
        start.broker.clock.advance(360)
        assert log_in(client).session_lifetime_ms == 300_000
        assert is_served(client)


def test_logging_in_again_right_away_or_without_need_is_out_of_turn(start: Start) -> None:
    client = start({"connections.max.reauth.ms": 300_000}, clock=ManualClock())()
    log_in(client)
    log_in(client)
    assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_served(client)


def test_sessions_of_tokens_end_with_them(start: Start) -> None:
    def token(exp: float) -> bytes:
        claims = base64.urlsafe_b64encode(json.dumps({"sub": "carol", "exp": exp}).encode()).decode().rstrip("=")
        return f"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.{claims}.\x01\x01".encode()

    connected = start(mechanisms=["OAUTHBEARER"])
    client = connected()
    now_ms = start.broker.wait(_now(start.broker))
    handshake(client, "OAUTHBEARER")
    answer = authenticate(client, token(now_ms / 1000 + 100))
    assert 0 < answer.session_lifetime_ms <= 100_000
    refused = connected()
    handshake(refused, "OAUTHBEARER")
    assert authenticate(refused, token(now_ms / 1000 - 1)).auth_bytes == b'{"status":"invalid_token"}'
    assert authenticate(refused, b"\x01").error_message == '{"status":"invalid_token"}'
    start.broker.clock.advance(101)
    client.send(METADATA, 9)
    assert client.is_closed()


async def _now(broker: Broker) -> int:
    return broker.asynchronous.services.core.clock.now_ms()


def test_neither_the_journal_nor_a_log_shows_a_password(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    connected = start()
    log_in(connected())
    log_in(connected(), password="secret but wrong")
    shown = repr([each.to_json() for each in start.broker.requests]) + caplog.text
    assert "[hidden]" in shown
    assert "secret" not in shown


def test_who_fails_to_log_in_makes_one_short_line_in_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "minibroker.support.advice")
    client = start(mechanisms=["SCRAM-SHA-256"])()
    handshake(client, "SCRAM-SHA-256")
    assert authenticate(client, b"n,,n=eve\nforged" + b"x" * 60_000 + b",r=nonce").error_code
    (line,) = caplog.messages
    assert "eve" in line
    assert line.isprintable()
    assert len(line) < 500
