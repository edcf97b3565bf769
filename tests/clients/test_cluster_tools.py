"""Kafka's command line tools for the cluster print the same on this broker, taken for Kafka 3.9, as on that Kafka."""

import json
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker import Broker
from tests.clients.contract import TIMEOUT, Message
from tests.clients.librdkafka_client import Librdkafka
from tests.clients.operator_tools import TOOLS, Transcript, both
from tests.kafka import jvm
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import RealKafka

TOPICS: Final = "kafka-topics"
PARTITIONS: Final = 2
RECORDS: Final = 5
TIMESTAMP: Final = 1_600_000_000_000
NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
ACLS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}

Scenario = Callable[[Transcript], None]
Compare = Callable[[Scenario], Transcript]


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    """Our broker, configured as the Kafka of the tests is, where topics see it."""
    config = {
        "minibroker.emulate": "3.9",
        "node.id": "1",
        "log.retention.ms": "-1",
        "log.segment.delete.delay.ms": "1000",
        "offsets.topic.num.partitions": "1",
    }
    with Broker(config=config) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def compare(oracle: Oracle, ours: str, real_kafka: RealKafka) -> Compare:
    """A function that runs a scenario on both brokers and holds what the tools print against each other."""
    return lambda scenario: both(oracle, ours, real_kafka.bootstrap, f"run-{uuid.uuid4().hex[:8]}", scenario)


def fill(on: Transcript) -> str:
    """A topic with so many records in each partition; returns its name."""
    client, topic = Librdkafka(on.bootstrap), f"{on.prefix}-topic"
    client.create_topic(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        messages = [Message(b"%d" % n, partition=partition, timestamp=TIMESTAMP + n) for n in range(RECORDS)]
        client.produce(topic, messages)
    return topic


def partitions(topic: str, **fields: Any) -> str:
    """The details that tools read of a topic's partitions."""
    named = [{"topic": topic, "partition": index, **fields} for index in range(PARTITIONS)]
    return json.dumps({"version": 1, "partitions": named})


def test_topics_are_made_described_grown_and_deleted_as_on_kafka(compare: Compare) -> None:
    def scenario(on: Transcript) -> None:
        on.run_all(
            TOPICS,
            "--create --topic {}-topic --partitions 2",
            "--create --topic {}-topic",
            "--create --topic {}-topic --if-not-exists",
            "--create --topic {}-by-hand --replica-assignment 1,1",
            "--create --topic {}-wide --replication-factor 1 --partitions 0",
            "--list",
            "--describe --topic {}-topic",
            "--describe --topic {}-.* --exclude-internal",
            "--describe --topic {}-topic --under-replicated-partitions",
            "--describe --topic {}-topic --unavailable-partitions",
            "--describe --topic {}-topic --under-min-isr-partitions",
            "--describe --topic {}-topic --at-min-isr-partitions",
            "--describe --topic {}-none",
            "--describe --topic {}-none --if-exists",
            "--alter --topic {}-topic --partitions 3",
            "--alter --topic {}-topic --partitions 1",
            "--describe --topic {}-topic",
            "--delete --topic {}-topic",
            "--delete --topic {}-topic",
            "--delete --topic {}-topic --if-exists",
            "--delete --topic {}-by-hand",
        )

    comparison = compare(scenario)
    assert "PartitionCount: 3" in comparison.commands[16].text()


def test_leaders_and_replicas_are_chosen_as_on_kafka(compare: Compare, tmp_path: Path) -> None:
    to_move, reassignment, impossible, leaders = (
        tmp_path / name for name in ("move", "wanted", "impossible", "leaders")
    )

    def scenario(on: Transcript) -> None:
        topic = fill(on)
        to_move.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
        reassignment.write_text(partitions(topic, replicas=[1]))
        impossible.write_text(partitions(topic, replicas=[1, 7]))
        leaders.write_text(partitions(topic))
        on.run_all(
            "kafka-leader-election",
            "--election-type preferred --topic {}-topic --partition 0",
            "--election-type unclean --topic {}-topic --partition 1",
            "--election-type preferred --topic {}-topic --partition 7",
            f"--election-type preferred --path-to-json-file {leaders}",
            "--election-type preferred --all-topic-partitions",
        )
        on.run_all(
            "kafka-reassign-partitions",
            f"--generate --topics-to-move-json-file {to_move} --broker-list 1",
            f"--execute --reassignment-json-file {reassignment}",
            f"--verify --reassignment-json-file {reassignment}",
            "--list",
            f"--cancel --reassignment-json-file {reassignment}",
            f"--execute --reassignment-json-file {impossible}",
        )

    comparison = compare(scenario)
    assert f"Reassignment of partition {comparison.prefix}-topic-0 is completed." in comparison.find("--verify").text()


def test_records_and_directories_are_measured_and_deleted_as_on_kafka(compare: Compare, tmp_path: Path) -> None:
    some, too_many = tmp_path / "some", tmp_path / "too-many"

    def scenario(on: Transcript) -> None:
        topic = fill(on)
        some.write_text(partitions(topic, offset=3))
        too_many.write_text(partitions(topic, offset=99))
        on.run_all(
            "kafka-log-dirs",
            "--describe --topic-list {}-topic",
            "--describe --topic-list {}-none",
            "--describe --topic-list {}-topic --broker-list 1,9",
        )
        on.run_all("kafka-delete-records", f"--offset-json-file {some}", f"--offset-json-file {too_many}")
        on.run_all(
            "kafka-get-offsets",
            "--topic {}-topic",
            "--topic {}-topic --time earliest",
            "--topic {}-topic --time max-timestamp",
            f"--topic {{}}-topic --time {TIMESTAMP + 4}",
            "--topic-partitions {}-topic:1",
        )

    comparison = compare(scenario)
    assert f"{comparison.prefix}-topic:1:3" in comparison.find("earliest").lines


def test_the_cluster_is_described_as_on_kafka(compare: Compare) -> None:
    served: list[list[str]] = []

    def scenario(on: Transcript) -> None:
        versions = on.ask("kafka-broker-api-versions").lines
        served.append([line for line in versions if "Telemetry" not in line])  # Kafka's needs a plugin for it
        on.run_all("kafka-features", "describe")
        on.run_all("kafka-metadata-quorum", "describe --status", "describe --replication")
        on.run_all(
            "kafka-cluster",
            "cluster-id --bootstrap-server {broker}",
            "unregister --id 77 --bootstrap-server {broker}",
        )
        on.run_all("kafka-acls", "--list", "--add --allow-principal User:alice --operation Read --topic {}-topic")

    comparison = compare(scenario)
    assert served[0] == served[1]
    assert any("metadata.version" in line for line in comparison.find("kafka-features").lines)
    assert "No Authorizer is configured" in comparison.find("kafka-acls", "--add").text()


def test_programs_that_measure_end_as_on_kafka(compare: Compare) -> None:
    measured: list[list[str]] = []

    def scenario(on: Transcript) -> None:
        Librdkafka(on.bootstrap).create_topic(f"{on.prefix}-topic", 1)
        load = "--num-records 2000 --record-size 100 --throughput -1 --producer-props bootstrap.servers={broker}"
        written = on.ask("kafka-producer-perf-test", "--topic", f"{on.prefix}-topic", *load.split())
        count = ("--topic", f"{on.prefix}-topic", "--messages", "2000", "--hide-header", "--timeout", "120000")
        read = on.ask("kafka-consumer-perf-test", *count)
        measured.append([NUMBER.sub("N", line) for line in (*written.lines, *read.lines)])
        on.run_all("kafka-get-offsets", "--topic {}-topic")
        assert written.text().startswith("2000 records sent")

    comparison = compare(scenario)
    assert measured[0] == measured[1]
    assert comparison.commands[0].lines == (f"{comparison.prefix}-topic:0:2000",)


def run_program(libs: Path, name: str, *arguments: str) -> list[Any]:
    """The report of a program of Kafka's system tests before it ends well: an object for each line."""
    command = [*jvm.command(libs), f"org.apache.kafka.tools.{name}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT * 3, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def names_of(reports: list[Any]) -> list[str]:
    """The report without repeated objects."""
    return list(dict.fromkeys(report["name"] for report in reports))


@pytest.mark.torture
@pytest.mark.parametrize("where", ["ours", "kafka"])
def test_programs_of_kafkas_system_tests_end_well(
    where: str, kafka_libs: Path, ours: str, request: pytest.FixtureRequest
) -> None:
    bootstrap = ours if where == "ours" else request.getfixturevalue("real_kafka").bootstrap
    run = f"run-{uuid.uuid4().hex[:8]}"
    Librdkafka(bootstrap).create_topic(f"{run}-in", 1)
    Librdkafka(bootstrap).create_topic(f"{run}-out", 1)
    server = ("--bootstrap-server", bootstrap)
    produced = run_program(kafka_libs, "VerifiableProducer", *server, "--topic", f"{run}-in", "--max-messages", "20")
    assert names_of(produced) == ["startup_complete", "producer_send_success", "shutdown_complete", "tool_data"]
    assert (produced[-1]["sent"], produced[-1]["acked"]) == (20, 20)

    places = ("--input-topic", f"{run}-in", "--input-partition", "0", "--output-topic", f"{run}-out")
    sizes = ("--max-messages", "20", "--transaction-size", "5")
    ids = ("--transactional-id", f"{run}-id", "--consumer-group", f"{run}-copier")
    copied = run_program(kafka_libs, "TransactionalMessageCopier", "--broker-list", bootstrap, *places, *ids, *sizes)
    assert (copied[-1]["totalProcessed"], copied[-1]["remaining"]) == (20, 0)

    asked = ("--topic", f"{run}-out", "--group-id", f"{run}-reader", "--max-messages", "20")
    consumed = run_program(kafka_libs, "VerifiableConsumer", *server, *asked, "--reset-policy", "earliest")
    assert sum(report.get("count", 0) for report in consumed if report["name"] == "records_consumed") == 20
    assert names_of(consumed)[-1] == "shutdown_complete"


def test_rules_are_added_listed_and_removed(oracle: Oracle) -> None:
    with Broker(config=ACLS) as broker:

        def acls(words: str) -> str:
            return oracle.attempt(TOOLS["kafka-acls"], "--bootstrap-server", broker.bootstrap_servers, *words.split())

        alice = "--allow-principal User:alice"
        added = acls(f"--add {alice} --producer --topic orders")
        assert "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)" in added
        acls(f"--add {alice} --operation Read --group g --resource-pattern-type prefixed")
        listed = acls("--list --topic orders")
        for operation in ("WRITE", "DESCRIBE", "CREATE"):
            assert f"(principal=User:alice, host=*, operation={operation}, permissionType=ALLOW)" in listed
        acls(f"--remove {alice} --producer --topic orders --force")
        left = acls("--list")
        assert "orders" not in left
        assert "ResourcePattern(resourceType=GROUP, name=g, patternType=PREFIXED)" in left


def test_replicas_and_leaders_of_three_brokers_are_moved_by_kafkas_tools(oracle: Oracle, tmp_path: Path) -> None:
    with Broker(brokers=3) as broker:

        def run(tool: str, words: str) -> str:
            return oracle.attempt(TOOLS[tool], "--bootstrap-server", broker.bootstrap_servers, *words.split())

        run(TOPICS, "--create --topic t --replica-assignment 1:2:3,2:3:1")
        broker.brokers[1].stop()
        assert "Replicas: 1,2,3\tIsr: 2,3\t" in run(TOPICS, "--describe --under-replicated-partitions")
        one = run("kafka-leader-election", "--election-type preferred --topic t --partition 0")
        assert "PreferredLeaderNotAvailableException" in one
        broker.brokers[1].start()
        everything = run("kafka-leader-election", "--election-type preferred --all-topic-partitions")
        assert "Successfully completed leader election (PREFERRED) for partitions t-0" in everything
        assert "Topic: t" not in run(TOPICS, "--describe --under-replicated-partitions")

        topics, reassignment = tmp_path / "topics", tmp_path / "wanted"
        topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
        proposed = run(
            "kafka-reassign-partitions", f"--generate --topics-to-move-json-file {topics} --broker-list 1,2,3"
        )
        assert "Proposed partition reassignment configuration" in proposed
        described = run("kafka-log-dirs", "--describe --topic-list t")
        assert described.count('"partition":"t-0"') == 3
        (directory, *_) = re.findall(r'"logDir":"([^"]+)"', described)
        move = {"topic": "t", "partition": 0, "replicas": [3, 2], "log_dirs": [directory, "any"]}
        reassignment.write_text(json.dumps({"version": 1, "partitions": [move]}))
        execution = run(
            "kafka-reassign-partitions", f"--execute --throttle 1000 --reassignment-json-file {reassignment}"
        )
        assert "Successfully started partition reassignment for t-0" in execution
        verified = run("kafka-reassign-partitions", f"--verify --reassignment-json-file {reassignment}")
        assert "Reassignment of partition t-0 is completed." in verified
        assert "Reassignment of replica t-0-3 completed successfully." in verified
        assert broker.leader("t", 0) == 3
        assert run("kafka-metadata-quorum", "describe --replication").count("Observer") == 2
