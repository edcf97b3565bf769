"""Consumer groups, request by request: Kafka 3.9.1 and this broker answer alike and write the same records."""

import pytest

from tests.broker.socket_client import Address, SocketClient
from tests.kafka import static_member_scripts
from tests.kafka.group_scripts import SCRIPTS
from tests.kafka.group_world import COMMITTED, World
from tests.kafka.topics import create_topic

assert static_member_scripts  # what it has to say is in SCRIPTS, too


@pytest.fixture(scope="module")
def config() -> dict[str, str]:
    return {
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": "0",
        "group.max.size": "3",
        "offsets.topic.num.partitions": "1",
    }


@pytest.fixture(scope="module")
def our_config(config: dict[str, str]) -> dict[str, str]:
    return {**config, "minibroker.emulate": "3.9"}


@pytest.fixture(scope="module", autouse=True)
def a_topic_to_commit_for(kafka_address: Address, our_address: Address) -> None:
    for address in (kafka_address, our_address):
        with SocketClient(address) as client:
            create_topic(client, COMMITTED)


@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_and_this_broker_answer_members_of_groups_alike(
    name: str, kafka_address: Address, our_address: Address
) -> None:
    ours, theirs = World.transcripts_of((our_address, kafka_address), SCRIPTS[name], f"group-{name}")
    assert ours == theirs
