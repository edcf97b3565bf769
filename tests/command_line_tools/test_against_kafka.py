"""Our tools print the same as Kafka's and have the same exit status, on Apache Kafka and on this broker."""

import uuid

from tests.command_line_tools.comparing import Comparison
from tests.command_line_tools.runs import run_tool


def test_topics_are_created_listed_described_altered_and_deleted_as_by_kafkas_tool(comparison: Comparison) -> None:
    topics = "kafka-topics --bootstrap-server {B}"
    comparison.compare(
        f"{topics} --create --topic {{}}-a --partitions 3 --replication-factor 1 --config retention.ms=1000",
        f"{topics} --create --topic {{}}-a",
        f"{topics} --create --topic {{}}-a --if-not-exists",
        f"{topics} --create --topic {{}}_b.c --partitions=2 --config=cleanup.policy=compact",
        f"{topics} --list",
        f"{topics} --list --topic {{}}-.*,nothing",
        f"{topics} --describe --topic {{}}-a",
        f"{topics} --describe --topic {{}}.* --topics-with-overrides",
        f"{topics} --describe --topic {{}}-a --under-replicated-partitions",
        f"{topics} --describe --topic {{}}-a --at-min-isr-partitions",
        f"{topics} --alter --topic {{}}-a --partitions 5",
        f"{topics} --alter --topic {{}}-a --partitions 2",
        f"{topics} --describe --topic {{}}-a",
        f"{topics} --delete --topic {{}}-a",
        f"{topics} --delete --topic {{}}-a",
        f"{topics} --delete --topic {{}}-a --if-exists",
        f"{topics} --describe --topic {{}}-a",
        f"{topics} --list",
    )


def test_wrong_command_lines_and_requests_of_kafka_topics_fail_as_with_kafkas_tool(comparison: Comparison) -> None:
    topics = "kafka-topics --bootstrap-server {B}"
    comparison.compare(
        "kafka-topics",
        "kafka-topics --help",
        "kafka-topics --version",
        "kafka-topics --list",
        f"{topics} --create",
        f"{topics} --list --describe",
        f"{topics} --list --partitions 3",
        f"{topics} --create --topic {{}} --replica-assignment 0 --partitions 3",
        f"{topics} --create --topic {{}} --partitions 0",
        f"{topics} --create --topic {{}} --replication-factor 7",
        f"{topics} --create --topic {{}} --config retention.ms",
        f"{topics} --create --topic {{}}-n --config nonsense=1",
        f"{topics} --create --topic {{}} --replica-assignment 1:1",
        f"{topics} --create --topic {{}}/x",
        f"{topics} --create --topic {{}} --topic {{}}",
        f"{topics} --list --frobnicate",
        f"{topics} --topic",
    )


def test_offsets_cluster_ids_and_apis_are_printed_as_by_kafkas_tools(comparison: Comparison) -> None:
    offsets = "kafka-get-offsets --bootstrap-server {B}"
    comparison.compare(
        "kafka-topics --bootstrap-server {B} --create --topic {}-a --partitions 3",
        f"{offsets} --topic {{}}-a",
        f"{offsets} --topic {{}}-a --time earliest --partitions 0,2",
        f"{offsets} --topic-partitions {{}}-a:1-,{{}}-b --time -1",
        f"{offsets} --topic {{}}-missing",
        f"{offsets} --topic {{}}-a --time soon",
        "kafka-cluster cluster-id --bootstrap-server {B}",
        "kafka-broker-api-versions --bootstrap-server {B}",
        "kafka-broker-api-versions --version",
    )


def test_configurations_quotas_and_credentials_are_altered_and_shown_as_by_kafkas_tool(comparison: Comparison) -> None:
    configs = "kafka-configs --bootstrap-server {B}"
    comparison.compare(
        "kafka-topics --bootstrap-server {B} --create --topic {}",
        f"{configs} --alter --topic {{}} --add-config retention.ms=1234,cleanup.policy=[compact,delete]",
        f"{configs} --describe --topic {{}}",
        f"{configs} --alter --entity-type topics --entity-name {{}} --delete-config retention.ms,nothing",
        f"{configs} --alter --entity-type topics --entity-name {{}} --delete-config retention.ms",
        f"{configs} --alter --entity-type topics --entity-name {{}} --add-config nonsense=1",
        f"{configs} --describe --entity-type topics --entity-name {{}}",
        f"{configs} --alter --entity-type users --entity-name {{}} --add-config SCRAM-SHA-256=[password=x]",
        f"{configs} --alter --entity-type users --entity-name {{}} --add-config producer_byte_rate=1024",
        f"{configs} --describe --entity-type users --entity-name {{}}",
        f"{configs} --alter --entity-type users --entity-name {{}} --delete-config SCRAM-SHA-256",
        f"{configs} --alter --entity-type users --entity-name {{}} --add-config nonsense=1",
        f"{configs} --alter --entity-type users --entity-name {{}} --entity-type clients --entity-name c"
        " --add-config request_percentage=50",
        f"{configs} --describe --entity-type users --entity-name {{}} --entity-type clients --entity-name c",
        f"{configs} --describe --entity-type brokers --entity-name 1",
        f"{configs} --describe",
        f"{configs} --describe --entity-type nothing",
        f"{configs} --alter --entity-type topics --add-config retention.ms=1",
        f"{configs} --alter --topic {{}} --add-config retention.ms",
    )


def test_the_console_consumer_prints_as_kafkas_does(comparison: Comparison, bootstrap: str) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    produced = run_tool(
        *f"kafka-console-producer --bootstrap-server {bootstrap} --topic {topic} --property parse.key=true".split(),
        stdin=b"k\tone\nl\ttwo\n",
    )
    assert produced.status == 0, produced.err
    reads = f"kafka-console-consumer --bootstrap-server {{B}} --topic {topic} --from-beginning --max-messages 2"
    shown = " ".join(f"--property print.{part}=true" for part in ("key", "partition", "offset", "headers", "timestamp"))
    comparison.compare(reads, f"{reads} {shown}", f"{reads} --group {{}}", f"{reads} --group {{}}-2 --partition 0")
