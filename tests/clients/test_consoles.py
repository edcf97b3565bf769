"""Requests of Redpanda Console, by franz-go, get Kafka's responses; for kafka-ui and AKHQ see `test_java`."""

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from tests.clients import go_programs
from tests.kafka.real_kafka import RealKafka
from tests.programs import run_to_success


def answers(bootstrap: str) -> list[Any]:
    """The output of the program about that broker, without the names of the run."""
    run = f"run-{uuid.uuid4().hex[:8]}"
    config = {"bootstrap": bootstrap, "topic": f"{run}-topic", "group": f"{run}-group"}
    command = [*go_programs.command("console"), json.dumps(config)]
    done = run_to_success(command)
    return [json.loads(line.replace(run, "run")) for line in done.stdout.splitlines()]


@pytest.fixture
def lone_kafka(kafka_libs: Path, tmp_path: Path) -> Iterator[RealKafka]:
    """A Kafka for this test alone: the program counts transactions and rules, of which other tests leave some."""
    with closing(RealKafka(tmp_path / "kafka", kafka_libs)) as running:
        running.start()
        yield running


def test_redpanda_console_is_answered_as_by_kafka(lone_kafka: RealKafka) -> None:
    with Broker(config={"node.id": "1", "minibroker.emulate": "3.9"}) as broker:
        ours = answers(broker.bootstrap_servers)
    assert ours == answers(lone_kafka.bootstrap)
    by_event = {line["event"]: line["answer"] for line in ours}
    assert by_event["messages"] == ["7 key 7 7", "8 key 8 8", "9 key 9 9"]
    assert by_event["edited"] is None
