"""Kafka 4.4's `kafka-streams-groups` prints the same lines on Kafka 4.4 and on this broker."""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from minibroker import Broker
from tests.broker.socket_client import address_of
from tests.clients.contract import Message
from tests.clients.librdkafka_client import Librdkafka
from tests.command_line_tools.newest_jars import NewestTools
from tests.kafka import jars
from tests.kafka.coordinators import with_coordinators
from tests.kafka.fixtures import or_skip
from tests.kafka.real_kafka import RealKafka
from tests.kafka.streams_group_world import StreamsWorld
from tests.patience import NO_RETENTION

_CONFIG: Final = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}
_GROUP: Final = "app"
_STREAMS: Final = (
    "kafka-streams-groups --list",
    "kafka-streams-groups --list --state",
    "kafka-streams-groups --list --state stable",
    "kafka-groups --list --streams",
    "kafka-groups --list --protocol streams",
    f"kafka-streams-groups --describe --group {_GROUP}",
    f"kafka-streams-groups --describe --group {_GROUP} --verbose",
    f"kafka-streams-groups --describe --group {_GROUP} --offsets",
    f"kafka-streams-groups --describe --group {_GROUP} --offsets --verbose",
    f"kafka-streams-groups --describe --group {_GROUP} --state",
    f"kafka-streams-groups --describe --group {_GROUP} --state --verbose",
    f"kafka-streams-groups --describe --group {_GROUP} --members",
    f"kafka-streams-groups --describe --group {_GROUP} --members --verbose",
    "kafka-streams-groups --describe --all-groups --state",
    "kafka-streams-groups --describe --group none",
    "kafka-streams-groups --describe --group none --members",
    f"kafka-streams-groups --reset-offsets --group {_GROUP} --all-input-topics --to-earliest --dry-run",
    f"kafka-streams-groups --reset-offsets --group {_GROUP} --all-input-topics --to-earliest --execute",
    f"kafka-streams-groups --delete-offsets --group {_GROUP} --all-input-topics",
    f"kafka-streams-groups --delete --group {_GROUP}",
    "kafka-streams-groups --delete --group none",
    "kafka-streams-groups --list --describe",
)
_OF_EMPTY_GROUPS: Final = (
    f"kafka-streams-groups --describe --group {_GROUP} --state --verbose",
    f"kafka-streams-groups --describe --group {_GROUP} --members",
    f"kafka-streams-groups --reset-offsets --group {_GROUP} --input-topic {_GROUP}-t --to-earliest --dry-run",
    f"kafka-streams-groups --reset-offsets --group {_GROUP} --all-input-topics --to-latest --execute",
    f"kafka-streams-groups --describe --group {_GROUP} --offsets",
    f"kafka-streams-groups --reset-offsets --group {_GROUP} --all-input-topics --shift-by -1 --execute",
    f"kafka-streams-groups --reset-offsets --group {_GROUP} --input-topic nothing --to-latest --execute",
    f"kafka-streams-groups --delete-offsets --group {_GROUP} --input-topic {_GROUP}-t",
    f"kafka-streams-groups --delete-offsets --group {_GROUP} --input-topic nothing",
    f"kafka-streams-groups --delete --group {_GROUP} --internal-topic {_GROUP}-changelog",
    f"kafka-streams-groups --delete --group {_GROUP}",
    "kafka-streams-groups --list",
)
_VARYING: Final = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[\w-]{22}\b"), "ID"),
    (re.compile(r"\(127\.0\.0\.1:\d+\)|\d+\.\d+\.\d+\.\d+:\d+"), "BROKER"),
)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    libs = or_skip(lambda: jars.find(version=jars.NEWEST))
    with closing(RealKafka(tmp_path_factory.mktemp("kafka"), libs, _CONFIG)) as running:
        running.start()
        with_coordinators(running.bootstrap)
        yield running.bootstrap


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with Broker(config={"node.id": "1", "minibroker.emulate": "4.4", **_CONFIG, **NO_RETENTION}) as broker:
        yield broker.bootstrap_servers


def _run_calls(tools: NewestTools, bootstrap: str, calls: tuple[str, ...]) -> list[tuple[str, list[str], int]]:
    """Run the calls, and return each with its sorted lines and its status. Tools print lines in hash map order."""
    outputs: list[tuple[str, list[str], int]] = []
    for call in calls:
        tool, *words = call.split()
        answer = tools.run(tool, "--bootstrap-server", bootstrap, *words)
        text = answer.text.replace(bootstrap, "BROKER")
        for pattern, name in _VARYING:
            text = pattern.sub(name, text)
        # Stack traces have JVM-internal frames, which change as the JVM warms up.
        lines = [re.sub(" +", " ", line).strip() for line in text.splitlines() if not line.startswith("\t")]
        outputs.append((call, sorted(line for line in lines if line), answer.status))
    return outputs


def _run_all_calls(tools: NewestTools, bootstrap: str) -> list[tuple[str, list[str], int]]:
    """Run calls on a group with two members, and then on the group without members."""
    with closing(StreamsWorld(address_of(bootstrap), _GROUP)) as world:
        world.create(t=2)
        world.begin("a", world.counting())
        world.step("b", topology=world.counting())
        world.settle_streams()
        Librdkafka(bootstrap).produce(f"{_GROUP}-t", [Message(b"value", partition=0)] * 5)
        world.commit_as("a", world.epochs["a"], 3)
        outputs = _run_calls(tools, bootstrap, _STREAMS)
        for member in "ab":
            world.go(member)
    return outputs + _run_calls(tools, bootstrap, _OF_EMPTY_GROUPS)


def test_tools_for_streams_groups_print_the_same_here_and_there(newest: NewestTools, kafka: str, ours: str) -> None:
    for our_output, kafka_output in zip(_run_all_calls(newest, ours), _run_all_calls(newest, kafka), strict=True):
        assert our_output == kafka_output
