"""The Compose files of `docker/` and of the documentation, run from their text on the image's files."""

from pathlib import Path

import pytest

from tests.docker.boxes import Image
from tests.docker.composing import Project
from tests.documented import blocks
from tests.patience import PATIENCE_S

DOCKER = Path(__file__).parents[2] / "docker"
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


def consume(project: Project, service: str, *settings: str) -> list[str]:
    """Produce and consume with a real client; returns its lines: the brokers, and what it has consumed."""
    done = project.run_client(service, CLIENT, "-", *settings)
    assert done.returncode == 0, done.stdout + done.stderr + project.boxes[service].logs()
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "service", "brokers", "others"),
    [
        ("compose.yaml", "broker", "localhost:9092/1", []),
        ("compose.spark.yaml", "broker", "localhost:9092/1", ["spark"]),
        ("compose.cluster.yaml", "brokers", "localhost:9092/1 localhost:9093/2 localhost:9094/3", []),
    ],
)
def test_a_compose_file_starts_brokers_that_a_client_uses(
    image: Image, tmp_path: Path, name: str, service: str, brokers: str, others: list[str]
) -> None:
    with Project(image, DOCKER / name, tmp_path) as project:
        assert project.left_out == others
        assert consume(project, service, "bootstrap.servers=localhost:9092") == [brokers, "consumed a new order"]
        assert project.boxes[service].execute(["touch", "/opt/kafka/file"]).returncode == 1
        assert project.boxes[service].stop() == 0


def test_the_secure_file_makes_certificates_first_and_asks_for_a_login(image: Image, tmp_path: Path) -> None:
    with Project(image, DOCKER / "compose.secure.yaml", tmp_path) as project:
        assert project.left_out == ["console"]
        assert project.boxes["certificates"].process.poll() == 0
        settings = [
            "bootstrap.servers=localhost:9092",
            "security.protocol=SASL_SSL",
            f"ssl.ca.location={tmp_path / 'certificates' / 'ca.pem'}",
            "sasl.mechanism=SCRAM-SHA-512",
            "sasl.username=alice",
        ]
        lines = consume(project, "broker", *settings, "sasl.password=alice-secret")
        assert lines == ["localhost:9092/1", "consumed a new order"]
        assert project.boxes["broker"].execute(["touch", "/etc/kafka/secrets/file"]).returncode == 1


def test_records_outlive_the_container_in_a_named_volume(image: Image, tmp_path: Path) -> None:
    for _ in range(2):
        with Project(image, DOCKER / "compose.yaml", tmp_path) as project:
            consume(project, "broker", "bootstrap.servers=localhost:9092")
            project.boxes["broker"].stop()
    assert list((tmp_path / "data" / "orders-0").glob("*.log"))


@pytest.mark.parametrize("number", range(2), ids=["confluent", "redpanda"])
def test_the_files_of_other_images_that_are_shown_start_a_broker(image: Image, tmp_path: Path, number: int) -> None:
    shown = [each.text for each in blocks("docs/docker.md") if each.language == "yaml" and "# was" in each.text]
    path = tmp_path / "compose.yaml"
    path.write_text(shown[number])
    with Project(image, path, tmp_path) as project:
        (service,) = project.boxes
        port = 9092 if service == "broker" else 19092
        lines = consume(project, service, f"bootstrap.servers=localhost:{port}")
        assert lines[1] == "consumed a new order"


APPLICATION = """
services:
  app:
    image: minibroker
    command: sh -c 'echo started; exec sleep 60'
    depends_on: {kafka: {condition: service_healthy}, topics: {condition: service_completed_successfully}}
    healthcheck: {disable: true}
  topics:
    image: minibroker
    command: ["sh", "-c", "echo made > /mnt/shared/config/made"]
    volumes: ["shared:/mnt/shared/config"]
    healthcheck: {disable: true}
  kafka:
    image: minibroker
    environment: ["KAFKA_NUM_PARTITIONS=${PARTITIONS:-5}"]
    healthcheck: {test: "kafka-topics --bootstrap-server localhost:9092 --list", interval: 500ms}
volumes: {shared: {}}
"""


def test_a_service_starts_once_those_that_it_depends_on_are_healthy_or_done(image: Image, tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(APPLICATION)
    with Project(image, path, tmp_path / "volumes") as project:
        assert list(project.boxes) == ["kafka", "topics", "app"]
        assert (tmp_path / "volumes" / "shared" / "made").read_text() == "made\n"
        kafka = project.boxes["kafka"]
        made = kafka.execute(["kafka-topics", "--bootstrap-server", "kafka:9092", "--create", "--topic", "a"])
        assert made.returncode == 0, made.stderr
        shown = kafka.execute(["kafka-topics", "--bootstrap-server", "kafka:9092", "--describe", "--topic", "a"])
        assert "PartitionCount: 5" in shown.stdout


def test_a_service_that_is_to_complete_and_fails_ends_the_start(image: Image, tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(APPLICATION.replace("echo made > /mnt/shared/config/made", "echo no topics; exit 3"))
    with pytest.raises(AssertionError, match="no topics"), Project(image, path, tmp_path):
        pass
