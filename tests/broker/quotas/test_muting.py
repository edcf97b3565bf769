"""Nothing is read from a throttled client that keeps sending."""

from pathlib import Path

import pytest

from minibroker import Broker
from minibroker.clock import ManualClock
from minibroker.server import quotas
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.harness import batch, fetch_request, produce_request
from tests.broker.quotas.asking import alter_request
from tests.broker.socket_client import SocketClient

TOO_MUCH = produce_request(batch(b"x" * 20_000))
METADATA = MetadataRequest(topics=None)


def test_what_comes_during_the_wait_is_served_after_it() -> None:
    with Broker(topics=["t"], clock=ManualClock()) as broker, SocketClient(broker.address) as client:
        client.ask(alter_request(({"client-id": "test"}, {"producer_byte_rate": 1000})), 1)
        client.send(TOO_MUCH, 9)
        metadata_number = client.send(METADATA, 9)
        _, produced = client.receive()
        assert produced.throttle_time_ms > 10_000
        assert client.is_silent()
        broker.clock.advance(11)
        number, _ = client.receive()
        assert number == metadata_number


def test_any_request_may_have_cost_too_much() -> None:
    with Broker(topics=["t"], clock=ManualClock()) as broker, SocketClient(broker.address) as client:
        client.ask(alter_request(({"client-id": "test"}, {"request_percentage": 0.000001})), 1)
        first = client.send(METADATA, 9)
        second = client.send(METADATA, 9)
        assert client.receive()[0] == first
        assert client.is_silent()
        broker.clock.advance(1)
        assert client.receive()[0] == second


def test_a_request_that_was_delayed_may_have_cost_too_much() -> None:
    config = {"minibroker.client.workarounds.enable": "false"}  # The fetch keeps waiting.
    with Broker(topics=["t"], clock=ManualClock(), config=config) as broker, SocketClient(broker.address) as client:
        client.ask(alter_request(({"client-id": "test"}, {"request_percentage": 0.000001})), 1)
        client.send(fetch_request(("t", 0, 0), max_wait_ms=5000), 12)
        metadata_number = client.send(METADATA, 9)
        assert client.is_silent()
        broker.clock.advance(5)
        _, fetched = client.receive()
        assert fetched.throttle_time_ms == 1000
        assert client.is_silent()
        broker.clock.advance(1)
        assert client.receive()[0] == metadata_number


def test_a_client_that_goes_while_it_waits_is_forgotten() -> None:
    with Broker(topics=["t"], clock=ManualClock()) as broker:
        with SocketClient(broker.address) as client:
            client.ask(alter_request(({"client-id": "test"}, {"producer_byte_rate": 1000})), 1)
            client.ask(TOO_MUCH, 9)
        broker.clock.advance(60)
        with SocketClient(broker.address) as client:
            assert client.ask(METADATA, 9).topics


def test_too_many_connections_from_an_address_are_closed_after_a_while() -> None:
    with Broker(clock=ManualClock()) as broker, SocketClient(broker.address) as first:
        first.ask(alter_request(({"ip": None}, {"connection_creation_rate": 1})), 1)
        for _ in range(10):
            with SocketClient(broker.address) as other:
                other.ask(METADATA, 9)
        with SocketClient(broker.address) as other:
            other.send(METADATA, 9)
            assert other.is_silent()
            broker.clock.advance(2)
            with pytest.raises(ConnectionError):
                other.receive()


def test_a_host_with_a_quota_that_is_not_found_any_more_keeps_nobody_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looked_up: list[str] = []

    def find_nothing(host: str, flags: int = 0) -> frozenset[str]:
        if not flags:
            looked_up.append(host)
        return frozenset()

    with Broker(data_dir=str(tmp_path), clock=ManualClock()) as broker, SocketClient(broker.address) as client:
        (result,) = client.ask(alter_request(({"ip": "localhost"}, {"connection_creation_rate": 1})), 1).entries
        assert result.error_code == 0
    monkeypatch.setattr(quotas, "addresses_of", find_nothing)
    with Broker(data_dir=str(tmp_path), clock=ManualClock()) as broker:
        for _ in range(10):
            with SocketClient(broker.address) as client:
                assert client.ask(METADATA, 9).brokers
    assert looked_up == ["localhost"]
