"""Health checks and tool commands of Compose files, run in the image: all of `tests.docker.forms`."""

from collections.abc import Iterator

import pytest

from tests.docker.boxes import Container, run_box
from tests.docker.engine import Engine
from tests.docker.forms import HEALTH_CHECKS, SETTINGS, TOOL_COMMANDS, Form
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


@pytest.fixture(scope="module")
def broker(engine: Engine) -> Iterator[Container]:
    """Return one container for all commands, with client files in it."""
    with run_box(engine, hostname="kafka", environment=ENVIRONMENT) as box:
        for path, text in FILES.items():
            box.copy_in(path, text, 0o644, (1000, 0))
        box.wait_for("Kafka Server started")
        yield box


def check(box: Container, form: Form) -> None:
    """Run a command, and check the result against the table."""
    done = box.execute(["/bin/sh", "-c", form.command])
    output = done.stdout + done.stderr
    assert (done.returncode == 0) == (form.fails is None), f"{done.returncode}: {output}"
    assert form.shows in output


@pytest.mark.parametrize("form", one_in(5, HEALTH_CHECKS), ids=lambda form: form.command)
def test_a_health_check_answers(broker: Container, form: Form) -> None:
    check(broker, form)


# All of them: one command reads what another one wrote.
@pytest.mark.parametrize("form", TOOL_COMMANDS, ids=lambda form: form.command)
def test_a_tool_command_does_its_work(broker: Container, form: Form) -> None:
    check(broker, form)
