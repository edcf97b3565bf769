"""The page's recorder and its ring: the bytes that are kept, and the notification of subscribers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from minibroker import Broker, Security
from minibroker.clock import ManualClock
from minibroker.server.inspection import recording
from minibroker.server.inspection.exchanges import Exchange, Kind, Origin, Ring
from minibroker.server.inspection.recording import MAX_KEPT, MAX_PER_SECOND, SHORT, journal_of, recording_of
from minibroker_lab.page.recorder import Recorder
from minibroker_lab.page.rows import Filter
from minibroker_lab.trace.conversation import Conversation
from minibroker_lab.trace.lines import LineWriter
from minibroker_protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.broker.faults.tapped import Tapped
from tests.broker.harness import batch, frame_of
from tests.broker.security.sasl.login import authenticate, handshake
from tests.broker.socket_client import SocketClient, framed
from tests.patience import PATIENCE_S


@pytest.fixture
def tapped(tmp_path: Path) -> Iterator[Tapped]:
    broker = Tapped(str(tmp_path / "data"))
    yield broker
    broker.close()


def quiet_conversation(ring: Ring[Exchange]) -> Conversation:
    """Return a conversation that only fills a ring, as with --quiet."""
    return Conversation("client:1", "broker:2", LineWriter(ManualClock(), None, str, str, Mock(), ring), None)


async def test_the_ring_is_bounded_and_what_it_has_forgotten_is_known() -> None:
    ring: Ring[Exchange] = Ring(max_exchanges=10)
    conversation, recorder = quiet_conversation(ring), Recorder(ring)
    with recorder.subscribed() as subscription:
        for number in range(25):
            request = framed(b"\0\x12\0\0" + number.to_bytes(4, "big") + b"\xff\xff")
            conversation.request(request, len(request))
        assert [recorder.rows.row(exchange).state for exchange in recorder.between(1, 100)] == ["waiting"] * 10
        response = framed((20).to_bytes(4, "big") + b"\0\0" + bytes(4))
        conversation.response(response, len(response))
        exchange = recorder.find(21)
        assert exchange is not None
        row = recorder.rows.row(exchange)
        assert (row.number, row.api, row.state, row.duration_ms) == (21, "ApiVersions", "ok", 0)
        assert Filter().matches(row)
        assert (recorder.first, recorder.last, recorder.find(15)) == (16, 25, None)
        assert await subscription.next(PATIENCE_S) == list(range(16, 26))
    late = framed((3).to_bytes(4, "big") + b"\0\0" + bytes(4))
    conversation.response(late, len(late))  # The request is no longer in the ring.
    assert ring.last == 25


async def test_nothing_is_read_before_somebody_looks() -> None:
    ring: Ring[Exchange] = Ring(10)
    recorder = Recorder(ring)
    recorder.start()
    ring.add(Exchange(Kind.REQUEST, Origin("c", "b")))
    await asyncio.sleep(0)
    with recorder.subscribed() as subscription:
        ring.add(Exchange(Kind.REQUEST, Origin("c", "b")))
        recorder.catch_up()
        assert await subscription.next(PATIENCE_S) == [2]
    recorder.stop()


def test_the_memory_of_a_ring_is_bounded_however_large_its_frames(tapped: Tapped) -> None:
    ring = recording_of(tapped.services).keep_frames()
    ring.max_bytes = 5 << 20
    for _ in range(20):
        tapped.produce(batch(bytes(700_000)))
    entries = ring.between(1, ring.last)
    assert 1 < len(entries) < 8
    assert sum(len(entry.request_frame) + len(entry.response_frame) for entry in entries) <= ring.memory <= 5 << 20
    assert ring.memory == sum(entry.memory for entry in entries)
    assert all(entry.response_frame for entry in entries)
    ring.clear()
    assert ring.memory == 0


def test_of_long_frames_that_come_fast_the_beginning_is_kept(tapped: Tapped, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(recording, "perf_counter", lambda: now)
    room = recording_of(tapped.services).room
    whole = MAX_PER_SECOND // MAX_KEPT
    assert [room(MAX_KEPT + 1) for _ in range(whole + 9)] == [MAX_KEPT] * whole + [SHORT] * 9
    assert room(SHORT) == SHORT
    now += 1 / whole
    assert [room(MAX_KEPT), room(MAX_KEPT)] == [MAX_KEPT, SHORT]
    now += 100
    assert [room(2 * SHORT) for _ in range(2)] == [2 * SHORT] * 2


@pytest.mark.parametrize("version", [0, 1])
def test_no_token_of_a_login_is_recorded(version: int) -> None:
    token = b"\0alice\0S3CRET"
    security = Security("SASL_PLAINTEXT", users={"alice": "S3CRET"}, mechanisms=["PLAIN"])
    with Broker(page=True, journal=True, security=security) as broker:
        with SocketClient(broker.address) as client:
            handshake(client, version=version)
            if version:
                assert not authenticate(client, token).error_code
            else:
                client.send_bytes(framed(token))
                assert client.receive_bytes(4) == bytes(4)
        for early in (framed(token), framed(frame_of(SaslAuthenticateRequest(auth_bytes=token), 2))):
            with SocketClient(broker.address) as client:
                client.send_bytes(early)
                assert client.is_closed()
        ring = recording_of(broker.services).ring
        assert ring is not None
        exchanges = ring.between(1, ring.last)
        requests = list(journal_of(broker.services) or ())
    login = Kind.REQUEST if version else Kind.TOKEN
    assert [exchange.kind for exchange in exchanges] == [Kind.REQUEST, login, Kind.UNREADABLE, Kind.REQUEST]
    assert [request.api for request in requests if request.failure] == ["", "SaslAuthenticate"]
    assert all(exchange.bytes_in > len(token) for exchange in exchanges)
    for recorded in (exchanges, requests):
        assert "S3C" not in str([vars(exchange) for exchange in recorded])


def test_no_token_that_passes_the_proxy_is_recorded() -> None:
    ring: Ring[Exchange] = Ring(10)
    conversation = quiet_conversation(ring)
    for request, version in (
        (SaslAuthenticateRequest(auth_bytes=b"\0alice\0S3CRET"), 2),
        (SaslAuthenticateRequest(auth_bytes=b"\0alice\0S3CRET"), 0),
        (SaslHandshakeRequest(mechanism="PLAIN"), 0),
    ):
        frame = framed(frame_of(request, version))
        conversation.request(frame, len(frame))
    token = framed(b"\0alice\0S3CRET")
    conversation.request(token, len(token))
    flexible, plain, handshake, bare = ring.between(1, 4)
    assert (flexible.bytes_in, plain.bytes_in) == (len(flexible.request_frame), len(plain.request_frame))
    assert handshake.request_frame
    assert (bare.kind, bare.request_frame, bare.bytes_in) == (Kind.TOKEN, b"", len(token))
    assert b"S3C" not in b"".join(bytes(exchange.request_frame) for exchange in (flexible, plain))
