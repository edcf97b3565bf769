"""Real clients through `minibroker trace`, in front of one broker and of three."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker import Broker
from tests.clients.conftest import CLIENTS
from tests.clients.contract import Message
from tests.clients.group_members import MEMBER_PROGRAMS, Group
from tests.clients.trace_process import TraceProcess
from tests.sweeps import one_in

PARTITIONS: Final = 3
MESSAGES: Final = [Message(b"value %d" % number, partition=number % PARTITIONS) for number in range(60)]
REQUEST: Final = ("clientId", "api", "version", "correlationId", "bytesIn", "request")
RESPONSE: Final = ("response", "errors", "bytesOut")
CONFIG: Final = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture
def behind(brokers: int) -> Iterator[Broker]:
    """The brokers behind the proxy."""
    with Broker(brokers=brokers, journal=True, config=CONFIG) as broker:
        yield broker


def counted(entries: Iterable[dict[str, Any]], *names: str) -> Counter[str]:
    """The entries by these fields, which are the same on both sides of a proxy."""
    return Counter(json.dumps({name: entry[name] for name in names}, sort_keys=True) for entry in entries)


def agrees(trace: TraceProcess, broker: Broker) -> list[dict[str, Any]]:
    """Hold the exchanges of a proxy that has ended against the journal, and return them.

    Every request that a broker has seen came through the proxy. A broker may have answered clients that had gone.
    """
    ours, journal = trace.entries(), [entry.to_json() for entry in broker.requests]
    assert not counted(journal, *REQUEST) - counted(ours, *REQUEST)
    answered = [entry for entry in ours if entry["bytesOut"]]
    assert len(answered) > len(ours) / 2
    assert not counted(answered, *REQUEST, *RESPONSE) - counted(journal, *REQUEST, *RESPONSE)
    return ours


@pytest.mark.parametrize("kind", one_in(2, ["librdkafka", "kafka-python"]))
@pytest.mark.parametrize("brokers", one_in(2, [1, 3]), ids=lambda number: f"{number} brokers")
def test_clients_work_through_it_and_it_shows_what_the_journal_shows(behind: Broker, kind: str, tmp_path: Path) -> None:
    with TraceProcess(behind.bootstrap_servers.split(",")[0], tmp_path) as trace:
        client = CLIENTS[kind](trace.bootstrap)
        client.create_topic("orders", PARTITIONS)
        offsets = client.produce("orders", MESSAGES, idempotent=True)
        assert offsets == [number // PARTITIONS for number in range(len(MESSAGES))]
        for partition in range(PARTITIONS):
            expected = [message.value for message in MESSAGES if message.partition == partition]
            assert [each.value for each in client.consume("orders", len(expected), partition=partition)] == expected
            assert client.watermarks("orders", partition) == (0, len(expected))
    entries = agrees(trace, behind)
    assert {"Produce", "Fetch", "Metadata", "ListOffsets", "CreateTopics"} <= {entry["api"] for entry in entries}
    for entry in entries:
        addresses = set(behind.bootstrap_servers.split(","))
        assert set(entry.get("replaced", ())) <= addresses
        assert addresses.isdisjoint(entry.get("replaced", {}).values())


@pytest.mark.parametrize("name", one_in(len(MEMBER_PROGRAMS), MEMBER_PROGRAMS))
@pytest.mark.parametrize("brokers", one_in(2, [3, 1]), ids=lambda number: f"{number} brokers")
def test_groups_share_partitions_through_it(behind: Broker, name: str, tmp_path: Path) -> None:
    """Behind three brokers each client has to find the coordinator; a sample leaves out the one broker, which is it."""
    with (
        TraceProcess(behind.bootstrap_servers.split(",")[0], tmp_path) as trace,
        closing(Group(trace.bootstrap, 6)) as group,
    ):
        first = group.start(MEMBER_PROGRAMS[name])
        group.until_shared_by(first)
        second = group.start(MEMBER_PROGRAMS[name])
        group.until_shared_by(first, second)
        group.until_delivered("to both", first, second)
        first.leave()
        group.until_shared_by(second)
        group.until_delivered("to one", second)
        second.leave()
    assert {"JoinGroup", "SyncGroup", "LeaveGroup"} <= {entry["api"] for entry in agrees(trace, behind)}
