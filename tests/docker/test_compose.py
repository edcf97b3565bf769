"""The Compose files of `docker/` and of the documentation, started by `docker compose`."""

from pathlib import Path

import pytest

from tests.docker.composing import Project, new_name
from tests.docker.engine import Engine
from tests.documented import blocks
from tests.patience import PATIENCE_S
from tests.sweeps import one_in

DOCKER = Path(__file__).parents[2] / "docker"
INSIDE = "--bootstrap-server broker:29092"
CLIENT = f"""
import sys
from confluent_kafka import Consumer, Producer
common = dict(pair.split("=", 1) for pair in sys.argv[2:])
producer = Producer(common)
producer.produce("orders", b"a new order")
assert producer.flush({PATIENCE_S}) == 0
print(*sorted(str(each) for each in producer.list_topics(timeout={PATIENCE_S}).brokers.values()))
consumer = Consumer({{**common, "group.id": "billing", "auto.offset.reset": "earliest"}})
consumer.subscribe(["orders"])
message = consumer.poll({PATIENCE_S})
assert message.error() is None, message.error()
print("consumed", message.value().decode())
consumer.close()  # or the next member of the group waits for the end of its session
"""


def consume(project: Project, *settings: str) -> list[str]:
    """Produce and consume with a real client, and return its lines: the brokers and the consumed records."""
    return project.run_client(CLIENT, "-", *settings).splitlines()


@pytest.mark.parametrize(
    ("name", "service", "brokers"),
    [
        pytest.param("compose.spark.yaml", "broker", "localhost:9092/1", marks=pytest.mark.torture),
        ("compose.cluster.yaml", "brokers", "localhost:9092/1 localhost:9093/2 localhost:9094/3"),
    ],
)
def test_a_compose_file_starts_brokers_that_a_client_uses(
    engine: Engine, name: str, service: str, brokers: str
) -> None:
    with Project(engine, DOCKER / name, service) as project:
        assert consume(project, "bootstrap.servers=localhost:9092") == [brokers, "consumed a new order"]
        assert project[service].execute(["touch", "/opt/kafka/file"]).returncode == 1
        assert project[service].stop() == 0


def test_the_secure_file_makes_certificates_first_and_asks_for_a_login(engine: Engine, tmp_path: Path) -> None:
    with Project(engine, DOCKER / "compose.secure.yaml", "broker") as project:
        assert project["certificates"].wait() == 0
        project.docker("cp", "broker:/etc/kafka/secrets/ca.pem", str(tmp_path))
        settings = [
            "bootstrap.servers=localhost:9092",
            "security.protocol=SASL_SSL",
            f"ssl.ca.location={tmp_path / 'ca.pem'}",
            "sasl.mechanism=SCRAM-SHA-512",
            "sasl.username=alice",
        ]
        lines = consume(project, *settings, "sasl.password=alice-secret")
        assert lines == ["localhost:9092/1", "consumed a new order"]
        assert project["broker"].execute(["touch", "/etc/kafka/secrets/file"]).returncode == 1


def test_the_compose_file_starts_a_broker_whose_records_outlive_it_in_a_named_volume(engine: Engine) -> None:
    name = new_name()
    with Project(engine, DOCKER / "compose.yaml", name=name) as project:
        project.keeps_volumes = True
        assert consume(project, "bootstrap.servers=localhost:9092") == ["localhost:9092/1", "consumed a new order"]
        assert project["broker"].execute(["touch", "/opt/kafka/file"]).returncode == 1
        assert project["broker"].stop() == 0
    with Project(engine, DOCKER / "compose.yaml", name=name) as project:
        read = f"kafka-console-consumer {INSIDE} --topic orders --from-beginning --max-messages 1"
        assert project["broker"].execute(read.split()).stdout == "a new order\n"


@pytest.mark.parametrize("number", one_in(2, range(2)), ids=["confluent", "redpanda"])
def test_the_files_of_other_images_that_are_shown_start_a_broker(engine: Engine, tmp_path: Path, number: int) -> None:
    shown = [each.text for each in blocks("docs/docker-kafka.md") if each.language == "yaml" and "# was" in each.text]
    path = tmp_path / "compose.yaml"
    path.write_text(shown[number])
    with Project(engine, path, waits=False) as project:
        port = 19092 if "redpanda" in shown[number] else 9092
        assert consume(project, f"bootstrap.servers=localhost:{port}")[1] == "consumed a new order"
