"""Health checks and tool commands of Compose files, run in the image: all of `tests.docker.forms`."""

import pytest

from tests.docker.boxes import run_box
from tests.docker.engine import Engine
from tests.docker.forms import HEALTH_CHECKS, SETTINGS, TOOL_COMMANDS
from tests.sweeps import one_in

ENVIRONMENT = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
    "KAFKA_CONFLUENT_METADATA_SERVER_LISTENERS": "http://0.0.0.0:8091",
    "KAFKA_CREATE_TOPICS": "orders:1:1",
}
FILES = {
    SETTINGS: "security.protocol=PLAINTEXT\n",
    "/tmp/topic.properties": "segment.ms=60000\n",
    "/tmp/server.properties": "process.roles=broker,controller\nnode.id=1\nlog.dirs=/tmp/formatted\n",
    "/tmp/records.json": '{"version": 1, "partitions": [{"topic": "b", "partition": 0, "offset": 1}]}',
}
FORMS = {form.command: form for form in (*HEALTH_CHECKS, *TOOL_COMMANDS)}


@pytest.fixture(scope="module")
def answers(engine: Engine, chosen: list[str]) -> dict[str, tuple[int, str]]:
    """Return what the commands answer in one container, with client files in it."""
    with run_box(engine, hostname="kafka", environment=ENVIRONMENT) as box:
        for path, text in FILES.items():
            box.copy_in(path, text, 0o644, (1000, 0))
        box.wait_for("Kafka Server started")
        return box.execute_all(chosen)


# All tool commands: one reads what another one wrote.
@pytest.mark.parametrize(
    "command", [*one_in(5, [form.command for form in HEALTH_CHECKS]), *(form.command for form in TOOL_COMMANDS)]
)
def test_a_command_of_a_compose_file_answers(answers: dict[str, tuple[int, str]], command: str) -> None:
    form = FORMS[command]
    status, output = answers[command]
    assert (status == 0) == (form.fails is None), f"{status}: {output}"
    assert form.shows in output
