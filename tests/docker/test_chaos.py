"""Containers of a cluster freeze, lose their network, are killed and restart, one after another, while clients work."""

from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.socket_client import SocketClient
from tests.docker.composing import Project
from tests.docker.engine import Engine
from tests.docker.test_compose import DOCKER
from tests.docker.test_stacks import STACKS
from tests.patience import PATIENCE_S, eventually

BROKERS = {"kafka-1": 9092, "kafka-2": 9093, "kafka-3": 9094}
"""The published port of each service with a broker."""
BOOTSTRAP = ",".join(f"localhost:{port}" for port in BROKERS.values())
PARTITIONS = 6
RECORDS = 300
"""The records that are sent before a fault, and again while it lasts."""


class Clients:
    """An idempotent producer and a group of two consumers, with the default timeouts of librdkafka."""

    def __init__(self) -> None:
        common: dict[str, str | int | float | bool] = {
            "bootstrap.servers": BOOTSTRAP,
            "broker.address.family": "v4",
            "log_level": 2,
        }
        admin = AdminClient(common)
        admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(PATIENCE_S)
        self._producer = Producer({**common, "enable.idempotence": True})
        group = {"group.id": "g", "auto.offset.reset": "earliest"}
        self._consumers = [Consumer({**common, **group}) for _ in range(2)]
        for consumer in self._consumers:
            consumer.subscribe(["t"])
        self._sent = 0
        self._acknowledged: set[int] = set()
        self._read: list[set[int]] = [set() for _ in range(PARTITIONS)]

    def send(self) -> None:
        for number in range(self._sent, self._sent + RECORDS):
            self._producer.produce("t", str(number).encode(), partition=number % PARTITIONS, on_delivery=self._note)
        self._sent += RECORDS
        self._producer.poll(0)

    def _note(self, error: object, message: Any) -> None:
        if error is None:
            self._acknowledged.add(int(message.value()))

    def check(self) -> None:
        """Wait until each record that was sent is acknowledged and has been read by the group."""
        assert self._producer.flush(PATIENCE_S) == 0
        assert len(self._acknowledged) == self._sent
        eventually(self._has_read_all)

    def _has_read_all(self) -> bool:
        for consumer in self._consumers:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                self._read[message.partition() or 0].add(int(message.value() or b""))
        return sum(map(len, self._read)) == self._sent

    def close(self) -> None:
        """End all clients, which would find the brokers of the next test at the same ports."""
        for consumer in self._consumers:
            consumer.close()
        self._producer.purge()
        del self._producer


def has_leaders(port: int) -> bool:
    """Return whether a broker answers and lists three brokers, and a leader for each partition."""
    with suppress(OSError), SocketClient(("localhost", port)) as client:
        client.socket.settimeout(5)
        metadata = client.ask(MetadataRequest(topics=None), 9)
        leaders = {partition.leader_id for topic in metadata.topics for partition in topic.partitions}
        return len(metadata.brokers) == len(leaders) == len(BROKERS) and -1 not in leaders
    return False


def strike(project: Project, engine: Engine, service: str, fault: str, clients: Clients) -> None:
    """Let the container of a service fail, send records while it is away, and bring it back."""
    box = project[service]
    network = box.inspect("{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}")
    begin, end = {
        "pause": (["pause"], ["unpause"]),
        "disconnect": (["network", "disconnect", network], ["network", "connect", "--alias", service, network]),
        "kill": (["kill"], ["start"]),
        "restart": (["restart"], []),
    }[fault]
    # The engine gives up if a busy machine runs none of the processes that are to freeze.
    eventually(lambda: engine.try_docker(*begin, box.name).returncode == 0)
    clients.send()
    if end:
        if service in BROKERS:
            other = next(port for name, port in BROKERS.items() if name != service)
            eventually(lambda: not has_leaders(other))
        engine.docker(*end, box.name)


FILES = [STACKS / "cluster.yaml", STACKS / "cluster-zookeeper.yaml", DOCKER / "compose.cluster.yaml"]


@pytest.mark.torture
@pytest.mark.parametrize("fault", ["pause", "disconnect", "kill", "restart"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_acknowledged_is_lost_whatever_happens_to_each_container(
    engine: Engine, path: Path, fault: str
) -> None:
    with Project(engine, path) as project, engine.network(), closing(Clients()) as clients:
        for service in project.docker("config", "--services").split():
            clients.send()
            strike(project, engine, service, fault, clients)
            clients.check()
            for port in BROKERS.values():
                eventually(partial(has_leaders, port))
