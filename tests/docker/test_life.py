"""How a container starts, becomes healthy and stops, with various limits and commands."""

import signal
from collections.abc import Callable, Sequence

import pytest

from tests.docker.boxes import Container
from tests.docker.engine import Engine
from tests.docker.test_contracts import READ_ONLY, RUNNING, loop, use
from tests.sweeps import one_in

RUN = "/etc/confluent/docker/run"
CLUSTER = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092"}


def wait_until_healthy(box: Container) -> None:
    """Wait for the health check that the engine runs."""
    box.wait_until(lambda: box.inspect("{{.State.Health.Status}}") == "healthy", "healthy")


def test_the_engine_reports_a_broker_that_clients_can_use_as_healthy(boxes: Callable[..., Container]) -> None:
    box = boxes(environment={"MINIBROKER_TOPICS": "orders"}, is_checked=True)
    wait_until_healthy(box)
    listed = box.execute(["kafka-topics", "--bootstrap-server", "localhost:9092", "--list"])
    assert listed.stdout == "orders\n"


@pytest.mark.torture
def test_a_container_that_waits_for_ever_is_healthy_once_its_start_period_is_over(
    boxes: Callable[..., Container],
) -> None:
    box = boxes("--health-start-interval", "2s", command=["tail", "-f", "/dev/null"], is_checked=True)
    wait_until_healthy(box)
    starting = "exec -a 'python bin/entrypoint.py' sleep inf >/dev/null 2>&1 & minibroker-health; echo $?; kill $!"
    assert box.execute(["bash", "-c", starting]).stdout == "no broker runs in this container\n1\n"


def test_a_broker_that_has_been_stopped_in_a_container_is_not_healthy(boxes: Callable[..., Container]) -> None:
    box = boxes(entrypoint=["bash", "-c"], command=[f"{RUN}; sleep inf"], environment=CLUSTER)
    box.wait_for(RUNNING)
    assert box.execute(["kafka-server-stop"]).returncode == 0
    box.wait_until(lambda: box.execute(["minibroker-health"]).returncode == 1, "the broker has stopped")
    assert box.stop() == 0


def test_a_stop_waits_for_no_process_that_begins_later(boxes: Callable[..., Container]) -> None:
    # Health checks go on while a container stops.
    box = boxes(command=["bash", "-c", "trap 'setsid sleep inf & exit 0' TERM; echo up; while :; do sleep 0.1; done"])
    box.wait_for("up")
    assert box.stop() == 0


@pytest.mark.parametrize(
    ("entrypoint", "command"),
    one_in(
        4,
        [
            ((), ()),
            (["sh", "-c"], [f"{RUN}; true"]),
            (["/bin/bash", "-ec"], [f"echo before; {RUN}; true"]),
            (["/bin/sh", "-c"], [f"( {RUN} ); true"]),
            ((), ["bash", "-c", f"{RUN} & wait"]),
            ((), ["minibroker", "serve", "--listen", "0.0.0.0:9092", "--data-dir", "/var/lib/minibroker"]),
        ],
    ),
)
def test_a_broker_shuts_down_cleanly_however_it_was_started(
    boxes: Callable[..., Container], engine: Engine, entrypoint: Sequence[str], command: Sequence[str]
) -> None:
    box = boxes(
        entrypoint=entrypoint, command=command, environment={**CLUSTER, "KAFKA_LOG_DIRS": "/var/lib/minibroker"}
    )
    box.wait_for("minibroker ready")
    assert box.stop() == 0
    engine.docker("cp", f"{box.name}:/var/lib/minibroker/.kafka_cleanshutdown", "-")


@pytest.mark.parametrize(
    ("entrypoint", "command"),
    one_in(
        3,
        [
            ((), ()),
            ((), ["rpk", "topic", "consume", "orders"]),
            ((), ["kafka-topics", "--bootstrap-server", "localhost:9092", "--list"]),
            ((), ["kafka-console-producer", "--bootstrap-server", "localhost:9092", "--topic", "orders"]),
            ((), ["tail", "-f", "/dev/null"]),
            (["sh", "-c"], [loop("/tmp/script")]),
            (["/bin/bash", "-c"], [loop("/tmp/script")]),
        ],
    ),
)
def test_a_container_stops_while_it_starts_or_waits(
    boxes: Callable[..., Container], entrypoint: Sequence[str], command: Sequence[str]
) -> None:
    box = boxes("--interactive", entrypoint=entrypoint, command=command)
    # Until bash has set its trap, the kernel drops the signal. On a machine with much to do, the engine is faster.
    box.wait_until(lambda: handles_sigterm(box), "the first process does not handle SIGTERM")
    assert box.stop() == 0


def handles_sigterm(box: Container) -> bool:
    """Return whether the container's first process catches SIGTERM."""
    words = box.execute(["cat", "/proc/1/status"]).stdout.split()
    return bool(int(words[words.index("SigCgt:") + 1], 16) >> (signal.SIGTERM - 1) & 1)


def test_the_first_process_ends_with_the_status_of_its_command(boxes: Callable[..., Container]) -> None:
    words = ["-c", '[ "$0/$1/$2" != "name/a  b/" ] || exit 7', "name", "a  b", ""]
    assert boxes(entrypoint=["sh"], command=words).wait() == 7
    assert boxes(command=["bash", *words]).wait() == 7


def test_a_container_with_little_memory_and_no_rights_serves_clients(boxes: Callable[..., Container]) -> None:
    limits = ["--memory", "64m", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "12345:0"]
    command = ["sh", "-c", loop("/tmp/script", run="bash ")]
    box = boxes(*limits, *READ_ONLY, command=command, environment={"KAFKA_NUM_PARTITIONS": "1"}, ports=[9092])
    advertised = f"PLAINTEXT://localhost:{box.port(9092)}"
    script = f"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS={advertised}\nexec minibroker-container\n"
    box.copy_in("/tmp/script", script, 0o755)
    box.wait_for(RUNNING)
    use(box.port(9092))
    assert box.stop() == 0
