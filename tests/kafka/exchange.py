"""One directory that Kafka and this broker have in turn."""

import shutil

import pytest

from tests.clients.broker_process import BrokerProcess
from tests.kafka.real_kafka import RealKafka

_SLOW = "controller event queue overloaded"

however_it_ends = pytest.mark.parametrize("end", ["stopped", "killed"])


def hand_over(giver: RealKafka | BrokerProcess, taker: RealKafka | BrokerProcess, end: str) -> None:
    """The giver is "stopped" or "killed", and the taker starts on what it leaves."""
    if end == "killed":
        giver.kill()
    elif isinstance(giver, RealKafka):
        giver.stop()
    else:
        giver.terminate()
    shutil.rmtree(taker.data_dir, ignore_errors=True)
    shutil.copytree(giver.data_dir, taker.data_dir)
    taker.start()


def errors_of(kafka: RealKafka) -> list[str]:
    """What Kafka has logged as errors, but for those that say no more than that the machine is slow."""
    return [line for line in kafka.output().splitlines() if " ERROR " in line and _SLOW not in line]
