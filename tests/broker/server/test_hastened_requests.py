"""Requests after a delayed fetch: the fetch is answered early, and they are served next."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker import Broker
from minibroker.clock import ManualClock
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.fetch import FetchRequest
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.harness import batch, fetch_request, frame_of, only_partition, produce_request, values_in
from tests.broker.socket_client import SocketClient
from tests.patience import PATIENCE_S

PING = MetadataRequest(topics=[])
FOREVER_MS = 2_000_000_000
WAITS = fetch_request(("t", 0, 0), max_wait_ms=FOREVER_MS)
OFF = {"minibroker.client.workarounds.enable": "false"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["t", "other"], clock=ManualClock()) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[SocketClient]:
    with SocketClient(broker.address) as connected:
        yield connected


def is_waiting(client: SocketClient, broker: Broker) -> bool:
    """Return whether nothing has arrived, although the broker has served another client several times since."""
    with SocketClient(broker.address) as other:
        for _ in range(20):
            other.ask(PING, 12)
    client.socket.setblocking(False)
    try:
        client.socket.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        client.socket.settimeout(PATIENCE_S)
    return False


def session_fetch(session_id: int, epoch: int, *topics: str) -> FetchRequest:
    """Return a fetch of partition 0 of topics in a session."""
    request = fetch_request(*((topic, 0, 0) for topic in topics), max_wait_ms=FOREVER_MS)
    request.session_id, request.session_epoch = session_id, epoch
    return request


def begin_session(client: SocketClient, broker: Broker, *topics: str) -> int:
    """Begin a fetch session, and continue it until its fetches wait for as long as they request."""
    number = 0
    for epoch in range(3):
        client.send(session_fetch(number, epoch, *(() if epoch else topics)), 12)
        assert is_waiting(client, broker)
        broker.clock.advance(0.03)
        number = client.receive()[1].session_id
        assert number
    return number


@pytest.mark.parametrize(
    ("request_behind", "version"),
    [
        (PING, 12),
        (produce_request(batch(b"b"), "other"), 9),
        (produce_request(batch(bytes(500_000)), "other"), 9),
        (
            ListOffsetsRequest(
                replica_id=-1,
                isolation_level=0,
                topics=[
                    ListOffsetsTopic(
                        name="t",
                        partitions=[ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)],
                    )
                ],
            ),
            7,
        ),
    ],
)
def test_a_request_behind_a_waiting_fetch_ends_the_wait(
    client: SocketClient, request_behind: Any, version: int
) -> None:
    numbers = [client.send(WAITS, 12), client.send(request_behind, version)]
    number, response = client.receive()
    assert (number, values_in(only_partition(response).records)) == (numbers[0], [])
    assert client.receive()[0] == numbers[1]


def test_a_fetch_that_is_hastened_brings_the_records_that_are_too_few(client: SocketClient, broker: Broker) -> None:
    broker.produce("t", "x")
    waiting = client.send(fetch_request(("t", 0, 0), max_wait_ms=FOREVER_MS, min_bytes=1 << 20), 12)
    assert is_waiting(client, broker)
    second_number = client.send(PING, 12)
    number, response = client.receive()
    assert (number, values_in(only_partition(response).records)) == (waiting, [(0, b"x")])
    assert client.receive()[0] == second_number


def test_a_request_in_pieces_counts_once_it_is_complete(client: SocketClient, broker: Broker) -> None:
    waiting = client.send(WAITS, 12)
    frame = frame_of(produce_request(batch(bytes(50_000)), "other"), 9, 2)
    data = len(frame).to_bytes(4, "big") + frame
    for start in (0, 2, 5, 30_000):
        end = {0: 2, 2: 5, 5: 30_000, 30_000: len(data) - 1}[start]
        client.send_bytes(data[start:end])
        assert is_waiting(client, broker)
    client.send_bytes(data[-1:])
    assert client.receive()[0] == waiting
    assert client.receive_bytes(8)[4:] == (2).to_bytes(4, "big")


def test_a_fetch_behind_a_waiting_fetch_ends_the_wait_if_it_closes_its_session(
    client: SocketClient, broker: Broker
) -> None:
    session = begin_session(client, broker, "t")
    waiting = client.send(session_fetch(session, 3), 12)
    assert is_waiting(client, broker)
    request = fetch_request(max_wait_ms=0)
    request.session_id, request.session_epoch = session, -1
    closing = client.send(request, 12)
    assert [client.receive()[0], client.receive()[0]] == [waiting, closing]


@pytest.mark.parametrize("epoch", [0, 4])
def test_any_other_fetch_behind_a_waiting_fetch_waits(client: SocketClient, broker: Broker, epoch: int) -> None:
    session = begin_session(client, broker, "t")
    waiting = client.send(session_fetch(session, 3), 12)
    client.send(session_fetch(session if epoch else 0, epoch, "other"), 12)
    assert is_waiting(client, broker)
    broker.produce("t", "x")
    assert client.receive()[0] == waiting


def test_the_first_three_fetches_of_a_session_wait_for_30_ms(client: SocketClient, broker: Broker) -> None:
    session = begin_session(client, broker, "t", "other")
    client.send(session_fetch(session, 3), 12)
    assert is_waiting(client, broker)
    broker.clock.advance(60)
    assert is_waiting(client, broker)


def test_fetches_without_a_session_wait(client: SocketClient, broker: Broker) -> None:
    client.send(WAITS, 12)
    assert is_waiting(client, broker)
    broker.clock.advance(60)
    assert is_waiting(client, broker)


def test_waits_of_a_client_begin_short_after_records_and_grow(client: SocketClient, broker: Broker) -> None:
    client.ask(ApiVersionsRequest(), 2)
    for _ in range(2):
        for wait_s in (0.05, 0.1, 0.2, 0.4):
            client.send(fetch_request(("t", 0, 0), max_wait_ms=500), 12)
            assert is_waiting(client, broker)
            broker.clock.advance(wait_s - 0.001)
            assert is_waiting(client, broker)
            broker.clock.advance(0.001)
            assert values_in(only_partition(client.receive()[1]).records) == []
        client.send(fetch_request(("t", 0, 0), max_wait_ms=60_000), 12)
        assert is_waiting(client, broker)
        broker.clock.advance(0.5)
        assert is_waiting(client, broker)
        broker.produce("t", "x")
        assert values_in(only_partition(client.receive()[1]).records) == [(0, b"x")]
        broker.reset()


def test_a_broker_without_workarounds_has_everything_wait() -> None:
    with Broker(topics=["t"], clock=ManualClock(), config=OFF) as broker, SocketClient(broker.address) as client:
        client.send(session_fetch(0, 0, "t"), 12)
        client.send(PING, 12)
        assert is_waiting(client, broker)
        broker.clock.advance(60)
        assert is_waiting(client, broker)
        broker.produce("t", "x")
        assert [client.receive()[0], client.receive()[0]] == [1, 2]


def test_a_session_that_gets_no_room_has_its_fetches_wait() -> None:
    config = {"max.incremental.fetch.session.cache.slots": "0"}
    with Broker(topics=["t"], clock=ManualClock(), config=config) as broker, SocketClient(broker.address) as client:
        client.send(session_fetch(0, 0, "t"), 12)
        assert is_waiting(client, broker)
        broker.clock.advance(60)
        assert is_waiting(client, broker)
