"""Consoles of other vendors: their requests are answered by the image with the environments of their Compose files.

Java's admin client plays kafka-ui, Kafdrop and AKHQ. franz-go plays Redpanda Console, and librdkafka Control Center.
"""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients import go_programs
from tests.clients.java_programs import VERSIONS, client_command
from tests.clients.test_java import noted_for
from tests.docker.boxes import Container
from tests.docker.test_redpanda import STARTED, asked
from tests.patience import PATIENCE_S
from tests.programs import run_to_success
from tests.sweeps import one_in

Boxes = Callable[..., Container]

_KAFKA_UI: Final = {
    "KAFKA_BROKER_ID": "1",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@box:29093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_LISTENERS": "PLAINTEXT://box:29092,CONTROLLER://box:29093,PLAINTEXT_HOST://0.0.0.0:9092",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://box:29092,PLAINTEXT_HOST://localhost:9092",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_JMX_PORT": "9997",
    "CLUSTER_ID": "ClusterOfTheConsole001",
}
_KAFDROP: Final = {
    "KAFKA_LISTENERS": "INTERNAL://:29092,EXTERNAL://:9092",
    "KAFKA_ADVERTISED_LISTENERS": "INTERNAL://box:29092,EXTERNAL://localhost:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
}
_AKHQ: Final = {
    "KAFKA_BROKER_ID": "1",
    "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
}
_CONTROL_CENTER: Final = {
    **_KAFKA_UI,
    "KAFKA_METRIC_REPORTERS": "io.confluent.metrics.reporter.ConfluentMetricsReporter",
    "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1",
    "CONFLUENT_METRICS_REPORTER_BOOTSTRAP_SERVERS": "box:29092",
    "CONFLUENT_METRICS_ENABLE": "true",
}


def start(boxes: Boxes, environment: Mapping[str, str], *command: str, line: str = "Kafka Server started") -> Container:
    """Start a container whose port 9092 is published at the same port."""
    box = boxes("--publish", "127.0.0.1:9092:9092", environment=environment, command=command, ports=[8081, 8090, 9644])
    box.wait_for(line)
    return box


@pytest.fixture
def java_client() -> Sequence[str]:
    """Return the command of Java's client, which is built outside of the engine's network. That may lead nowhere."""
    return client_command("Consoles", VERSIONS[0])


@pytest.mark.parametrize(
    "environment", one_in(3, [_KAFKA_UI, _KAFDROP, _AKHQ]), ids=lambda environment: next(iter(environment))
)
@pytest.mark.usefixtures("fixed_ports")
def test_consoles_in_java_are_answered_as_by_kafka(
    java_client: Sequence[str], boxes: Boxes, environment: Mapping[str, str]
) -> None:
    start(boxes, {**environment, "MINIBROKER_EMULATE": "3.9"})
    noted = noted_for("Consoles", VERSIONS[0]).read_text(encoding="utf-8").splitlines()
    found = run_to_success([*java_client, "localhost:9092", f"run-{uuid.uuid4().hex[:12]}-"]).stdout.splitlines()
    assert [json.loads(line) for line in found] == [json.loads(line) for line in noted]


@pytest.fixture
def console() -> Sequence[str]:
    """Return the command of a client like the console, built as that of `java_client`."""
    return go_programs.command("console")


@pytest.mark.torture
@pytest.mark.usefixtures("fixed_ports")
def test_redpanda_console_starts_and_is_answered(console: Sequence[str], boxes: Boxes) -> None:
    """Before version 3, the console exits if the list of subjects or of brokers is an error."""
    options: Sequence[str] = [
        "--kafka-addr internal://0.0.0.0:29092,external://0.0.0.0:9092",
        "--advertise-kafka-addr internal://box:29092,external://localhost:9092",
        "--schema-registry-addr internal://0.0.0.0:8081",
        "--rpc-addr box:33145 --advertise-rpc-addr box:33145",
        "--mode dev-container --smp 1",
    ]
    box = start(boxes, {}, "redpanda", "start", *options, line=STARTED)
    assert asked(box.port(8081), "/subjects") == (200, [])
    admin = box.port(9644)
    status, brokers = asked(admin, "/v1/brokers")
    assert (status, [broker["is_alive"] for broker in brokers]) == (200, [True])
    assert asked(admin, "/v1/security/users") == (200, [])
    assert asked(admin, "/v1/cluster_config?include_defaults=true")[0] == 200
    for missing in ("/v1/features/license", "/v1/features/enterprise", "/v1/transform"):
        assert asked(admin, missing)[0] == 404
    config = {"bootstrap": "localhost:9092", "topic": "orders", "group": "readers"}
    done = run_to_success([*console, json.dumps(config)])
    by_event: dict[str, Any] = {line["event"]: line["answer"] for line in map(json.loads, done.stdout.splitlines())}
    assert by_event["messages"] == ["7 key 7 7", "8 key 8 8", "9 key 9 9"]
    assert by_event["edited"] is None


@pytest.mark.usefixtures("fixed_ports")
def test_control_center_finds_the_cluster_and_makes_its_topics(boxes: Boxes) -> None:
    """Control Center asks the HTTP port of cp-server for the cluster, and keeps its state in topics of its own."""
    box = start(boxes, _CONTROL_CENTER)
    http = box.port(8090)
    assert asked(http, "/v1/metadata/id")[1]["id"] == _KAFKA_UI["CLUSTER_ID"]
    (cluster,) = asked(http, "/kafka/v3/clusters")[1]["data"]
    assert cluster["cluster_id"] == _KAFKA_UI["CLUSTER_ID"]
    compacted = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
    kept = {"retention.ms": "259200000", "segment.bytes": "134217728", "message.timestamp.type": "CreateTime"}
    topics = [
        NewTopic("_confluent-command", num_partitions=1, replication_factor=1, config=compacted),
        NewTopic("_confluent-metrics", num_partitions=12, replication_factor=1, config=kept),
        NewTopic("_confluent-controlcenter-1-AlertHistoryStore-changelog", 1, 1, config=compacted),
    ]
    admin = AdminClient({"bootstrap.servers": "localhost:9092"})
    for made in admin.create_topics(topics).values():
        assert made.result(PATIENCE_S) is None
    assert len(admin.list_topics(timeout=PATIENCE_S).topics["_confluent-metrics"].partitions) == 12
    assert "no effect: KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR=1" in box.logs("stderr")
