"""CreatePartitions: topics grow and never shrink; compared with Kafka 3.9.1."""

import os

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.topics import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tests.broker.harness import Harness, batch

VERSIONS = range(4)


def grown(
    harness: Harness,
    *topics: tuple[str, int],
    version: int = 3,
    validate_only: bool = False,
    assignments: list[list[int]] | None = None,
) -> list[CreatePartitionsTopicResult]:
    placed = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    requested_topics = [CreatePartitionsTopic(name=name, count=count, assignments=placed) for name, count in topics]
    request = CreatePartitionsRequest(topics=requested_topics, timeout_ms=1000, validate_only=validate_only)
    results: list[CreatePartitionsTopicResult] = harness.ask(request, version).results
    return results


def size(harness: Harness, name: str = "t") -> int:
    topic = harness.core.topics.get(name)
    assert topic is not None
    return len(topic.partitions)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_grows_to_a_new_total(harness: Harness, version: int) -> None:
    (result,) = grown(harness, ("t", 3), version=version)
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert size(harness) == 3
    assert harness.produce(batch(b"a"), "t", 2).base_offset == 0


def test_records_stay_where_they_are(harness: Harness) -> None:
    harness.produce(batch(b"a"))
    grown(harness, ("t", 2))
    assert harness.fetch_one().high_watermark == 1
    assert harness.fetch_one(0, "t", 1).high_watermark == 0


def test_new_partitions_outlive_a_restart(harness: Harness) -> None:
    grown(harness, ("t", 3))
    harness.restart()
    assert size(harness) == 3


@pytest.mark.parametrize(("count", "word"), [(2, "already has 2"), (1, "increase"), (0, "increase"), (-1, "increase")])
def test_a_total_that_is_no_increase_is_refused(harness: Harness, count: int, word: str) -> None:
    harness.create("two", 2)
    (result,) = grown(harness, ("two", count))
    assert result.error_code == ErrorCode.INVALID_PARTITIONS
    assert word in (result.error_message or "")
    assert size(harness, "two") == 2


def test_too_many_partitions_at_once_are_refused(harness: Harness) -> None:
    (result,) = grown(harness, ("t", 20_000))
    assert result.error_code == ErrorCode.POLICY_VIOLATION
    assert size(harness) == 1


@pytest.mark.parametrize("name", ["missing", "", "a b"])
def test_an_unknown_topic_is_said_so(harness: Harness, name: str) -> None:
    assert [result.error_code for result in grown(harness, (name, 2))] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_topic_that_is_named_twice_is_refused_once(harness: Harness) -> None:
    harness.create("other")
    results = grown(harness, ("t", 2), ("t", 3), ("other", 2))
    assert sorted((result.name, result.error_code) for result in results) == [
        ("other", 0),
        ("t", ErrorCode.INVALID_REQUEST),
    ]
    assert (size(harness), size(harness, "other")) == (1, 2)


def test_replicas_placed_by_hand_are_counted(harness: Harness) -> None:
    assert [result.error_code for result in grown(harness, ("t", 3), assignments=[[1], [2, 1]])] == [0]
    assert size(harness) == 3


@pytest.mark.parametrize("assignments", [[], [[1]], [[1], [1], [1]], [[1], []]])
def test_replicas_placed_by_hand_must_fit_the_new_partitions(harness: Harness, assignments: list[list[int]]) -> None:
    (result,) = grown(harness, ("t", 3), assignments=assignments)
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert size(harness) == 1


def test_validation_alone_creates_nothing(harness: Harness) -> None:
    assert [result.error_code for result in grown(harness, ("t", 3), validate_only=True)] == [0]
    assert size(harness) == 1
    assert [result.error_code for result in grown(harness, ("t", 1), validate_only=True)] == [
        ErrorCode.INVALID_PARTITIONS
    ]


def test_when_the_disk_refuses_the_topic_is_as_it_was(harness: Harness) -> None:
    os.makedirs(f"{harness.data_dir}/t-2/in the way")
    assert [result.error_code for result in grown(harness, ("t", 4))] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert size(harness) == 1
    assert not os.path.exists(f"{harness.data_dir}/t-1")
    os.removedirs(f"{harness.data_dir}/t-2/in the way")
    assert [result.error_code for result in grown(harness, ("t", 4))] == [0]
