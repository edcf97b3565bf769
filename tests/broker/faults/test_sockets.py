"""Faults on real connections: the requests after one that was hit, and how connections end."""

from collections.abc import Iterator

import pytest

from minibroker import Broker
from minibroker.clock import ManualClock
from minibroker.server.faults.fault import Fault
from minibroker.server.faults.registry import FaultRegistry, faults_of
from minibroker.server.inspection.recording import recording_of
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import HeartbeatRequest
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.harness import batch, fetch_request, produce_request
from tests.broker.socket_client import SocketClient

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["t"], clock=ManualClock()) as running:
        yield running


@pytest.fixture
def faults(broker: Broker) -> FaultRegistry:
    return faults_of(broker.services)


@pytest.fixture
def client(broker: Broker) -> Iterator[SocketClient]:
    with SocketClient(broker.address) as connected:
        yield connected


def test_what_is_behind_a_dropped_request_waits_and_other_connections_do_not(
    broker: Broker, faults: FaultRegistry, client: SocketClient
) -> None:
    faults.add(Fault(api="Heartbeat", drop="after", times=1))
    client.send(BEAT, 3)
    client.send(MetadataRequest(topics=[]), 12)
    with SocketClient(broker.address) as other:
        assert other.ask(MetadataRequest(topics=[]), 12).brokers
    assert client.is_silent()


def test_what_was_answered_before_leaves_before_the_connection_closes(
    faults: FaultRegistry, client: SocketClient
) -> None:
    faults.add(Fault(api="Heartbeat", disconnect="before"))
    first = client.send(MetadataRequest(topics=[]), 12)
    client.send(BEAT, 3)
    client.send(MetadataRequest(topics=[]), 12)
    assert client.receive()[0] == first
    assert client.is_closed()


def test_a_black_hole_takes_what_comes_also_when_the_fault_is_gone_and_ends_with_the_broker(
    broker: Broker, faults: FaultRegistry, client: SocketClient
) -> None:
    fault = faults.add(Fault(api="Heartbeat", black_hole=True))
    client.send(BEAT, 3)
    while not fault.fired:
        assert client.is_silent()
    faults.remove(fault)
    for _ in range(100):
        client.send(produce_request(batch(b"a" * 10_000)), 9)
    assert client.is_silent()
    assert broker.services.core.topics.get("t") is not None
    with SocketClient(broker.address) as other:
        fetched = other.ask(fetch_request(("t", 0, 0), max_wait_ms=0), 12)
        assert fetched.responses[0].partitions[0].high_watermark == 0
    broker.stop()
    assert client.is_closed()


def test_requests_behind_a_late_one_are_answered_behind_it(
    broker: Broker, faults: FaultRegistry, client: SocketClient
) -> None:
    faults.add(Fault(api="Heartbeat", delay_ms=1000, times=1))
    numbers = [client.send(BEAT, 3), client.send(MetadataRequest(topics=[]), 12)]
    assert client.is_silent()
    broker.clock.advance(1000)
    assert [client.receive()[0] for _ in numbers] == numbers


def test_a_throttled_connection_is_answered_at_once_and_served_later(
    broker: Broker, faults: FaultRegistry, client: SocketClient
) -> None:
    faults.add(Fault(api="Heartbeat", throttle_ms=1000, times=1))
    client.send(BEAT, 3)
    client.send(BEAT, 3)
    assert client.receive()[1].throttle_time_ms == 1000
    assert client.is_silent()
    broker.clock.advance(1000)
    assert client.receive()[1].throttle_time_ms == 0


def test_repeated_produce_requests_do_not_bypass_a_fault(
    broker: Broker, faults: FaultRegistry, client: SocketClient
) -> None:
    def produced() -> int:
        return int(client.ask(produce_request(batch(b"a")), 9).responses[0].partition_responses[0].error_code)

    assert [produced(), produced()] == [0, 0]
    fault = faults.add(Fault(api="Produce", topic="t", error="NOT_LEADER_OR_FOLLOWER"))
    assert [produced(), produced()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    faults.remove(fault)
    assert produced() == 0


def test_a_late_answer_comes_though_its_fault_is_gone(
    broker: Broker, faults: FaultRegistry, client: SocketClient
) -> None:
    fault = faults.add(Fault(api="Heartbeat", delay_ms=1000))
    client.send(BEAT, 3)
    assert client.is_silent()
    faults.remove(fault)
    broker.clock.advance(1000)
    assert client.receive()[1].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_that_leaves_while_its_answer_is_held_harms_nobody(broker: Broker, faults: FaultRegistry) -> None:
    faults.add(Fault(api="Fetch", delay_ms=1000))
    with SocketClient(broker.address) as leaving:
        leaving.send(fetch_request(("t", 0, 0), max_wait_ms=500), 12)
        assert leaving.is_silent()
    broker.clock.advance(5000)
    with SocketClient(broker.address) as other:
        assert other.ask(MetadataRequest(topics=[]), 12).brokers


def test_the_journal_knows_the_sizes_of_what_went_over_the_wire(broker: Broker, client: SocketClient) -> None:
    journal = recording_of(broker.services).keep_journal()
    client.ask(produce_request(batch(b"a" * 1000)), 9)
    client.send(fetch_request(("t", 0, 0)), 12)
    length = int.from_bytes(client.receive_bytes(4), "big")
    client.receive_bytes(length)
    produced, fetched = journal
    assert produced.bytes_in > 1000 > produced.bytes_out
    assert fetched.bytes_out == 4 + length > 1000
    host, port = client.socket.getsockname()
    assert fetched.connection == f"127.0.0.1:{broker.address[1]}-{host}:{port}"
