"""Kafka Streams with exactly_once_v2: its counts are right, however often the broker is killed."""

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.broker_process import BrokerProcess
from tests.clients.flow import SOURCE, TARGET, TOPICS, flow
from tests.clients.java_process import JavaProcess
from tests.clients.java_programs import streams_command
from tests.kafka import jars

LINES = 1_500


_QUICK = (
    "group.streams.min.heartbeat.interval.ms=200",
    "group.streams.heartbeat.interval.ms=200",
    "group.streams.initial.rebalance.delay.ms=0",
)
"""So that tasks move soon."""


@pytest.mark.parametrize(("version", "protocol"), [(jars.VERSION, []), (jars.NEWEST, ["streams"])])
def test_words_are_counted_exactly_once_while_the_broker_is_killed_three_times(
    broker_process: Callable[..., BrokerProcess], tmp_path: Path, version: str, protocol: list[str]
) -> None:
    command = streams_command("WordCount", version)
    broker = broker_process(*TOPICS, *(word for setting in _QUICK for word in ("--set", setting)))
    lines = [f"every word{number % 13}" for number in range(LINES)]
    expected = Counter(word for line in lines for word in line.split())
    with JavaProcess([*command, broker.bootstrap, "counting", SOURCE, TARGET, str(tmp_path), *protocol]) as words:
        arrived = flow(broker, words, [line.encode() for line in lines], factor=2, kills=(600, 1_200, 1_800))
        words.end()
    counts = defaultdict[str, list[int]](list)
    for _, key, value in arrived:
        counts[(key or b"").decode()].append(int(value or b"-1"))
    # Each count is told once and in its order: nothing was lost, and nothing was counted twice.
    assert counts == {word: list(range(1, total + 1)) for word, total in expected.items()}
    broker.terminate()
