"""The registry of a cluster of several processes: one has it, and the others pass their clients on."""

import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.kafka.real_kafka import free_ports
from tests.patience import PATIENCE_S, eventually
from tests.programs import module_command
from tests.registry.rest import Rest
from tests.registry.schemas import V1, record

QUICK = ("--set", "broker.session.timeout.ms=1000", "--set", "broker.heartbeat.interval.ms=200")
SCHEMAS = 20


class Brokers:
    """Three brokers in processes of their own. Broker 0 holds the logs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = free_ports(9)
        self._processes: dict[int, subprocess.Popen[str]] = {}

    def start(self, *nodes: int) -> None:
        """Start brokers, and wait until they are ready."""
        places = [word for node_id in range(3) for word in ("--meet", f"{node_id}@{self._address(node_id, 0)}")]
        for node_id in nodes:
            addresses = ("--link", self._address(node_id, 0), "--registry", self._address(node_id, 2))
            command = ["serve", *places, *addresses, *QUICK, "--set", f"node.id={node_id}"]
            command += ["--listen", self._address(node_id, 1), "--data-dir", str(self._directory / str(node_id))]
            self._processes[node_id] = subprocess.Popen(
                [*module_command("minibroker"), *command], stdout=subprocess.PIPE, text=True
            )
        for node_id in nodes:
            output = self._processes[node_id].stdout
            assert output is not None
            line = next(line for line in output if line.startswith("minibroker ready: "))
            assert re.search(r"registry=(\S+)", line)[1] == self.url(node_id)  # type: ignore[index]  # it matches

    def _address(self, node_id: int, purpose: int) -> str:
        return f"127.0.0.1:{self._ports[3 * purpose + node_id]}"

    def url(self, node_id: int) -> str:
        return f"http://{self._address(node_id, 2)}"

    def stop(self, node_id: int) -> None:
        process = self._processes.pop(node_id)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout is not None
        process.stdout.close()

    def close(self) -> None:
        for node_id in sorted(self._processes, reverse=True):
            self.stop(node_id)

    def subjects(self, node_id: int) -> object:
        """Return the subjects that a broker answers with, or None without an answer."""
        with suppress(OSError, ValueError), Rest(self.url(node_id)) as rest:
            return rest.get("/subjects")
        return None


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    brokers = Brokers(tmp_path)
    try:
        brokers.start(0, 1, 2)
        yield brokers
    finally:
        brokers.close()


@pytest.mark.torture
def test_each_broker_of_a_cluster_answers_from_the_same_registry(brokers: Brokers) -> None:
    with ExitStack() as ends:
        clients = [ends.enter_context(Rest(brokers.url(node_id))) for node_id in range(3)]

        def register(node_id: int) -> list[int]:
            names = [f"R{node_id}_{number}" for number in range(SCHEMAS)]
            return [clients[node_id].register(name, record(name=name)) for name in names]

        with ThreadPoolExecutor() as pool:
            ids = sorted(id_ for ids in pool.map(register, range(3)) for id_ in ids)
        assert ids == list(range(1, 3 * SCHEMAS + 1))
        first = clients[0].get("/subjects")
        assert len(first) == 3 * SCHEMAS
        assert clients[1].get("/subjects") == clients[2].get("/subjects") == first
        assert clients[1].register("again", record(name="R2_0")) == clients[2].get("/subjects/R2_0/versions/1")["id"]


def test_a_broker_answers_again_once_the_logs_are_back(brokers: Brokers) -> None:
    with Rest(brokers.url(1)) as rest:
        assert rest.register("a", V1) == 1
    brokers.stop(0)
    assert brokers.subjects(1) is None
    brokers.start(0)
    eventually(lambda: brokers.subjects(1) == ["a"])
    eventually(lambda: brokers.subjects(2) == ["a"])
    with Rest(brokers.url(2)) as rest:
        assert rest.register("b", record(name="B")) == 2
