"""Committed offsets, request by request: Kafka 3.9.1 and this broker answer alike and write the same records."""

import uuid
from collections.abc import Iterator

import pytest

from minibroker import Broker
from tests.broker.socket_client import Address
from tests.kafka.coordinators import with_coordinators
from tests.kafka.offset_scripts import SCRIPTS, OffsetWorld
from tests.kafka.real_kafka import RealKafka


@pytest.fixture(scope="module")
def kafka(real_kafka: RealKafka) -> Address:
    return with_coordinators(real_kafka.bootstrap)


@pytest.fixture(scope="module")
def ours() -> Iterator[Address]:
    with Broker(config={"offsets.topic.num.partitions": "1", "minibroker.emulate": "3.9"}) as running:
        yield with_coordinators(running.bootstrap_servers)


@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_and_this_broker_keep_committed_offsets_alike(name: str, kafka: Address, ours: Address) -> None:
    group_id = f"offsets-{name}-{uuid.uuid4()}"  # another one when a test is run once more
    theirs = OffsetWorld.transcript_of(kafka, SCRIPTS[name], group_id)
    assert OffsetWorld.transcript_of(ours, SCRIPTS[name], group_id) == theirs
