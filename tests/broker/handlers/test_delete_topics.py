"""DeleteTopics: by name and by id, and what is refused; compared with Kafka 3.9.1."""

import os
from collections.abc import Callable

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.uuids import new_uuid
from tests.broker.harness import Harness, batch, values_in

VERSIONS = range(7)


def deleted(harness: Harness, *names: str, version: int = 6) -> list[DeletableTopicResult]:
    """Delete by name, in the form of the version."""
    if version >= 6:
        return deleted_states(harness, *((name, ZERO_UUID) for name in names))
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)
    results: list[DeletableTopicResult] = harness.ask(request, version).responses
    return results


def deleted_states(harness: Harness, *states: tuple[str | None, bytes]) -> list[DeletableTopicResult]:
    topics = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states]
    results: list[DeletableTopicResult] = harness.ask(DeleteTopicsRequest(topics=topics, timeout_ms=1000), 6).responses
    return results


def codes(results: list[DeletableTopicResult]) -> list[tuple[str | None, int]]:
    return [(result.name, result.error_code) for result in results]


def id_of(harness: Harness, name: str) -> bytes:
    topic = harness.core.topics.get(name)
    assert topic is not None
    return topic.id


@pytest.mark.parametrize("version", VERSIONS)
def test_a_deleted_topic_is_gone_with_its_files(harness: Harness, version: int) -> None:
    harness.produce(batch(b"a"))
    topic_id = id_of(harness, "t")
    (result,) = deleted(harness, "t", version=version)
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert result.topic_id == (topic_id if version >= 6 else ZERO_UUID)
    assert harness.fetch_one().error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [name for name in os.listdir(harness.data_dir) if name.startswith("t-")] == []


def test_a_topic_that_nobody_has_used_is_deleted_as_well(harness: Harness) -> None:
    harness.create("unused", 3)
    assert codes(deleted(harness, "unused")) == [("unused", 0)]
    assert not any(name.startswith("unused") for name in os.listdir(harness.data_dir))


def test_a_topic_is_deleted_by_its_id(harness: Harness) -> None:
    topic_id = id_of(harness, "t")
    (result,) = deleted_states(harness, (None, topic_id))
    assert (result.name, result.topic_id, result.error_code) == ("t", topic_id, 0)
    assert len(harness.core.topics) == 0


def test_a_deleted_topic_stays_deleted_after_a_restart(harness: Harness) -> None:
    deleted(harness, "t")
    harness.restart()
    assert len(harness.core.topics) == 0


def test_a_new_topic_of_the_same_name_is_another_and_empty(harness: Harness) -> None:
    harness.produce(batch(b"a"))
    before = id_of(harness, "t")
    deleted(harness, "t")
    harness.create("t")
    assert id_of(harness, "t") != before
    assert harness.produce(batch(b"b")).base_offset == 0
    assert values_in(harness.fetch_one().records) == [(0, b"b")]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["missing", "", "a b"])
def test_a_topic_that_is_not_there_is_unknown(harness: Harness, name: str, version: int) -> None:
    (result,) = deleted(harness, name, version=version)
    assert (result.name, result.error_code) == (name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (result.error_message is None) is (version < 5)


def test_an_id_that_is_not_there_is_unknown(harness: Harness) -> None:
    unknown = new_uuid()
    (result,) = deleted_states(harness, (None, unknown))
    assert (result.name, result.topic_id, result.error_code) == (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID)


def test_name_and_id_together_and_neither_of_them_are_refused(harness: Harness) -> None:
    both = ("t", id_of(harness, "t"))
    assert codes(deleted_states(harness, both, (None, ZERO_UUID))) == [
        ("t", ErrorCode.INVALID_REQUEST),
        (None, ErrorCode.INVALID_REQUEST),
    ]
    assert len(harness.core.topics) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_is_named_twice_is_refused_once_and_stays(harness: Harness, version: int) -> None:
    harness.create("other")
    assert sorted(codes(deleted(harness, "t", "other", "t", version=version))) == [
        ("other", 0),
        ("t", ErrorCode.INVALID_REQUEST),
    ]
    assert [topic.name for topic in harness.core.topics] == ["t"]


def test_a_topic_that_is_named_by_name_and_by_id_is_refused_and_stays(harness: Harness) -> None:
    results = deleted_states(harness, ("t", ZERO_UUID), (None, id_of(harness, "t")))
    assert {result.error_code for result in results} == {ErrorCode.INVALID_REQUEST}
    assert len(harness.core.topics) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_deleted_when_the_broker_is_told_not_to(
    configured: Callable[[dict[str, str]], Harness], version: int
) -> None:
    harness = configured({"delete.topic.enable": "false"})
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert codes(deleted(harness, "t", "missing", version=version)) == [("t", code), ("missing", code)]
    assert len(harness.core.topics) == 1


def test_an_empty_request_is_answered_empty(harness: Harness) -> None:
    assert deleted(harness) == []
