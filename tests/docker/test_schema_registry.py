"""The image as a schema registry: in the broker's container, and in the place of Confluent's image."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docker.boxes import Container
from tests.docker.composing import Project
from tests.docker.engine import Engine
from tests.documented import code
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
    registry = boxes("--add-host", f"kafka:{broker.address}", environment=store, ports=[8081], is_checked=True)
    registry.wait_for("minibroker registry ready")
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


@pytest.mark.torture  # a broker and a registry, as above
def test_a_documented_file_has_a_registry_of_its_own(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    (text,) = code("docs/registry-testing.md", "In Compose", "yaml")
    path.write_text(text)
    with Project(engine, path) as project, engine.network():
        assert asked(8081, "/subjects/a/versions", _SCHEMA) == {"id": 1}
        words = ["curl", "-s", "http://schema-registry:8081/subjects", "http://kafka:8081/subjects"]
        assert project["kafka"].execute(words).stdout == '["a"]["a"]'


@pytest.mark.torture  # in processes: tests/registry/test_cluster.py
def test_three_containers_of_a_cluster_have_one_registry(engine: Engine) -> None:
    with Project(engine, Path(__file__).with_name("stacks") / "cluster.yaml") as project:
        boxes = [project[f"kafka-{number}"] for number in (1, 2, 3)]
        names: list[str] = []

        def ask(box: Container, path: str, *options: str) -> str:
            words = ["curl", "-s", "-H", "Content-Type: application/json", *options, f"http://localhost:8081{path}"]
            return box.execute(words).stdout

        def register(box: Container, name: str) -> None:
            names.append(name)
            answer = ask(box, f"/subjects/{name}/versions", "-d", json.dumps({"schema": json.dumps(name)}))
            assert answer == f'{{"id":{len(names)}}}'

        def have_all() -> bool:
            subjects = json.dumps(sorted(names), separators=(",", ":"))
            return [ask(box, "/subjects") for box in boxes] == [subjects] * 3

        for box, name in zip(boxes, ["string", "long", "int"], strict=True):
            register(box, name)
        assert have_all()
        for box, name in ((boxes[2], "float"), (boxes[0], "double")):
            assert box.stop() == 0
            engine.docker("start", box.name)
            wait_until_healthy(box)
            box.wait_until(have_all, "each container has all subjects")
            register(box, name)
        assert have_all()
