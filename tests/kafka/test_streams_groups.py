"""Streams groups, request by request: Kafka 4.4 and this broker answer alike, in written scripts and in random ones."""

import pytest

from tests.broker.socket_client import Address
from tests.kafka.streams_group_scripts import SCRIPTS, Script, random_script
from tests.kafka.streams_group_world import StreamsWorld
from tests.sweeps import one_in


def _compare(script: Script, name: str, kafka: Address, ours: Address) -> None:
    mine, theirs = StreamsWorld.transcripts_of((ours, kafka), script, f"group-{name}")
    assert mine == theirs


@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_and_this_broker_answer_streams_members_alike(
    name: str, groups_kafka: Address, our_groups: Address
) -> None:
    _compare(SCRIPTS[name], name, groups_kafka, our_groups)


@pytest.mark.parametrize("seed", one_in(60, range(1, 61)))
def test_random_requests_are_answered_alike(seed: int, groups_kafka: Address, our_groups: Address) -> None:
    _compare(random_script(seed), str(seed), groups_kafka, our_groups)
