"""Share groups, request by request: Kafka 4.4 and this broker answer alike, in written scripts and in random ones."""

import os
from collections.abc import Callable
from typing import Final

import pytest

from tests.broker.socket_client import Address
from tests.kafka.dead_letter_scripts import DEAD_LETTER_SCRIPTS
from tests.kafka.dead_letter_world import DeadLetterWorld
from tests.kafka.share_group_scripts import SCRIPTS, random_script
from tests.sweeps import one_in

_ALL: Final = {**SCRIPTS, **DEAD_LETTER_SCRIPTS}


def _compare(script: Callable[[DeadLetterWorld], None], name: str, kafka: Address, ours: Address) -> None:
    fresh = f"group-{name}-{os.urandom(3).hex()}"  # also when a test is tried again
    mine, theirs = DeadLetterWorld.transcripts_of((ours, kafka), script, fresh)
    assert mine == theirs


@pytest.mark.parametrize("name", _ALL)
def test_kafka_and_this_broker_answer_share_consumers_alike(
    name: str, groups_kafka: Address, our_groups: Address
) -> None:
    _compare(_ALL[name], name, groups_kafka, our_groups)


@pytest.mark.parametrize("seed", one_in(200, range(1, 201)))
def test_random_requests_are_answered_alike(seed: int, groups_kafka: Address, our_groups: Address) -> None:
    _compare(random_script(seed), str(seed), groups_kafka, our_groups)
