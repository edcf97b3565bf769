"""kafka-consumer-groups prints, plans and commits the same as Kafka's tool, on Apache Kafka and on this broker."""

import uuid
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from minibroker_tools.commands.group_resets import parse_datetime_ms, parse_duration_ms
from minibroker_tools.failures import ToolError
from tests.clients.contract import Message
from tests.clients.librdkafka_client import Librdkafka
from tests.command_line_tools.comparing import Comparison
from tests.command_line_tools.runs import Run, run_kafka_tool, run_our_tool
from tests.patience import eventually

_GROUPS = "kafka-consumer-groups --bootstrap-server {B} --timeout 60000"
_TIMESTAMP = 1_600_000_000_000
"""The timestamp of each partition's first record, 2020-09-13T12:26:40Z. Later records follow one second apart."""


@pytest.fixture
def name() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


def topic_with_records(bootstrap: str, name: str) -> None:
    client = Librdkafka(bootstrap)
    client.create_topic(name, 3)
    for partition in range(3):
        client.produce(
            name, [Message(b"%d" % n, partition=partition, timestamp=_TIMESTAMP + n * 1_000) for n in range(5)]
        )


def commit(bootstrap: str, group: str, topic: str, offsets: Sequence[int]) -> None:
    committer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    positions = [TopicPartition(topic, partition, offset) for partition, offset in enumerate(offsets)]
    committer.commit(offsets=positions, asynchronous=False)
    committer.close()


def test_groups_with_members_are_listed_and_described(
    comparison: Comparison, bootstrap: str, minibroker: str, name: str
) -> None:
    topic_with_records(bootstrap, name)
    commit(bootstrap, name, name, [2, 5])
    with ExitStack() as ends:
        running: list[Consumer] = []
        for more in ({"client.id": "one"}, {"client.id": "two", "group.instance.id": "static"}):
            settings = {"bootstrap.servers": bootstrap, "group.id": name, "enable.auto.commit": False, **more}
            running.append(ends.enter_context(closing(Consumer(settings))))
            running[-1].subscribe([name])

        def shared() -> bool:
            for consumer in running:
                consumer.poll(0.05)
            return sorted(len(consumer.assignment()) for consumer in running) == [1, 2]

        eventually(shared)
        comparison.compare(
            f"{_GROUPS} --describe --group {{}}",
            f"{_GROUPS} --describe --group {{}} --offsets --verbose",
            f"{_GROUPS} --describe --group {{}} --group {{}}-none",
            f"{_GROUPS} --describe --group {{}} --members",
            f"{_GROUPS} --describe --group {{}} --members --verbose",
            f"{_GROUPS} --describe --group {{}} --state",
            f"{_GROUPS} --list --state stable --type classic",
            f"{_GROUPS} --delete --group {{}}",
            f"{_GROUPS} --delete --group {{}} --group {{}}-none",
            f"{_GROUPS} --delete-offsets --group {{}} --topic {{}}",
            f"{_GROUPS} --reset-offsets --group {{}} --topic {{}} --to-earliest --execute",
            name=name,
        )
        if bootstrap == minibroker:  # On Kafka, other tests have left groups whose assignments no tool can decode.
            everything = comparison.run_ours(f"{_GROUPS} --describe --all-groups --members")
            assert sum(line.startswith(name) for line in everything.lines) == 2, everything


def test_offsets_of_groups_without_members_are_moved(
    comparison: Comparison, bootstrap: str, name: str, tmp_path: Path
) -> None:
    topic_with_records(bootstrap, name)
    plan, of_groups, broken = tmp_path / "plan.csv", tmp_path / "groups.csv", tmp_path / "broken.csv"
    plan.write_text(f"{name},0,1\n{name},2,99\n")
    of_groups.write_text(f"{name},{name},0,1\nother,{name},2,4\n")
    broken.write_text(f"{name},0\n")
    scenarios = (
        "--to-earliest", "--to-latest", "--to-current", "--to-offset 4", "--to-offset 400", "--shift-by -3",
        "--shift-by 10", "--to-datetime 2020-09-13T12:26:42.000", "--to-datetime 2020-09-13T14:26:42.000+02:00",
        "--to-datetime 2020-09-13", "--to-datetime 2020-09-13T12:26:42", "--by-duration P1D", "--by-duration P20000D",
        "--by-duration 1D", f"--from-file {plan}", f"--from-file {tmp_path}/missing",
        "--to-earliest --export",
    )  # fmt: skip
    reset = f"{_GROUPS} --reset-offsets --group {{}}"
    comparison.compare(
        *(f"{reset} --all-topics {scenario} --dry-run" for scenario in scenarios),
        f"{reset} --topic {{}}:0,2 --to-latest --execute",
        f"{reset} --topic {{}} --to-current",
        f"{reset} --topic {{}} --shift-by 1 --execute",
        f"{reset} --topic {{}}:7x --to-latest --execute",
        f"{reset} --topic {{}}:1:2 --to-latest --execute",
        f"{reset} --topic {{}}-none --to-latest --execute",
        f"{reset} --group {{}}-new --from-file {of_groups} --execute",
        f"{_GROUPS} --list --state",
        f"{_GROUPS} --describe --group {{}}",
        f"{_GROUPS} --describe --group {{}} --state",
        f"{_GROUPS} --delete-offsets --group {{}} --topic {{}}:1",
        f"{_GROUPS} --delete-offsets --group {{}} --topic {{}} --topic {{}}-none",
        f"{_GROUPS} --delete-offsets --group {{}}-none --topic {{}}",
        f"{_GROUPS} --delete --group {{}} --group {{}}-none",
        f"{_GROUPS} --delete --group {{}}",
        name=name,
        prepare=lambda: commit(bootstrap, name, name, [2, 5]),
    )
    lines = comparison.run_ours(f"{_GROUPS} --reset-offsets --group {name} --from-file {broken}").lines
    assert any("line 1:" in line and "TOPIC,PARTITION,OFFSET" in line for line in lines)


@pytest.mark.parametrize("scenario", ["--to-earliest", "--to-latest", "--shift-by 1", "--to-offset 3"])
def test_a_reset_is_committed(comparison: Comparison, name: str, scenario: str) -> None:
    topic_with_records(comparison.bootstrap, name)
    described: list[Run] = []
    words = comparison.words(f"{_GROUPS} --reset-offsets --group {name} --all-topics {scenario} --execute")
    for run in (partial(run_kafka_tool, comparison.jvm), run_our_tool):
        commit(comparison.bootstrap, name, name, [2, 4])
        assert run(*words).status == 0
        described.append(comparison.run_ours(f"{_GROUPS} --describe --group {name}"))
    assert described[0] == described[1]


def test_wrong_command_lines_fail_as_with_kafkas_tool(comparison: Comparison, name: str) -> None:
    comparison.compare(
        "kafka-consumer-groups",
        "kafka-consumer-groups --list",
        "kafka-consumer-groups --version",
        _GROUPS,
        f"{_GROUPS} --list --describe --all-groups",
        f"{_GROUPS} --describe --group a --members --state",
        f"{_GROUPS} --describe --group a --state stable",
        f"{_GROUPS} --describe --group a --all-groups",
        f"{_GROUPS} --list --members",
        f"{_GROUPS} --list --state none",
        f"{_GROUPS} --list --group a",
        f"{_GROUPS} --delete --group a --topic b",
        f"{_GROUPS} --delete --group a --type classic",
        f"{_GROUPS} --reset-offsets --group a --to-earliest --to-latest --topic b --dry-run",
        f"{_GROUPS} --reset-offsets --group a --dry-run --execute",
        f"{_GROUPS} --reset-offsets --group a --to-earliest --dry-run",
        f"{_GROUPS} --describe --group",
        f"{_GROUPS} --describe --all-groups --topic b",
        name=name,
    )


def test_dates_and_durations_are_javas() -> None:
    assert parse_datetime_ms("2020-09-13T12:26:40.007") == _TIMESTAMP + 7
    assert parse_datetime_ms("2020-09-13T14:26:40.000+02:00") == _TIMESTAMP
    assert parse_datetime_ms("2020-09-13T14:26:40.000+0200") == _TIMESTAMP
    durations = {"PT1.5S": 1500, "P1DT1H1M": 90_060_000, "-PT1S": -1000, "pt-1m": -60_000}
    assert {text: parse_duration_ms(text) for text in durations} == durations
    for text in ("", "P", "PT", "P1DT", "1D", "P1Y"):
        with pytest.raises(ToolError, match="Text cannot be parsed to a Duration"):
            parse_duration_ms(text)
    with pytest.raises(ToolError, match="Unparseable date"):
        parse_datetime_ms("2020-13-13T12:26:40.000")
