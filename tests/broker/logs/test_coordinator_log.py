"""A coordinator's topic is made with its first use, and its directories with their first records."""

from pathlib import Path

import pytest

from minibroker.cluster.routing.outcomes import Answer
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import FindCoordinatorRequest
from minibroker_protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.coordinators.groups.offset_requests import commit, offsets_of
from tests.broker.harness import Harness

OFFSETS = "__consumer_offsets"
PARTITIONS = 50
T0 = ("t", 0)


def directories(harness: Harness) -> int:
    return sum(path.is_dir() for path in Path(harness.data_dir).glob(f"{OFFSETS}-*"))


@pytest.fixture
def asked(harness: Harness) -> Harness:
    """A client was told the coordinator of its group."""
    answer = harness.accept(FindCoordinatorRequest(key="g"), 0)
    assert isinstance(answer, Answer)
    assert answer.response.error_code == ErrorCode.NONE
    return harness


def test_only_a_partition_that_holds_something_has_a_directory(asked: Harness) -> None:
    asked.run_soon()
    assert directories(asked) == 0
    commit(asked, {T0: 5}, "g")
    assert directories(asked) == 1


def test_partitions_without_directories_are_there_after_a_kill(asked: Harness) -> None:
    asked.crash()
    commit(asked, {T0: 5}, "g")
    asked.crash()
    assert offsets_of(asked, "g") == {T0: 5}
    topic = asked.core.topics.get(OFFSETS)
    assert topic is not None
    assert len(topic.partitions) == PARTITIONS
    assert directories(asked) == 1


def test_a_clean_stop_makes_the_directories_that_a_kafka_expects(asked: Harness) -> None:
    commit(asked, {T0: 5}, "g")
    asked.close()
    assert directories(asked) == PARTITIONS
    asked.start()
    assert offsets_of(asked, "g") == {T0: 5}


def test_a_topic_that_is_deleted_leaves_no_directory(asked: Harness) -> None:
    commit(asked, {T0: 5}, "g")
    asked.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=OFFSETS)], timeout_ms=1000), 6)
    assert directories(asked) == 0
