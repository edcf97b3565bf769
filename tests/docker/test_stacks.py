"""Compose files of the forms that public ones have: several brokers, init containers, scripts."""

from pathlib import Path

import pytest

from tests.docker.composing import Project
from tests.docker.engine import Engine

STACKS = Path(__file__).with_name("stacks")


@pytest.mark.torture
def test_containers_of_one_cluster_share_a_broker(engine: Engine) -> None:
    with Project(engine, STACKS / "brokers.yaml", waits=False) as project:
        assert "a new order" in project["init"].logs("stdout")
        second = project["kafka-2"]
        assert "node-id=2 holder=1" in second.logs("stdout")
        assert "[KafkaServer id=2] started" in second.logs("stdout")
        assert [box.execute(["minibroker-health"]).returncode for box in (project["kafka-1"], second)] == [0, 0]
        assert second.stop() == 0


@pytest.mark.torture  # in processes: tests/broker/server/test_remote.py
def test_topics_of_the_environment_are_on_all_brokers(engine: Engine) -> None:
    with Project(engine, STACKS / "cluster.yaml") as project:
        words = ["kafka-topics", "--bootstrap-server", "kafka-2:29092", "--describe", "--topic", "orders"]
        first, *partitions = project["kafka-3"].execute(words).stdout.splitlines()
        assert "ReplicationFactor: 3" in first
        assert sorted(line.split("Leader: ")[1][0] for line in partitions) == ["1", "1", "2", "2", "3", "3"]


def test_an_init_container_makes_topics_in_another_one(engine: Engine) -> None:
    with Project(engine, STACKS / "initialized.yaml", waits=False) as project:
        assert "a script before the start" in project["kafka"].logs("stdout")
        assert project["init"].logs("stdout").endswith("Created topic one.\nCreated topic two.\n")


@pytest.mark.parametrize("name", ["formatted.yaml", "zookeeper.yaml", "redpanda-cluster.yaml", "host-network.yaml"])
@pytest.mark.torture  # more forms of a start
def test_a_stack_becomes_healthy(engine: Engine, name: str) -> None:
    with Project(engine, STACKS / name):
        pass
