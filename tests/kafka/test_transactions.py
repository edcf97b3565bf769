"""A transaction coordinator's answers, right and wrong ones, are those of Kafka 3.9.1, or of 4.4.0 if epochs go up."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.coordinators.transactions.producer import Asks
from tests.broker.harness import Harness
from tests.broker.socket_client import SocketClient, address_of
from tests.kafka import raised_epoch_scenarios
from tests.kafka.coordinators import wait_for_coordinators
from tests.kafka.real_kafka import RealKafka
from tests.kafka.topics import create_topic
from tests.kafka.transaction_scenarios import SCENARIOS, Scenario
from tests.kafka.transaction_stage import Stage


class _Ours:
    """A harness whose clock goes on with every request."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    def ask(self, request: Any, version: int) -> Any:
        self._harness.clock.advance(1)
        return self._harness.ask(request, version)


@pytest.fixture(scope="module")
def kafka(real_kafka: RealKafka) -> Iterator[SocketClient]:
    with SocketClient(address_of(real_kafka.bootstrap)) as client:
        wait_for_coordinators(client)
        yield client


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Asks]:
    # The second version of transactions came with Kafka 4.
    harness = Harness(str(tmp_path / "data"), {"minibroker.emulate": "3.9"})
    broker = _Ours(harness)
    wait_for_coordinators(broker)
    yield broker
    harness.close()


@pytest.fixture(scope="module")
def kafka_4(newest_kafka: RealKafka) -> Iterator[SocketClient]:
    with SocketClient(address_of(newest_kafka.bootstrap)) as client:
        wait_for_coordinators(client)
        yield client


@pytest.fixture
def ours_of_4(tmp_path: Path) -> Iterator[Asks]:
    harness = Harness(str(tmp_path / "data"), {"offsets.topic.num.partitions": "1"})
    broker = _Ours(harness)
    wait_for_coordinators(broker)
    yield broker
    harness.close()


def _compare(scenario: Scenario, kafka: Asks, ours: Asks) -> None:
    name = scenario.__name__.replace("_", "-")
    answers: list[Any] = []
    for broker in (kafka, ours):
        create_topic(broker, name, 2)
        answers.append(scenario(Stage(broker, name)))
    theirs, mine = answers
    assert len(mine) > 1
    differences = [(by_kafka, by_us) for by_kafka, by_us in zip(theirs, mine, strict=True) if by_kafka != by_us]
    assert differences == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_producer_is_answered_as_by_kafka(scenario: Scenario, kafka: SocketClient, ours: Asks) -> None:
    _compare(scenario, kafka, ours)


@pytest.mark.parametrize("scenario", raised_epoch_scenarios.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_producer_of_kafka_4_is_answered_as_by_kafka_4(
    scenario: Scenario, kafka_4: SocketClient, ours_of_4: Asks
) -> None:
    _compare(scenario, kafka_4, ours_of_4)
