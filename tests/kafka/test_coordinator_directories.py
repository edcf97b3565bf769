"""The coordinators' state goes from Kafka 3.9.1 to this broker and back: groups, offsets, open transactions.

Each broker goes on where the other one was stopped, or killed.
"""

import pytest

from tests.clients.broker_process import BrokerProcess
from tests.kafka.exchange_rounds import COORDINATORS, SMALL_SEGMENTS, take_turns
from tests.kafka.real_kafka import RealKafka


@pytest.fixture(scope="module")
def config() -> dict[str, str]:
    return {**COORDINATORS, **SMALL_SEGMENTS}


@pytest.mark.torture
@pytest.mark.parametrize(("rounds", "seed"), [(2, 3), (30, 7)])
def test_brokers_that_take_turns_on_a_directory_agree_on_everything(
    kafka: RealKafka, ours: BrokerProcess, rounds: int, seed: int
) -> None:
    take_turns(kafka, ours, rounds, seed)
