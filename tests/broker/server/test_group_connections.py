"""Group members on real connections: requests that wait, and what happens when clients disconnect."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from minibroker import Broker
from minibroker.server.requests.session import format_kafka_address
from tests.broker.coordinators.groups.member_requests import (
    CHANGED,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from tests.broker.socket_client import SocketClient


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def connect(broker: Broker, ends: ExitStack) -> SocketClient:
    """Connect to the broker until `ends` is closed."""
    return ends.enter_context(SocketClient(broker.address))


def test_requests_behind_one_that_waits_are_answered_after_it(broker: Broker) -> None:
    with ExitStack() as ends:
        first, second = connect(broker, ends), connect(broker, ends)
        leader = first.ask(join_request("g"), 3).member_id
        waiting = second.send(join_request("g"), 3)
        second_number = second.send(heartbeat_request("g", "nobody", 1), 3)
        while first.ask(heartbeat_request("g", leader, 1), 3).error_code != 27:
            pass
        assert first.ask(join_request("g", leader), 3).generation_id == 2
        assert [number for number, _ in (second.receive(), second.receive())] == [waiting, second_number]


def test_a_member_that_pipelines_its_sync_behind_its_join_gets_both_answers(broker: Broker) -> None:
    with ExitStack() as ends:
        first, second = connect(broker, ends), connect(broker, ends)
        leader = first.ask(join_request("g", instance="a"), 7).member_id
        first.ask(sync_request("g", leader, 1, {leader: b"1"}, instance="a"), 4)
        follower = second.ask(join_request("g"), 7).member_id
        second.send(join_request("g", follower), 7)
        second.send(sync_request("g", follower, 2), 4)
        while first.ask(heartbeat_request("g", leader, 1, instance="a"), 3).error_code != 27:
            pass
        assert first.ask(join_request("g", leader, instance="a"), 7).generation_id == 2
        assert second.receive()[1].generation_id == 2
        first.ask(sync_request("g", leader, 2, {leader: b"1", follower: b"2"}, instance="a"), 4)
        assert bytes(second.receive()[1].assignment) == b"2"


def test_a_client_that_hangs_up_while_it_waits_does_no_harm(broker: Broker) -> None:
    with ExitStack() as ends:
        first = connect(broker, ends)
        leader = first.ask(join_request("g"), 3).member_id
        with connect(broker, ends) as second:
            second.send(join_request("g"), 3)
            while first.ask(heartbeat_request("g", leader, 1), 3).error_code != 27:
                pass
        joined = first.ask(join_request("g", leader, CHANGED), 3)
        assert (joined.generation_id, len(joined.members)) == (2, 2)
        assert first.ask(leave_request("g", (leader, None)), 2).error_code == 0


@pytest.mark.parametrize(
    ("peer", "text"),
    [
        (("192.0.2.7", 1), "/192.0.2.7"),
        (("::1", 1, 0, 0), "/0:0:0:0:0:0:0:1"),
        (("fe80::1%eth0", 1, 0, 2), "/fe80:0:0:0:0:0:0:1"),
        (("2001:db8::ff00:42:8329", 1, 0, 0), "/2001:db8:0:0:0:ff00:42:8329"),
        (None, ""),
    ],
)
def test_addresses_of_clients_are_written_as_java_does(
    peer: tuple[str, int] | tuple[str, int, int, int] | None, text: str
) -> None:
    assert format_kafka_address(peer) == text
