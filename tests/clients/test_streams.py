"""Kafka Streams with exactly_once_v2: its counts are right, however often the broker or an instance is killed."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from minibroker_protocol.messages.streams_group import DescribedGroup, StreamsGroupDescribeRequest
from tests.broker.socket_client import SocketClient, address_of
from tests.clients.broker_process import BrokerProcess
from tests.clients.flow import SOURCE, TARGET, TOPICS, Arrived, Turns, flow
from tests.clients.java_programs import streams_command
from tests.clients.line_process import LineProcess
from tests.kafka import jars
from tests.patience import eventually

LINES = 1_500
PAYMENTS = 800
PAIRS = 400
_WINDOW_MS = 10_000


_QUICK = (
    "group.streams.min.heartbeat.interval.ms=200",
    "group.streams.heartbeat.interval.ms=200",
    "group.streams.initial.rebalance.delay.ms=0",
)
"""So that tasks move soon."""


_SOON_GONE: Final = (
    "group.streams.min.session.timeout.ms=6000",
    "group.streams.session.timeout.ms=6000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
)
"""So that an instance that was killed, and its last transaction, do not hold up the other one for long."""


def counts(arrived: Iterable[Arrived]) -> dict[str, list[int]]:
    """The values of each key: counts, each once and in its order, if nothing was lost and nothing counted twice."""
    found = defaultdict[str, list[int]](list)
    for _, key, value in arrived:
        found[(key or b"").decode()].append(int(value or b"-1"))
    return found


def described(broker: BrokerProcess, group_id: str) -> DescribedGroup:
    """A streams group; one without members for a group of another kind."""
    request = StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    with SocketClient(address_of(broker.bootstrap)) as client:
        (group,) = client.ask(request, 1).groups
    assert isinstance(group, DescribedGroup)
    return group


def tasks_of(group: DescribedGroup) -> dict[str | None, dict[str, list[int]]]:
    """The active tasks of each instance: partitions by subtopology."""
    return {
        each.instance_id: {task.subtopology_id: sorted(task.partitions) for task in each.assignment.active_tasks}
        for each in group.members
    }


@pytest.mark.parametrize(
    ("version", "protocol"),
    [pytest.param(jars.VERSION, [], marks=pytest.mark.torture), (jars.NEWEST, ["streams", "counter"])],
)
def test_words_are_counted_exactly_once_while_the_broker_is_killed_three_times(
    broker_process: Callable[..., BrokerProcess], tmp_path: Path, version: str, protocol: list[str]
) -> None:
    command = streams_command("WordCount", version)
    broker = broker_process(*TOPICS, *(word for setting in _QUICK for word in ("--set", setting)))
    lines = [f"every word{number % 13}" for number in range(LINES)]
    expected = Counter(word for line in lines for word in line.split())
    with LineProcess([*command, broker.bootstrap, "counting", SOURCE, TARGET, str(tmp_path), *protocol]) as words:
        turns: Turns = dict.fromkeys((600, 1_200, 1_800), broker.kill_and_start)
        arrived = flow(broker.bootstrap, words, [line.encode() for line in lines], factor=2, turns=turns)
        instances = [each.instance_id for each in described(broker, "counting").members]
        assert instances == [f"{each}-1" for each in protocol[1:]]  # its first thread
        words.end()
    assert counts(arrived) == {word: list(range(1, total + 1)) for word, total in expected.items()}
    broker.terminate()


@pytest.mark.torture
def test_payments_are_joined_and_counted_in_windows_exactly_once_though_an_instance_is_killed(
    broker_process: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    command = streams_command("Payments", jars.NEWEST)
    broker = broker_process(*TOPICS, *(word for setting in (*_QUICK, *_SOON_GONE) for word in ("--set", setting)))
    now = int(time.time()) * 1_000  # records of long ago would be deleted
    lines = [f"{kind} {number} {now + number * 100}" for number in range(PAYMENTS) for kind in ("order", "payment")]
    expected = Counter(str(number) for number in range(PAYMENTS))
    expected.update(f"{number % 10}@{(now + number * 100) // _WINDOW_MS * _WINDOW_MS}" for number in range(PAYMENTS))

    def instance(name: str) -> LineProcess:
        return LineProcess([*command, broker.bootstrap, "paying", SOURCE, TARGET, str(tmp_path / name), "streams"])

    with instance("first") as first, ExitStack() as later:
        others: list[LineProcess] = []
        turns: Turns = {200: lambda: others.append(later.enter_context(instance("second"))), 600: first.kill}
        arrived = flow(broker.bootstrap, first, [line.encode() for line in lines], factor=1, turns=turns)
        others[0].end()
    assert counts(arrived) == {key: list(range(1, total + 1)) for key, total in expected.items()}
    broker.terminate()


@pytest.mark.torture
def test_static_instances_are_bounced_one_after_the_other_and_tables_are_joined_exactly_once(
    broker_process: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    command = streams_command("Ledger", jars.NEWEST)
    broker = broker_process(*TOPICS, *(word for setting in (*_QUICK, *_SOON_GONE[2:]) for word in ("--set", setting)))
    lines = [f"{kind} {number}" for number in range(PAIRS) for kind in ("order", "payment")]
    expected = Counter(str(number) for number in range(PAIRS))
    expected.update(f"#{number % 10}" for number in range(PAIRS))
    running: dict[str, LineProcess] = {}
    bounced: list[str] = []

    with ExitStack() as at_end:

        def start(name: str) -> None:
            words = [*command, broker.bootstrap, "ledger", SOURCE, TARGET, str(tmp_path / name), "streams", name]
            running[name] = at_end.enter_context(LineProcess(words))

        def bounce(name: str) -> None:
            """Close an instance and start it again: nobody's tasks move, meanwhile and afterwards."""
            before = tasks_of(described(broker, "ledger"))
            running[name].end()
            assert tasks_of(described(broker, "ledger")) == before
            start(name)
            eventually(lambda: {"event": "state", "name": "RUNNING"} in running[name].events)
            assert tasks_of(described(broker, "ledger")) == before
            bounced.append(name)

        start("first")
        start("second")
        eventually(lambda: len(list(filter(None, tasks_of(described(broker, "ledger")).values()))) == len(running))
        turns: Turns = {PAIRS // 2: lambda: bounce("first"), PAIRS: lambda: bounce("second")}
        arrived = flow(broker.bootstrap, running["first"], [line.encode() for line in lines], factor=1, turns=turns)
        for each in running.values():
            each.end()
    assert bounced == ["first", "second"]
    assert counts(arrived) == {key: list(range(1, total + 1)) for key, total in expected.items()}
    broker.terminate()
