"""Our tools for records, ACLs, log directories, leaders and features print the same as Kafka's, on both brokers."""

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from tests.clients.contract import Message
from tests.clients.librdkafka_client import Librdkafka
from tests.command_line_tools.comparing import Comparison, new_topic, write_json
from tests.command_line_tools.runs import run_kafka_tool, run_our_tool, run_tool
from tests.kafka.fixtures import or_skip
from tests.kafka.jars import find
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import RealKafka

_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = new_topic(bootstrap, 2)
    for partition in range(2):
        Librdkafka(bootstrap).produce(name, [Message(b"%d" % n, partition=partition) for n in range(5)])
    return name


def test_records_are_deleted(comparison: Comparison, bootstrap: str, topic: str, tmp_path: Path) -> None:
    def entry(partition: object, offset: object, name: str = topic) -> dict[str, object]:
        return {"topic": name, "partition": partition, "offset": offset}

    files = {
        "one": {"partitions": [entry(0, 2)], "version": 1},
        "both": {"partitions": [entry(0, 3), entry(1, -1)]},
        "beyond": {"partitions": [entry(0, 99)], "version": 1},
        "twice": {"partitions": [entry(0, 1), entry(0, 2)], "version": 1},
        "newer": {"partitions": [], "version": 2},
        "none": {"version": 1},
        "nothing": "{",
    }
    paths = [write_json(tmp_path / f"{name}.json", content) for name, content in files.items()]
    tool = "kafka-delete-records --bootstrap-server {B}"
    calls = [f"{tool} --offset-json-file {path}" for path in paths]
    comparison.compare(*calls, tool, f"{tool} --offset-json-file {tmp_path}/missing")
    start = run_our_tool("kafka-get-offsets", "--bootstrap-server", bootstrap, "--topic", topic, "--time", "earliest")
    assert start.lines == (f"{topic}:0:3", f"{topic}:1:5")
    broken = write_json(tmp_path / "broken.json", {"partitions": [{"topic": topic, "partition": "0", "offset": 1}]})
    refused = run_tool("kafka-delete-records", "--bootstrap-server", bootstrap, "--offset-json-file", str(broken))
    assert (refused.status, str(broken) in refused.err) == (1, True)


def test_log_directories_are_described(comparison: Comparison, oracle: Oracle, bootstrap: str, topic: str) -> None:
    tool = "kafka-log-dirs --bootstrap-server {B}"
    comparison.compare(tool, "kafka-log-dirs --describe", f"{tool} --describe --broker-list 7,9")
    words = (*comparison.words(tool), "--describe", "--topic-list", topic)
    shown = json.loads(run_tool(*words, "--broker-list", "1").out.splitlines()[-1])
    printed = oracle.attempt("org.apache.kafka.tools.LogDirsCommand", *words[1:])
    kafka_output = json.loads(printed.strip().splitlines()[-1])
    (broker,), (their_broker,) = shown["brokers"], kafka_output["brokers"]

    def sort_replicas(description: dict[str, Any]) -> list[Any]:
        return sorted(description["logDirs"][0]["partitions"], key=lambda replica: str(replica["partition"]))

    assert (shown["version"], broker["broker"]) == (kafka_output["version"], their_broker["broker"]) == (1, 1)
    assert broker["logDirs"][0].keys() == their_broker["logDirs"][0].keys()
    assert sort_replicas(broker) == sort_replicas(their_broker)
    assert len(sort_replicas(broker)) == 2


def test_leaders_are_elected(comparison: Comparison, topic: str, tmp_path: Path) -> None:
    plan = write_json(tmp_path / "plan.json", {"partitions": [{"topic": topic, "partition": 1}]})
    twice = write_json(tmp_path / "twice.json", {"partitions": [{"topic": topic, "partition": 1}] * 2})
    none = write_json(tmp_path / "none.json", {})
    tool = "kafka-leader-election --bootstrap-server {B}"
    comparison.compare(
        f"{tool} --election-type preferred --topic {topic} --partition 0",
        f"{tool} --election-type UNCLEAN --topic {topic} --partition 0",
        f"{tool} --election-type preferred --topic {{}}-none --partition 0",
        f"{tool} --election-type preferred --all-topic-partitions",
        f"{tool} --election-type preferred --path-to-json-file {plan}",
        f"{tool} --election-type preferred --path-to-json-file {twice}",
        f"{tool} --election-type preferred --path-to-json-file {none}",
        f"{tool} --election-type sudden --topic {topic} --partition 0",
        f"{tool} --election-type preferred --topic {topic}",
        f"{tool} --election-type preferred --all-topic-partitions --partition 0",
        f"{tool} --election-type preferred --all-topic-partitions --topic {topic}",
        tool,
        "kafka-leader-election --topic x",
    )


def test_features_are_described_and_refused(comparison: Comparison, bootstrap: str) -> None:
    tool = "kafka-features --bootstrap-server {B}"
    comparison.compare(
        f"{tool} upgrade --metadata 3.9-IV0 --dry-run",
        f"{tool} upgrade --feature metadata.version=99",
        f"{tool} upgrade --feature nothing=1 --dry-run",
        f"{tool} downgrade --metadata 3.8-IV0 --dry-run",
        f"{tool} disable --feature nothing",
        f"{tool} disable --feature metadata.version --dry-run",
        f"{tool} upgrade",
        f"{tool} upgrade --metadata nonsense",
        f"{tool} upgrade --feature nothing",
        f"{tool} upgrade --feature nothing=x",
        f"{tool} upgrade --feature a=1 --feature a=2",
    )
    lines = run_our_tool(*f"kafka-features --bootstrap-server {bootstrap} describe".split()).lines
    (metadata,) = [line for line in lines if line.startswith("Feature: metadata.version")]
    assert metadata.split("\t")[2:4] == ["SupportedMaxVersion: 3.9-IV0", "FinalizedVersionLevel: 3.9-IV0"]


def _hide_changing_fields(line: str) -> list[str]:
    """Split a quorum line into words, and replace the offsets and times that change between runs with "#"."""
    words = re.sub(r"(?<=[\s:])\d{2,}\b|(?<=(?:Ms|rk):) +-?\d+", "#", line).split()
    is_replica = words[:1] != [] and words[0].isdecimal()
    return [*words[:2], "#", *words[3:]] if is_replica else words


def test_the_quorum_is_described(comparison: Comparison, oracle: Oracle, bootstrap: str) -> None:
    tool = "kafka-metadata-quorum --bootstrap-server {B}"
    comparison.compare(
        f"{tool} describe", f"{tool} describe --status --replication", f"{tool} describe --status --human-readable"
    )
    for option in ("--status", "--replication"):
        words = ("kafka-metadata-quorum", "--bootstrap-server", bootstrap, "describe", option)
        kafka_output, our_output = (
            [_hide_changing_fields(line) for line in ran.lines]
            for ran in (run_kafka_tool(oracle, *words), run_our_tool(*words))
        )
        assert len(our_output) > 1
        assert our_output == kafka_output


@pytest.fixture(scope="module")
def guarded_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with closing(RealKafka(tmp_path_factory.mktemp("guarded"), or_skip(find), _AUTHORIZER)) as kafka:
        kafka.start()
        yield kafka.bootstrap


@pytest.fixture(scope="module")
def guarded_minibroker() -> Iterator[str]:
    with Broker(config={"minibroker.emulate": "3.9", **_AUTHORIZER}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(params=["minibroker", pytest.param("kafka", marks=pytest.mark.torture)])
def guarded(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"guarded_{request.param}")
    return address


def test_rules_are_added_listed_and_removed(oracle: Oracle, guarded: str) -> None:
    tool = "kafka-acls --bootstrap-server {B}"
    add, remove = f"{tool} --add", f"{tool} --remove --force"
    Comparison(oracle, guarded).compare(
        f"{add} --allow-principal User:{{}} --operation Read --operation write --topic {{}} --allow-host 10.0.0.1",
        f"{add} --deny-principal User:{{}} --operation All --group {{}} --resource-pattern-type prefixed",
        f"{add} --allow-principal User:{{}} --producer --consumer --topic {{}} --group {{}}",
        f"{add} --allow-principal User:{{}} --producer --idempotent --topic {{}} --transactional-id {{}}",
        f"{add} --allow-principal User:{{}} --cluster --operation ClusterAction",
        f"{tool} --list --principal User:{{}}",
        f"{tool} --list --topic {{}}",
        f"{tool} --list --group {{}}x --resource-pattern-type match",
        f"{tool} --list --principal User:{{}} --topic {{}} --group {{}}",
        f"{remove} --allow-principal User:{{}} --operation Read --topic {{}} --allow-host 10.0.0.1",
        f"{tool} --list --topic {{}}",
        f"{remove} --topic {{}}",
        f"{remove} --group {{}} --resource-pattern-type any",
        f"{remove} --transactional-id {{}}",
        f"{remove} --cluster --allow-principal User:{{}} --operation ClusterAction",
        f"{tool} --list",
    )


def test_wrong_rules_are_refused(comparison: Comparison, oracle: Oracle, guarded: str) -> None:
    tool = "kafka-acls --bootstrap-server {B}"
    Comparison(oracle, guarded).compare(
        f"{tool} --list --add",
        f"{tool} --list --producer",
        f"{tool} --add --allow-principal User:a",
        f"{tool} --add --topic a",
        f"{tool} --add --topic a --allow-principal a",
        f"{tool} --add --topic a --allow-principal User:a --resource-pattern-type any",
        f"{tool} --add --topic a --allow-principal User:a --resource-pattern-type none",
        f"{tool} --add --producer --allow-principal User:a",
        f"{tool} --add --producer --topic a --operation Read --allow-principal User:a",
        f"{tool} --add --consumer --topic a --allow-principal User:a",
        f"{tool} --add --idempotent --cluster --allow-principal User:a",
        f"{tool} --add --topic a --principal User:a",
        "kafka-acls --list",
    )
    comparison.compare(f"{tool} --list")
    words = tool.replace("{B}", guarded).split()
    refused = run_tool(*words, "--add", "--topic", "a", "--operation", "Fly", "--allow-principal", "User:a")
    assert (refused.status, refused.err.partition(" operations ")[0]) == (1, "ResourceType TOPIC only supports")


def test_a_removal_waits_for_a_yes(guarded: str) -> None:
    words = ("kafka-acls", "--bootstrap-server", guarded)
    name = f"t{uuid.uuid4().hex[:8]}"
    assert run_tool(*words, "--add", "--topic", name, "--allow-principal", "User:a").status == 0
    for answer, remains in ((b"n\n", True), (b"", True), (b"y\n", False)):
        confirmed = run_tool(*words, "--remove", "--topic", name, stdin=answer)
        assert confirmed.out.startswith("Are you sure you want to delete all ACLs for resource filter")
        assert (name in run_tool(*words, "--list", "--topic", name).out) == remains
