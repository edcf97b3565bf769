"""The newest Kafka's tools for share and streams groups print the same lines on that Kafka and on this broker."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from minibroker import Broker
from tests.broker.socket_client import address_of
from tests.clients.contract import Message
from tests.clients.librdkafka_client import Librdkafka
from tests.command_line_tools.newest_jars import NewestTools
from tests.command_line_tools.runs import run_tool
from tests.kafka import jars
from tests.kafka.coordinators import with_coordinators
from tests.kafka.fixtures import or_skip
from tests.kafka.real_kafka import RealKafka
from tests.kafka.streams_group_world import StreamsWorld
from tests.patience import NO_RETENTION
from tests.programs import run_program
from tests.sweeps import one_in

_TOPIC: Final = "compared"
_PLACE: Final = f"--group g --topic {_TOPIC}"
_CALLS: Final = (
    "--list",
    "--describe --group none",
    "--describe --group none --state",
    "--describe --group none --members",
    f"--reset-offsets {_PLACE} --to-earliest --dry-run",
    f"--reset-offsets {_PLACE} --to-earliest --execute",
    "--list --state",
    "--describe --group g",
    "--describe --group g --offsets --verbose",
    "--describe --group g --state",
    "--describe --group g --state --verbose",
    "--describe --group g --members",
    "--describe --group g --members --verbose",
    "--describe --all-groups",
    f"--reset-offsets {_PLACE} --to-latest --execute",
    "--describe --group g",
    f"--reset-offsets {_PLACE} --to-datetime 2020-01-01T00:00:00.000 --execute",
    "--describe --group g --state --verbose",
    "--reset-offsets --group g --topic nothing --to-earliest --execute",
    "--reset-offsets --group g --all-topics --to-latest --execute",
    f"--delete-offsets {_PLACE}",
    "--describe --group g",
    "--delete-offsets --group g --topic nothing",
    f"--delete-offsets --group none --topic {_TOPIC}",
    "--delete --group g",
    "--delete --group none",
    "--list",
    "--list --describe",
)
_MEANINGS: Final = "This server does not host this topic-partition.", "This broker has no such topic or partition."
"""The meaning of an error code in Kafka's words and in ours. The documentation also uses our words."""
_STATES: Final = "share.coordinator.state.topic"
_SETTINGS: Final = {
    f"{_STATES}.replication.factor": "1",
    f"{_STATES}.min.isr": "1",
    f"{_STATES}.num.partitions": "1",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
"""The settings of both brokers. They let members get their partitions soon."""

_CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
_READ: Final = "read"
_EARLIEST: Final = "share.auto.offset.reset=earliest"
_SHOWN: Final = " ".join(
    f"--formatter-property print.{field}=true" for field in ("delivery", "offset", "partition", "key", "headers")
)
_MODES: Final = one_in(3, ["sync", "async", "auto"])
"""Acknowledgement modes. In async and auto mode, a poll that waits five seconds returns the results."""
_CONSUMERS: Final = (  # Records that a consumer releases or does not acknowledge are delivered to the next consumer.
    f"{_CONSOLE} --topic {_READ} --group r --max-messages 2 --release {_SHOWN}",
    f"{_CONSOLE} --topic {_READ} --group r --max-messages 2 --reject {_SHOWN}",
    f"{_CONSOLE} --topic {_READ} --group r --max-messages 5 {_SHOWN}",
)
"""Classes and arguments of consumers. Each needs its own process because they use static fields and end the JVM."""

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
def libs() -> Path:
    return or_skip(lambda: jars.find(version=jars.NEWEST))


@pytest.fixture(scope="module")
def kafka(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with closing(RealKafka(tmp_path_factory.mktemp("kafka"), libs, _SETTINGS)) as running:
        running.start()
        with_coordinators(running.bootstrap)
        yield running.bootstrap


@pytest.fixture(scope="module")
def minibroker() -> Iterator[str]:
    with Broker(config={"node.id": "1", "minibroker.emulate": "4.4", **_SETTINGS, **NO_RETENTION}) as broker:
        yield broker.bootstrap_servers


def _run_calls(tools: NewestTools, bootstrap: str) -> list[tuple[str, str, int]]:
    """Run the calls, and return each call with its output and status."""
    client = Librdkafka(bootstrap)
    client.create_topic(_TOPIC, 2)
    client.produce(_TOPIC, [Message(b"value", partition=0)] * 5)
    outputs: list[tuple[str, str, int]] = []
    for call in _CALLS:
        answer = tools.run("kafka-share-groups", "--bootstrap-server", bootstrap, *call.split())
        # Stack traces have JVM-internal frames, which change as the JVM warms up.
        lines = [line for line in answer.text.splitlines() if not line.startswith(("log4j:WARN", "\t"))]
        text = "\n".join(lines).replace(bootstrap, "BOOTSTRAP").replace(*_MEANINGS)
        outputs.append((call, text, answer.status))
    return outputs


def test_kafka_share_groups_prints_the_same_here_and_there(newest: NewestTools, kafka: str, minibroker: str) -> None:
    kafka_output = _run_calls(newest, kafka)
    assert _run_calls(newest, minibroker) == kafka_output


def _run_consumers(libs: Path, bootstrap: str) -> Iterator[tuple[str, list[str], int]]:
    """Run the consumers, and yield each call with its output lines and status."""
    client = Librdkafka(bootstrap)
    client.create_topic(_READ, 1)
    client.produce(_READ, [Message(b"value %d" % number, b"key", headers=(("h", b"1"),)) for number in range(7)])
    change = ("--alter", "--entity-type", "groups", "--entity-name", "r")
    answer = run_tool("kafka-configs", "--bootstrap-server", bootstrap, *change, "--add-config", _EARLIEST)
    assert answer.status == 0, answer
    for call in _CONSUMERS:
        name, *arguments = call.split()
        command = [jars.java(), *jars.SHORT_LIVED, "-cp", f"{libs}/*", name, "--bootstrap-server", bootstrap]
        run = run_program([*command, *arguments])
        assert run.stdout or run.stderr, call
        lines = [*run.stdout.splitlines(), *run.stderr.splitlines()]
        yield call, [_normalize(line) for line in lines if not line.startswith("log4j:WARN")], run.returncode


def _normalize(line: str) -> str:
    """Remove the time from a line, and sort its offsets, which Kafka keeps in a set."""
    if not line.startswith("{"):
        return line
    event = json.loads(line)
    del event["timestamp"]
    for partition in event.get("partitions", ()):
        partition["offsets"].sort()
    return json.dumps(event)


@pytest.mark.torture
def test_share_consumers_of_the_shell_print_the_same_here_and_there(libs: Path, kafka: str, minibroker: str) -> None:
    for our_output, kafka_output in zip(_run_consumers(libs, minibroker), _run_consumers(libs, kafka), strict=True):
        assert our_output == kafka_output


def _run_verifiable_consumer(tools: NewestTools, bootstrap: str, mode: str) -> tuple[list[str], int]:
    """Run a consumer with this acknowledgement mode, and return its events and status."""
    topic = f"{mode}-verified"
    client = Librdkafka(bootstrap)
    client.create_topic(topic, 1)
    client.produce(topic, [Message(b"value %d" % number, b"key") for number in range(7)])
    options = f"--topic {topic} --group-id {mode} --max-messages 7 --verbose --offset-reset-strategy earliest"
    words = (*options.split(), "--acknowledgement-mode", mode)
    answer = tools.run("kafka-verifiable-share-consumer", "--bootstrap-server", bootstrap, *words)
    return [_normalize(line) for line in answer.text.splitlines()], answer.status


@pytest.mark.torture
@pytest.mark.parametrize("mode", _MODES)
def test_a_verifiable_share_consumer_prints_the_same_here_and_there(
    newest: NewestTools, kafka: str, minibroker: str, mode: str
) -> None:
    events, status = _run_verifiable_consumer(newest, kafka, mode)
    assert _run_verifiable_consumer(newest, minibroker, mode) == (events, status)
    assert (status, sum('"offsets_acknowledged"' in event for event in events)) == (0, 1)


def _run_streams_calls(tools: NewestTools, bootstrap: str, calls: tuple[str, ...]) -> list[tuple[str, list[str], int]]:
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


def _run_all_streams_calls(tools: NewestTools, bootstrap: str) -> list[tuple[str, list[str], int]]:
    """Run calls on a group with two members, and then on the group without members."""
    with closing(StreamsWorld(address_of(bootstrap), _GROUP)) as world:
        world.create(t=2)
        world.begin("a", world.counting())
        world.step("b", topology=world.counting())
        world.settle_streams()
        Librdkafka(bootstrap).produce(f"{_GROUP}-t", [Message(b"value", partition=0)] * 5)
        world.commit_as("a", world.epochs["a"], 3)
        outputs = _run_streams_calls(tools, bootstrap, _STREAMS)
        for member in "ab":
            world.go(member)
    return outputs + _run_streams_calls(tools, bootstrap, _OF_EMPTY_GROUPS)


@pytest.mark.torture
def test_tools_for_streams_groups_print_the_same_here_and_there(
    newest: NewestTools, kafka: str, minibroker: str
) -> None:
    for our_output, kafka_output in zip(
        _run_all_streams_calls(newest, minibroker), _run_all_streams_calls(newest, kafka), strict=True
    ):
        assert our_output == kafka_output
