"""Connections that have been idle for too long are closed (`connections.max.idle.ms`)."""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import pytest

from minibroker import Broker
from minibroker.clock import ManualClock, Timer
from minibroker.config import BrokerConfig, ConfigError
from minibroker.server.connection_quotas import ConnectionPermit, ConnectionQuotas, IdleExpiry
from tests.broker.harness import batch, fetch_request, produce_request
from tests.broker.server.connecting import PING, Visitors, is_served
from tests.broker.socket_client import SocketClient

IDLE: Final = "connections.max.idle.ms"
MIB: Final = 1 << 20


@pytest.fixture
def visitors() -> Iterator[Visitors]:
    with Broker(topics=["t"], config={IDLE: 10_000}, clock=ManualClock()) as broker, Visitors(broker) as there:
        yield there


def test_a_silent_connection_is_closed_after_its_time_and_not_before(visitors: Visitors) -> None:
    client, silent = visitors.served(), visitors.come()
    visitors.broker.clock.advance(9)
    assert visitors.hears_nothing(client)
    assert visitors.hears_nothing(silent)
    visitors.broker.clock.advance(1.5)
    assert client.is_closed()
    assert silent.is_closed()


def test_a_request_counts_and_so_does_half_of_one(visitors: Visitors) -> None:
    client, slow = visitors.served(), visitors.come()
    for piece in b"\0\0\1\0\3":
        visitors.broker.clock.advance(6)
        slow.send_bytes(bytes([piece]))
        assert is_served(client)
        assert visitors.hears_nothing(slow)
    visitors.broker.clock.advance(11)
    assert client.is_closed()
    assert slow.is_closed()


def test_an_answer_counts_as_well(visitors: Visitors) -> None:
    client = visitors.served()
    waiting = client.send(fetch_request(("t", 0, 0), max_wait_ms=60_000), 12)
    assert visitors.hears_nothing(client)
    visitors.broker.clock.advance(6)
    visitors.served().ask(produce_request(batch(b"x")), 9)
    assert client.receive()[0] == waiting
    visitors.broker.clock.advance(6)
    assert is_served(client)


def test_a_client_that_reads_slowly_stays_and_one_that_does_not_read_goes(visitors: Visitors) -> None:
    for _ in range(16):
        visitors.served().ask(produce_request(batch(bytes(900_000))), 9)
    fetch = fetch_request(("t", 0, 0), max_bytes=64 * MIB, partition_max_bytes=64 * MIB, max_wait_ms=0)
    slow, deaf = visitors.come(), visitors.come()
    for client in slow, deaf:
        client.send(fetch, 12)
    (length,) = struct.unpack(">i", slow.receive_bytes(4))
    deaf.receive_bytes(4)
    assert length > 12 * MIB
    visitors.broker.clock.advance(6)
    slow.receive_bytes(length - MIB)  # The rest exceeds the kernel's buffers, so some of it was sent only now.
    visitors.broker.clock.advance(6)
    slow.receive_bytes(MIB)
    assert is_served(slow)
    with pytest.raises(ConnectionError):
        deaf.receive_bytes(length)


def test_less_than_nothing_is_for_ever() -> None:
    with Broker(config={IDLE: -1}) as broker, Visitors(broker) as visitors:
        client = visitors.served()
        broker.clock.advance(10_000_000)
        assert is_served(client)


def test_ten_minutes_are_the_default() -> None:
    with Broker(clock=ManualClock()) as broker, Visitors(broker) as visitors:
        client = visitors.served()
        broker.clock.advance(599)
        assert is_served(client)
        broker.clock.advance(601)
        assert client.is_closed()


def test_refusals_have_to_leave_before_their_connections_do() -> None:
    with pytest.raises(ConfigError, match=r"should always be less than connections\.max\.idle\.ms"):
        BrokerConfig.from_properties({IDLE: "100"})
    BrokerConfig.from_properties({IDLE: "100", "connection.failed.authentication.delay.ms": "99"})


def test_connections_that_come_and_go_all_the_time_keep_nobody(visitors: Visitors) -> None:
    silent = visitors.come()
    busy = visitors.served()
    for _ in range(21):
        assert is_served(busy)
        with SocketClient(visitors.broker.address) as client:
            client.ask(PING, 12)
        visitors.broker.clock.advance(0.5)
    assert silent.is_closed()
    assert is_served(busy)


class _Nobody(ConnectionQuotas):
    """Quotas with one permit at a time."""

    def __init__(self, permits: dict[ConnectionPermit, None]) -> None:
        self._of = permits

    def leave(self, permit: ConnectionPermit) -> None:
        del self._of[permit]


class _CountingClock(ManualClock):
    """A clock that counts the timers created."""

    asked = 0

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, may_wait: bool = False) -> Timer:
        self.asked += 1
        return super().call_later(delay_ms, callback, may_wait=may_wait)


def test_one_timer_is_enough_and_none_is_there_for_nobody() -> None:
    clock = _CountingClock()
    permits: dict[ConnectionPermit, None] = {}
    quotas = _Nobody(permits)
    expiry = IdleExpiry(clock, 10_000, permits)
    closed: list[int] = []

    for number in range(100):
        permit = ConnectionPermit(quotas, "PLAINTEXT", "127.0.0.1", clock.monotonic_ms())
        permit.abort = partial(closed.append, number)
        permits[permit] = None
        expiry.watch()
        clock.advance(50)
    assert (closed, clock.asked) == ([], 1)
    clock.advance(5_000)
    assert closed == [0]
    clock.advance(5_300)
    assert closed == list(range(100))
    timers = clock.asked
    clock.advance(1_000_000)
    assert clock.asked == timers
