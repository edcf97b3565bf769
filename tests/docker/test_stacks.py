"""Compose files of the forms that public ones have, on the image's files: several brokers, init containers, scripts."""

from pathlib import Path

import pytest

from tests.docker.boxes import Image
from tests.docker.composing import Project

STACKS = Path(__file__).with_name("stacks")


def test_containers_of_one_cluster_share_a_broker(image: Image, tmp_path: Path) -> None:
    with Project(image, STACKS / "brokers.yaml", tmp_path) as project:
        assert "a new order" in project.boxes["init"].logs("stdout")
        second = project.boxes["kafka-2"]
        assert "broker 2 passes its connections on to kafka-1:9093" in second.logs("stderr")
        assert "[KafkaServer id=2] started" in second.logs("stdout")
        check = ["python", "/opt/minibroker/bin/entrypoint.py", "--check-health"]
        assert [box.execute(check).returncode for box in (project.boxes["kafka-1"], second)] == [0, 0]
        assert second.stop() == 0


def test_an_init_container_makes_topics_in_another_one(image: Image, tmp_path: Path) -> None:
    with Project(image, STACKS / "initialized.yaml", tmp_path) as project:
        assert "a script before the start" in project.boxes["kafka"].logs("stdout")
        assert '"two"' in (tmp_path / "data" / "data" / "minibroker-topics.json").read_text()


@pytest.mark.parametrize("name", ["formatted.yaml", "zookeeper.yaml"])
@pytest.mark.torture  # two more forms of a start
def test_a_stack_becomes_healthy(image: Image, tmp_path: Path, name: str) -> None:
    with Project(image, STACKS / name, tmp_path):
        pass
