"""DescribeTopicPartitions: pages and their order; compared with Kafka 3.9.1."""

from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.metadata import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from tests.broker.harness import Harness


@pytest.fixture
def filled(harness: Harness) -> Harness:
    """A broker with the topics "a", "b" and "c" of three partitions each, beside "t"."""
    for name in "cab":
        harness.create(name, 3)
    return harness


def ask(harness: Harness, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return harness.ask(request, 0)


def page(response: Any) -> tuple[dict[str, list[int]], tuple[str, int] | None]:
    """(partitions by topic, the next cursor) of a page without errors."""
    cursor = response.next_cursor
    assert {topic.error_code for topic in response.topics} <= {0}
    return (
        {topic.name: [each.partition_index for each in topic.partitions] for topic in response.topics},
        None if cursor is None else (cursor.topic_name, cursor.partition_index),
    )


def test_a_partition_is_told_with_its_leader_and_its_replicas(filled: Harness) -> None:
    topic = ask(filled, "a").topics[0]
    known = filled.core.topics.get("a")
    assert known is not None
    assert (topic.topic_id, topic.is_internal, topic.topic_authorized_operations) == (known.id, False, 3576)
    first = topic.partitions[0]
    assert (first.error_code, first.leader_id, first.leader_epoch) == (0, 1, 0)
    assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ([1], [1], [])
    assert (first.eligible_leader_replicas, first.last_known_elr) == ([], [])


def test_pages_follow_each_other_until_all_is_told(filled: Harness) -> None:
    cursor: tuple[str, int] | None = None
    seen: list[tuple[str, int]] = []
    for _ in range(10):
        described, cursor = page(ask(filled, "a", "b", "c", limit=2, cursor=cursor))
        seen += [(name, index) for name, indexes in described.items() for index in indexes]
        if cursor is None:
            break
    assert seen == [(name, index) for name in "abc" for index in range(3)]


def test_no_page_is_larger_than_the_broker_allows(configured: Any) -> None:
    broker = configured({"max.request.partition.size.limit": "2"})
    broker.create("a", 3)
    assert page(ask(broker, "a")) == ({"a": [0, 1]}, ("a", 2))


def test_a_cursor_for_all_topics_need_not_name_one_that_there_is(filled: Harness) -> None:
    assert list(page(ask(filled, cursor=("aa", 0)))[0]) == ["b", "c", "t"]


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
def test_a_cursor_that_cannot_be_meant_is_refused(filled: Harness, cursor: tuple[str, int]) -> None:
    topics = ask(filled, "a", "c", cursor=cursor).topics
    assert [(each.name, each.error_code) for each in topics] == [("a", 42), ("c", 42)]


def test_a_topic_that_there_is_not_is_named(filled: Harness) -> None:
    topics = ask(filled, "none", "_ _", "__consumer_offsets").topics
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(each.name, each.error_code, each.is_internal) for each in topics] == [
        ("_ _", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        ("__consumer_offsets", unknown, True),
        ("none", unknown, False),
    ]
