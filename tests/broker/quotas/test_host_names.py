"""Hosts in quotas and limits, with a slow resolver."""

import threading
from collections.abc import Callable

import pytest

from minibroker import Broker
from minibroker.clock import ManualClock
from minibroker.server import quotas
from minibroker.server.quotas import Addresses, HostNames
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.config.configs import BROKER, SET, change_request
from tests.broker.quotas.asking import alter_request
from tests.broker.socket_client import SocketClient

IP_RATE = {"connection_creation_rate": 1000.0}


class Resolver:
    """A resolver that finds `a.test` and `b.test` when the test lets it answer."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.names = HostNames(self.clock, self._aside)
        self.asked: list[str] = []
        self._left: list[tuple[Callable[[], None], Callable[[], None] | None]] = []

    def _aside(self, work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
        self._left.append((work, then))

    def find(self, host: str, flags: int = 0) -> Addresses:
        """Replace the system's resolver."""
        if flags:
            return frozenset({host} if host[0].isdecimal() else ())
        self.asked.append(host)
        return {"a.test": frozenset({"10.0.0.1"}), "b.test": frozenset({"10.0.0.2"})}.get(host, frozenset())

    def answer(self) -> None:
        """Answer the oldest pending look-up."""
        work, then = self._left.pop(0)
        work()
        assert then is not None
        then()


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    running = Resolver()
    monkeypatch.setattr(quotas, "addresses_of", running.find)
    return running


def test_an_address_needs_no_resolver(resolver: Resolver) -> None:
    results: list[Addresses] = []
    resolver.names.look_up("10.1.1.1", results.append)
    assert results == [{"10.1.1.1"}]
    assert resolver.names.cached_addresses("x" * 300) == resolver.names.cached_addresses("a\0b") == frozenset()
    assert not resolver.asked


def test_hosts_are_asked_for_one_after_the_other_and_those_found_are_remembered(resolver: Resolver) -> None:
    results: list[Addresses] = []
    for host in ("a.test", "nowhere.test", "a.test"):
        resolver.names.look_up(host, results.append)
    resolver.answer()
    assert results == [{"10.0.0.1"}, {"10.0.0.1"}]
    resolver.answer()
    assert results[2:] == [frozenset()]
    resolver.names.look_up("a.test", results.append)
    resolver.names.look_up("nowhere.test", results.append)
    assert results[3:] == [{"10.0.0.1"}]
    resolver.answer()
    assert resolver.asked == ["a.test", "nowhere.test", "nowhere.test"]


def test_a_search_ends_with_the_last_host_or_in_time(resolver: Resolver) -> None:
    results: list[dict[str, Addresses]] = []
    resolver.names.resolve_all(["a.test", "b.test", "a.test"], 1000, results.append)
    resolver.answer()
    assert results == []
    resolver.answer()
    assert results == [{"a.test": {"10.0.0.1"}, "b.test": {"10.0.0.2"}}]
    resolver.names.resolve_all(["c.test", "d.test", "a.test"], 1000, results.append)
    resolver.clock.advance(1000)
    assert results[1:] == [{"a.test": {"10.0.0.1"}}]
    resolver.answer()
    assert resolver.asked == ["a.test", "b.test", "c.test"]
    resolver.names.resolve_all([], 1000, results.append)
    assert results[2:] == [{}]


def test_too_many_hosts_are_not_asked_for(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "_MAX_WAITING_HOSTS", 2)
    results: list[Addresses] = []
    for number in range(3):
        resolver.names.look_up(f"{number}x.test"[::-1], results.append)
    assert results == [frozenset()]


def test_others_are_served_while_a_resolver_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota, an override of a limit and the stop of the broker do not wait for it either."""
    answering = threading.Event()

    def find_late(host: str, flags: int = 0) -> Addresses:
        if flags:
            return frozenset()
        answering.wait()
        return frozenset({"10.0.0.1"} if host == "a.test" else ())

    monkeypatch.setattr(quotas, "addresses_of", find_late)
    try:
        with Broker() as broker, SocketClient(broker.address) as client, SocketClient(broker.address) as other:
            limit = change_request(BROKER, "", (SET, "max.connections.per.ip.overrides", "c.test:1"))
            assert client.ask(limit, 1).responses[0].error_code == 0
            client.send(alter_request(({"ip": "a.test"}, IP_RATE), ({"ip": "b.test"}, IP_RATE)), 1)
            assert other.ask(MetadataRequest(topics=None), 9).brokers
            answering.set()
            _, response = client.receive()
            assert [entry.error_code for entry in response.entries] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
            assert "b.test is not a valid IP or resolvable host" in response.entries[1].error_message
            answering.clear()
            client.send(alter_request(({"ip": "d.test"}, IP_RATE), validate_only=True), 1)
            assert other.ask(MetadataRequest(topics=None), 9).brokers
    finally:
        answering.set()
