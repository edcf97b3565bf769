"""A transaction coordinator's answers, right and wrong ones, are those of Kafka 3.9.1."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minibroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from minibroker_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.harness import Harness
from tests.broker.socket_client import SocketClient
from tests.broker.transactions.producer import Asks, init_producer_id
from tests.kafka.real_kafka import RealKafka
from tests.kafka.transaction_scenarios import SCENARIOS, Scenario
from tests.kafka.transaction_stage import Stage

READY_S: Final = 60.0
GROUP, TRANSACTION = 0, 1


class _Ours:
    """A harness whose clock goes on with every request."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    def ask(self, request: Any, version: int) -> Any:
        self._harness.clock.advance(1)
        return self._harness.ask(request, version)


@pytest.fixture(scope="module")
def kafka(real_kafka: RealKafka) -> Iterator[SocketClient]:
    host, port = real_kafka.bootstrap.split(":")
    with SocketClient((host, int(port))) as client:
        _have_coordinators(client)
        yield client


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Asks]:
    # The second version of transactions came with Kafka 4: `tests/clients/test_java.py` has what that answers.
    harness = Harness(str(tmp_path / "data"), {"minibroker.emulate": "3.9"})
    broker = _Ours(harness)
    _have_coordinators(broker)
    yield broker
    harness.close()


def _have_coordinators(broker: Asks) -> None:
    """Kafka makes the coordinators' topics when it is asked for them, and gets producer ids when they are wanted."""
    _until_no_error(lambda: broker.ask(FindCoordinatorRequest(key="x", key_type=GROUP), 2).error_code)
    _until_no_error(lambda: broker.ask(FindCoordinatorRequest(key="x", key_type=TRANSACTION), 2).error_code)
    _until_no_error(lambda: init_producer_id(broker, None).error_code)


def _until_no_error(error: Callable[[], int]) -> None:
    end = time.monotonic() + READY_S
    while (code := error()) != 0:
        assert time.monotonic() < end, code


def _create(broker: Asks, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    (created,) = broker.ask(CreateTopicsRequest(topics=[topic]), 7).topics
    assert created.error_code == 0, created.error_message
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(2)]
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=partitions)])

    def error() -> int:
        (known,) = broker.ask(asked, 1).topics
        return max(int(each.error_code) for each in known.partitions)

    _until_no_error(error)  # Kafka says that the topic is there before its partitions are


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_producer_is_answered_as_by_kafka(scenario: Scenario, kafka: SocketClient, ours: Asks) -> None:
    name = scenario.__name__.replace("_", "-")
    answers: list[Any] = []
    for broker in (kafka, ours):
        _create(broker, name)
        answers.append(scenario(Stage(broker, name)))
    theirs, mine = answers
    assert len(mine) > 1
    differences = [(by_kafka, by_us) for by_kafka, by_us in zip(theirs, mine, strict=True) if by_kafka != by_us]
    assert differences == []
