"""Metadata and DescribeTopicPartitions, the latter compared with Kafka 3.9.1."""

from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.metadata import (
    NO_AUTHORIZED_OPERATIONS,
    Cursor,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
    TopicRequest,
)
from minibroker_protocol.primitives import ZERO_UUID, new_uuid
from tests.broker.harness import Configured, Harness

VERSIONS = range(14)


def metadata(
    harness: Harness,
    *topics: str | tuple[str | None, bytes],
    version: int = 12,
    everything: bool = False,
    create: bool = False,
    operations: bool = False,
) -> MetadataResponse:
    """Request topics by name or by (name, id), or all topics for None."""
    requested_topics = [
        MetadataRequestTopic(name=topic)
        if isinstance(topic, str)
        else MetadataRequestTopic(name=topic[0], topic_id=topic[1])
        for topic in topics
    ]
    request = MetadataRequest(
        topics=None if everything else requested_topics,
        allow_auto_topic_creation=create,
        include_topic_authorized_operations=operations,
        include_cluster_authorized_operations=operations,
    )
    response: MetadataResponse = harness.ask(request, version)
    return response


def outcomes(response: MetadataResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in response.topics]


def one(response: MetadataResponse) -> MetadataResponseTopic:
    (topic,) = response.topics
    return topic


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_told_with_its_partitions_which_this_broker_leads(harness: Harness, version: int) -> None:
    harness.create("two", 2)
    topic = one(metadata(harness, "two", version=version))
    assert (topic.name, topic.error_code, topic.is_internal) == ("two", 0, False)
    assert topic.topic_id == (harness.topic("two").id if version >= 10 else ZERO_UUID)
    assert topic.partitions == [
        MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=1,
            leader_epoch=0 if version >= 7 else -1,
            replica_nodes=[1],
            isr_nodes=[1],
            offline_replicas=[],
        )
        for index in range(2)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_broker_is_told_at_the_address_it_is_advertised_at(harness: Harness, version: int) -> None:
    response = metadata(harness, "t", version=version)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port, broker.rack) == (1, "broker.test", 9092, None)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == (harness.core.cluster.cluster_id if version >= 2 else None)


@pytest.mark.parametrize("given", [{"node.id": "7"}, {"broker.id": "7"}])
def test_the_node_id_is_configured(configured: Configured, given: dict[str, str]) -> None:
    response = metadata(configured(given), "t")
    assert response.brokers[0].node_id == response.controller_id == 7
    assert one(response).partitions[0].leader_id == 7


def test_the_cluster_id_stays_over_restarts(harness: Harness) -> None:
    before = metadata(harness).cluster_id
    assert before is not None
    assert len(before) == 22
    harness.restart()
    assert metadata(harness).cluster_id == before


@pytest.mark.parametrize("version", range(1, 13))
def test_null_asks_for_every_topic(harness: Harness, version: int) -> None:
    harness.create("other")
    assert outcomes(metadata(harness, everything=True, version=version)) == [("t", 0), ("other", 0)]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_list_asks_for_everything_in_version_0_and_for_nothing_later(harness: Harness, version: int) -> None:
    assert outcomes(metadata(harness, version=version)) == ([("t", 0)] if version == 0 else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_is_not_there_is_unknown_unless_it_may_be_created(harness: Harness, version: int) -> None:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version >= 4 else ErrorCode.NONE  # always allowed before
    topic = one(metadata(harness, "new", version=version, create=False))
    assert (topic.name, topic.error_code, len(topic.partitions)) == ("new", code, 0 if version >= 4 else 1)
    assert (harness.core.topics.get("new") is not None) is (version < 4)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_created_on_demand_and_told_at_once(harness: Harness, version: int) -> None:
    topic = one(metadata(harness, "new", version=version, create=True))
    assert (topic.error_code, [p.partition_index for p in topic.partitions]) == (0, [0])
    harness.restart()
    assert harness.core.topics.get("new") is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_who_looks_whether_a_deleted_topic_is_gone_does_not_find_it_at_first(harness: Harness, version: int) -> None:
    harness.delete()
    topic = one(metadata(harness, "t", version=version, create=True))
    assert (topic.error_code, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert one(metadata(harness, "t", version=version, create=True)).error_code == 0
    harness.delete()
    harness.create("t")
    for response_topic in tuple(harness.core.topics):
        harness.core.topics.delete(response_topic)
    assert one(metadata(harness, "t", version=version, create=True)).error_code == 0


def test_a_client_that_deletes_topics_without_end_costs_no_memory_without_end(harness: Harness) -> None:
    topics = harness.core.topics
    for number in range(20_001):
        topics.remember_deleted(f"t{number}")
    assert sum(topics.was_deleted(f"t{number}") for number in range(20_001)) <= 10_000
    assert topics.was_deleted("t20000")


@pytest.mark.parametrize("version", VERSIONS)
def test_no_topic_is_created_on_demand_when_the_broker_is_told_not_to(configured: Configured, version: int) -> None:
    harness = configured({"auto.create.topics.enable": "false"})
    topic = one(metadata(harness, "new", version=version, create=True))
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert harness.core.topics.get("new") is None


def test_topics_on_demand_have_the_configured_number_of_partitions(configured: Configured) -> None:
    harness = configured({"num.partitions": "3"})
    assert len(one(metadata(harness, "new", create=True)).partitions) == 3


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "x" * 250, "a/b", "a\n"])
@pytest.mark.parametrize("create", [True, False])
def test_an_impossible_name_is_refused(harness: Harness, name: str, *, create: bool) -> None:
    topic = one(metadata(harness, name, create=create))
    assert (topic.name, topic.error_code, topic.partitions) == (name, ErrorCode.INVALID_TOPIC_EXCEPTION, [])


def test_a_name_that_collides_is_not_created_on_demand(harness: Harness) -> None:
    harness.create("a.b")
    assert outcomes(metadata(harness, "a_b", create=True)) == [("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION)]


def test_a_topic_that_is_asked_for_twice_is_told_once(harness: Harness) -> None:
    assert outcomes(metadata(harness, "t", "missing", "t")) == [("t", 0), ("missing", 3)]


def test_a_topic_is_found_by_its_id(harness: Harness) -> None:
    topic = one(metadata(harness, (None, harness.topic("t").id)))
    assert (topic.name, topic.error_code, topic.topic_id) == ("t", 0, harness.topic("t").id)


def test_an_id_counts_more_than_a_name(harness: Harness) -> None:
    harness.create("other")
    assert one(metadata(harness, ("other", harness.topic("t").id))).name == "t"


@pytest.mark.parametrize("topic_id", [new_uuid(), ZERO_UUID], ids=["of nothing", "zero"])
def test_an_unknown_id_is_told_with_the_id_and_without_a_name(harness: Harness, topic_id: bytes) -> None:
    topic = one(metadata(harness, (None, topic_id), create=True))
    assert (topic.name, topic.error_code, topic.topic_id) == (None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_with_the_whole_request_before_version_12(harness: Harness, version: int) -> None:
    existing_id = harness.topic("t").id
    for requested in (("t", existing_id), (None, existing_id), (None, new_uuid()), (None, ZERO_UUID)):
        response = metadata(harness, requested, "t", version=version)
        name, topic_id = requested
        assert outcomes(response) == [(name or "", ErrorCode.INVALID_REQUEST), ("t", ErrorCode.INVALID_REQUEST)]
        assert response.topics[0].topic_id == topic_id
        assert response.brokers == []


@pytest.mark.parametrize("version", VERSIONS)
def test_authorized_operations_are_all_of_them_when_asked_for(harness: Harness, version: int) -> None:
    response = metadata(harness, "t", version=version, operations=True)
    assert one(response).topic_authorized_operations == (3576 if version >= 8 else NO_AUTHORIZED_OPERATIONS)
    assert response.cluster_authorized_operations == (8096 if 8 <= version <= 10 else NO_AUTHORIZED_OPERATIONS)
    absent = metadata(harness, "absent", version=version, operations=True, create=False)
    if version >= 4:  # Older clients always create it.
        assert one(absent).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert one(absent).topic_authorized_operations == (3576 if version >= 8 else NO_AUTHORIZED_OPERATIONS)
    silent = metadata(harness, "t", version=version)
    assert one(silent).topic_authorized_operations == NO_AUTHORIZED_OPERATIONS
    assert silent.cluster_authorized_operations == NO_AUTHORIZED_OPERATIONS


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_kafkas_own_topics_are_internal(harness: Harness, name: str) -> None:
    harness.create(name)
    assert one(metadata(harness, name, version=1)).is_internal
    assert not one(metadata(harness, "t", version=1)).is_internal


def test_new_partitions_are_told(harness: Harness) -> None:
    assert len(one(metadata(harness, "t")).partitions) == 1
    harness.core.topics.grow([(harness.topic(), 3, None)])
    assert [p.partition_index for p in one(metadata(harness, "t")).partitions] == [0, 1, 2]


def test_more_topics_than_kafka_creates_together_are_not_created(harness: Harness) -> None:
    requested = [MetadataRequestTopic(name=f"n{number}") for number in range(5001)]
    topics = harness.ask(MetadataRequest(topics=requested, allow_auto_topic_creation=True), 9).topics
    assert {topic.error_code for topic in topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(harness.core.topics) == 1


@pytest.fixture
def filled(harness: Harness) -> Harness:
    """A broker with the topics "a", "b" and "c" of three partitions each, besides "t"."""
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
    """Return (partitions by topic, next cursor) of a page without errors."""
    cursor = response.next_cursor
    assert {topic.error_code for topic in response.topics} <= {0}
    return (
        {topic.name: [partition.partition_index for partition in topic.partitions] for topic in response.topics},
        None if cursor is None else (cursor.topic_name, cursor.partition_index),
    )


def test_a_partition_is_told_with_its_leader_and_its_replicas(filled: Harness) -> None:
    topic = ask(filled, "a").topics[0]
    assert topic.topic_id == filled.topic("a").id
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, 3576)
    first = topic.partitions[0]
    assert (first.error_code, first.leader_id, first.leader_epoch) == (0, 1, 0)
    assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ([1], [1], [])
    assert (first.eligible_leader_replicas, first.last_known_elr) == ([], [])


def test_pages_follow_each_other_until_all_is_told(filled: Harness) -> None:
    cursor: tuple[str, int] | None = None
    partitions: list[tuple[str, int]] = []
    for _ in range(10):
        described, cursor = page(ask(filled, "a", "b", "c", limit=2, cursor=cursor))
        partitions += [(name, index) for name, indexes in described.items() for index in indexes]
        if cursor is None:
            break
    assert partitions == [(name, index) for name in "abc" for index in range(3)]


def test_no_page_is_larger_than_the_broker_allows(configured: Any) -> None:
    broker = configured({"max.request.partition.size.limit": "2"})
    broker.create("a", 3)
    assert page(ask(broker, "a")) == ({"a": [0, 1]}, ("a", 2))
