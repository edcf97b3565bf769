"""The image as a schema registry: in the broker's container, and in the place of Confluent's image."""

import json
import urllib.request
from collections.abc import Callable

from tests.docker.boxes import Container
from tests.patience import PATIENCE_S

Boxes = Callable[..., Container]
_SCHEMA = json.dumps({"schema": '"string"'}).encode()


def asked(port: int, path: str, body: bytes | None = None) -> object:
    """Ask a registry; returns the content of its answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        content: object = json.load(answer)
        return content


def wait_until_healthy(box: Container) -> None:
    box.wait_until(lambda: box.inspect("{{.State.Health.Status}}") == "healthy", "it is healthy")


def test_a_broker_and_a_registry_of_its_own_container_share_the_schemas(boxes: Boxes) -> None:
    advertised = "PLAINTEXT://kafka:9092"
    broker = boxes(environment={"KAFKA_ADVERTISED_LISTENERS": advertised}, hostname="kafka", ports=[8081])
    broker.wait_for("Kafka Server started")
    store = {"SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS": advertised}
    registry = boxes("--add-host", f"kafka:{broker.address}", environment=store, ports=[8081])
    registry.wait_for("minibroker registry ready")
    wait_until_healthy(broker)
    wait_until_healthy(registry)
    inside, apart = (box.port(8081) for box in (broker, registry))
    assert asked(inside, "/subjects/a/versions", _SCHEMA) == {"id": 1}
    assert asked(apart, "/subjects") == ["a"]
    assert asked(apart, "/subjects/b/versions", _SCHEMA) == {"id": 1}
    assert asked(inside, "/subjects") == ["a", "b"]
    assert registry.execute(["curl", "-f", "http://localhost:8081/subjects"]).stdout == '["a","b"]'
    words = ["--bootstrap-server", "kafka:9092", "--topic", "names", "--property", 'value.schema="string"']
    produced = registry.execute(["kafka-avro-console-producer", *words], given='"alice"\n')
    assert (produced.stdout, produced.stderr, produced.returncode) == ("", "", 0)
    words = ["--bootstrap-server", "localhost:9092", "--topic", "names", "--from-beginning", "--max-messages", "1"]
    consumed = broker.execute(["/usr/bin/kafka-avro-console-consumer", *words])
    assert (consumed.stdout, consumed.returncode) == ('"alice"\n', 0), consumed.stderr
    words = ["-b", "localhost:9092", "-C", "-t", "names", "-e", "-q", "-s", "value=avro", "-r", "http://localhost:8081"]
    assert broker.execute(["kcat", *words]).stdout == '"alice"\n'
    assert registry.stop() == 0
