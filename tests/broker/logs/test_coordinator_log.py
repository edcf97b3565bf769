"""A coordinator's topic is made with its first use: in the topics file at once, its directories in slices."""

from pathlib import Path

import pytest

from minibroker.routing.outcomes import Answer
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.coordinators.groups.offset_requests import commit, offsets_of
from tests.broker.harness import Harness

OFFSETS = "__consumer_offsets"
PARTITIONS = 50
T0 = ("t", 0)


def directories(harness: Harness) -> int:
    return sum(path.is_dir() for path in Path(harness.data_dir).glob(f"{OFFSETS}-*"))


@pytest.fixture
def asked(harness: Harness) -> Harness:
    """A client was told the coordinator of its group, and the event loop has not turned since."""
    harness.core.slices.slice_s = 0.0
    answer = harness.accept(FindCoordinatorRequest(key="g"), 0)
    assert isinstance(answer, Answer)
    assert answer.response.error_code == ErrorCode.NONE
    return harness


def test_the_directories_follow_in_slices(asked: Harness) -> None:
    assert directories(asked) < PARTITIONS
    asked.run_soon()
    assert directories(asked) == PARTITIONS


def test_a_partition_without_a_directory_gets_one_when_it_is_used(asked: Harness) -> None:
    asked.crash()
    assert directories(asked) < PARTITIONS
    commit(asked, {T0: 5}, "g")
    asked.crash()
    assert offsets_of(asked, "g") == {T0: 5}
    topic = asked.core.topics.get(OFFSETS)
    assert topic is not None
    assert len(topic.partitions) == PARTITIONS


def test_a_topic_that_is_deleted_meanwhile_gets_no_more_directories(asked: Harness) -> None:
    asked.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=OFFSETS)], timeout_ms=1000), 6)
    assert directories(asked) == 0
