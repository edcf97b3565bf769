"""Requests answered with an error, as a whole or in part."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.cluster.routing.routes import ROUTES, Route, UnservedRequestError
from minibroker.server.faults.fault import Fault
from minibroker.server.inspection.journal import Entry, error_codes_of
from minibroker.server.requests.endpoints import endpoint
from minibroker.server.requests.targets import target_fields
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.fetch import FetchRequest
from minibroker_protocol.messages.groups import DescribeGroupsRequest, HeartbeatRequest
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tests.broker.faults.tapped import Tapped
from tests.broker.harness import batch, create_request, fetch_request, produce_request
from tests.protocol.message_strategies import message_class, messages
from tests.sweeps import few_examples, one_in

CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("route", one_in(2, ROUTES), ids=lambda route: route.message)
@few_examples
@given(data=st.data())
def test_any_request_in_any_version_is_answered_with_an_error(
    tapped: Tapped, route: Route, data: st.DataObject
) -> None:
    version = data.draw(st.integers(route.first, route.last))
    request = data.draw(messages(message_class(route, "Request"), version))
    fault = Fault(api=route.message, error=CODE)
    with tapped.faults.installed(fault):
        try:
            response = tapped.ask(request, version)
        except UnservedRequestError:
            assert route.key is ApiKey.PRODUCE  # The request has acks=0.
            assert request.acks == 0
            return
    if fault.fired and route.key is not ApiKey.METADATA:
        assert set(error_codes_of(response)) <= {CODE}


@pytest.mark.parametrize(
    "route", [r for r in ROUTES if "topic" in target_fields(endpoint(r.key))], ids=lambda r: r.message
)
@few_examples
@given(data=st.data())
def test_any_request_is_answered_when_some_of_its_topics_fail(
    tapped: Tapped, route: Route, data: st.DataObject
) -> None:
    version = data.draw(st.integers(route.first, route.last))
    request = data.draw(messages(message_class(route, "Request"), version))
    with tapped.faults.installed(Fault(api=route.message, topic="?*", error=CODE)):
        try:
            response = tapped.start_asking(request, version).response
            assert response is not None or request.acks == 0
        except UnservedRequestError:
            assert route.key is ApiKey.PRODUCE


def two_partitions(*records: Any) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=record) for index, record in enumerate(records)]
    return ProduceRequest(acks=-1, timeout_ms=100, topic_data=[TopicProduceData(name="two", partition_data=data)])


def codes_by_index(response: Any) -> dict[int, int]:
    return {
        partition.index: partition.error_code for topic in response.responses for partition in topic.partition_responses
    }


def test_only_the_partition_of_the_fault_refuses_what_is_produced(tapped: Tapped) -> None:
    tapped.create("two", 2)
    tapped.fault(api="Produce", topic="two", partition=1, error=CODE)
    response = tapped.ask(two_partitions(batch(b"a"), batch(b"b")), 9)
    assert codes_by_index(response) == {0: 0, 1: CODE}
    assert len(response.responses) == 1
    ends = [tapped.fetch_one(topic="two", partition=index).high_watermark for index in (0, 1)]
    assert ends == [1, 0]


def test_a_produce_request_that_is_refused_appends_nothing(tapped: Tapped) -> None:
    fault = tapped.fault(api="Produce", error=CODE, times=1)
    assert tapped.produce(batch(b"a")).error_code == CODE
    assert tapped.produce(batch(b"b")).base_offset == 0
    assert fault.fired == 1


def test_a_refused_produce_request_without_acks_closes_its_connection(tapped: Tapped) -> None:
    tapped.fault(api="Produce", error=CODE)
    with pytest.raises(UnservedRequestError, match="a fault answers NOT_LEADER_OR_FOLLOWER"):
        tapped.start_asking(produce_request(batch(b"a"), acks=0), 9)


def fetched(response: Any) -> dict[tuple[str, int], int]:
    return {(t.topic, p.partition_index): p.error_code for t in response.responses for p in t.partitions}


def test_a_fetch_tells_the_error_of_one_partition_and_the_records_of_the_other(tapped: Tapped) -> None:
    tapped.create("two", 2)
    tapped.ask(two_partitions(batch(b"a"), batch(b"b")), 9)
    tapped.fault(api="Fetch", topic="two", partition=0, error=CODE)
    response = tapped.ask(fetch_request(("two", 0, 0), ("two", 1, 0)), 12)
    assert fetched(response) == {("two", 0): CODE, ("two", 1): 0}
    records = {p.partition_index: bytes(p.records) for p in response.responses[0].partitions}
    assert records[0] == b""
    assert b"b" in records[1]


def test_a_fetch_with_an_error_to_tell_does_not_wait(tapped: Tapped) -> None:
    tapped.fault(api="Fetch", topic="t", error=CODE)
    response = tapped.ask(fetch_request(("t", 0, 0), max_wait_ms=500), 12)
    assert fetched(response) == {("t", 0): CODE}


def test_a_fetch_of_a_session_hears_of_the_error_and_of_its_end(tapped: Tapped) -> None:
    opened = tapped.ask(fetch_request(("t", 0, 0), max_wait_ms=0, session_epoch=0), 12)
    going_on: dict[str, Any] = {"max_wait_ms": 0, "session_id": opened.session_id}
    fault = tapped.fault(api="Fetch", topic="t", error=CODE, times=1)
    failing = tapped.ask(fetch_request(session_epoch=1, **going_on), 12)
    assert fetched(failing) == {("t", 0): CODE}
    assert fault.fired == 1
    assert fetched(tapped.ask(fetch_request(session_epoch=2, **going_on), 12)) == {("t", 0): 0}
    assert fetched(tapped.ask(fetch_request(session_epoch=3, **going_on), 12)) == {}


def test_a_fetch_without_a_topic_in_the_fault_fails_as_a_whole(tapped: Tapped) -> None:
    tapped.fault(api="Fetch", error="FETCH_SESSION_ID_NOT_FOUND")
    response = tapped.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[]), 12)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_metadata_tells_the_brokers_and_the_error_of_a_topic(tapped: Tapped) -> None:
    tapped.create("other")
    tapped.fault(api="Metadata", topic="t", error="LEADER_NOT_AVAILABLE")
    names = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="other")]
    for asked_for in (names, None):
        response = tapped.ask(MetadataRequest(topics=asked_for), 12)
        assert len(response.brokers) == 1
        codes = {topic.name: (topic.error_code, len(topic.partitions)) for topic in response.topics}
        assert codes == {"t": (ErrorCode.LEADER_NOT_AVAILABLE, 0), "other": (0, 1)}


def test_metadata_tells_the_error_of_a_partition(tapped: Tapped) -> None:
    tapped.create("two", 2)
    tapped.fault(api="Metadata", topic="two", partition=1, error="LEADER_NOT_AVAILABLE", times=1)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="two")])
    (topic,) = tapped.ask(request, 12).topics
    codes = [(partition.partition_index, partition.error_code, partition.leader_id) for partition in topic.partitions]
    node = tapped.core.cluster.first.id
    assert codes == [(0, 0, node), (1, ErrorCode.LEADER_NOT_AVAILABLE, -1)]
    (healed,) = tapped.ask(request, 12).topics
    assert [partition.leader_id for partition in healed.partitions] == [node, node]


def test_metadata_without_a_topic_that_could_fail_does_not_fire(tapped: Tapped) -> None:
    fault = tapped.fault(api="Metadata", error="LEADER_NOT_AVAILABLE")
    tapped.ask(MetadataRequest(topics=[]), 12)
    assert fault.fired == 0
    assert not fault.hits


def test_a_topic_that_fails_in_metadata_is_not_created(tapped: Tapped) -> None:
    tapped.fault(api="Metadata", topic="new", error="LEADER_NOT_AVAILABLE")
    tapped.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 12)
    assert tapped.core.topics.get("new") is None


def commit(*topics: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    commit_topics = [OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in topics]
    return OffsetCommitRequest(group_id="g", topics=commit_topics)


def test_only_the_topic_of_the_fault_is_not_committed(tapped: Tapped) -> None:
    tapped.create("other")
    tapped.fault(api="OffsetCommit", topic="t", error="UNKNOWN_TOPIC_OR_PARTITION", group="g")
    response = tapped.ask(commit("t", "other"), 8)
    codes = {topic.name: topic.partitions[0].error_code for topic in response.topics}
    assert codes == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "other": 0}
    asked_for = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in ("t", "other")]
    offsets = tapped.ask(OffsetFetchRequest(group_id="g", topics=asked_for), 5)
    assert {topic.name: topic.partitions[0].committed_offset for topic in offsets.topics} == {"t": -1, "other": 7}


@pytest.mark.parametrize("version", [5, 9])
def test_offset_fetch_tells_errors_of_partitions_beside_offsets(tapped: Tapped, version: int) -> None:
    tapped.create("other")
    tapped.ask(commit("t", "other"), 8)
    tapped.fault(api="OffsetFetch", topic="t", error="UNSTABLE_OFFSET_COMMIT")
    if version == 5:
        asked_for = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in ("t", "other")]
        topics = tapped.ask(OffsetFetchRequest(group_id="g", topics=asked_for), version).topics
    else:
        requested_topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("t", "other")]
        groups = [OffsetFetchRequestGroup(group_id="g", topics=requested_topics)]
        (group,) = tapped.ask(OffsetFetchRequest(groups=groups), version).groups
        topics = group.topics
    codes = {t.name: (t.partitions[0].error_code, t.partitions[0].committed_offset) for t in topics}
    assert codes == {"t": (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1), "other": (0, 7)}


def test_one_group_of_several_fails(tapped: Tapped) -> None:
    tapped.fault(api="DescribeGroups", group="a*", error="NOT_COORDINATOR")
    response = tapped.ask(DescribeGroupsRequest(groups=["alpha", "beta"]), 4)
    assert {group.group_id: group.error_code for group in response.groups} == {
        "alpha": ErrorCode.NOT_COORDINATOR,
        "beta": 0,
    }


def test_one_topic_of_several_is_not_created(tapped: Tapped) -> None:
    tapped.fault(api="CreateTopics", topic="b", error="POLICY_VIOLATION")
    response = tapped.ask(create_request("a", "b", "c"), 7)
    assert {topic.name: topic.error_code for topic in response.topics} == {
        "a": 0,
        "b": ErrorCode.POLICY_VIOLATION,
        "c": 0,
    }
    assert tapped.core.topics.get("b") is None


def test_a_topic_that_is_named_by_its_id_is_recognized(tapped: Tapped) -> None:
    tapped.fault(api="DeleteTopics", topic="t", error="TOPIC_DELETION_DISABLED")
    topic = tapped.topic()
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic.id)], timeout_ms=100)
    (response,) = tapped.ask(request, 6).responses
    assert (response.topic_id, response.error_code) == (topic.id, ErrorCode.TOPIC_DELETION_DISABLED)
    assert tapped.core.topics.get("t") is topic


def test_a_transaction_is_recognized_by_its_id(tapped: Tapped) -> None:
    tapped.fault(api="AddPartitionsToTxn", transactional_id="tx-*", error="CONCURRENT_TRANSACTIONS", nth=1)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx-1",
        v3_and_below_producer_id=1,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    (topic,) = tapped.ask(request, 3).results_by_topic_v3_and_below
    assert topic.results_by_partition[0].partition_error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_list_offsets_of_one_partition_fails(tapped: Tapped) -> None:
    tapped.create("two", 2)
    tapped.fault(api="ListOffsets", partition=0, topic="*", error=CODE)
    parts = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)]
    response = tapped.ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name="two", partitions=parts)]), 7)
    codes = {partition.partition_index: partition.error_code for partition in response.topics[0].partitions}
    assert codes == {0: CODE, 1: 0}


def test_faults_hit_in_the_order_in_which_they_were_added(tapped: Tapped) -> None:
    first = tapped.fault(api="Heartbeat", error="NOT_COORDINATOR", times=1)
    second = tapped.fault(error="COORDINATOR_NOT_AVAILABLE", nth=2)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    codes = [tapped.ask(beat, 3).error_code for _ in range(3)]
    assert codes == [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert (first.fired, second.fired) == (1, 1)


def test_a_hit_is_an_entry_also_without_a_journal(tapped: Tapped) -> None:
    fault = tapped.fault(api="Heartbeat", error="NOT_COORDINATOR")
    tapped.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)
    (entry,) = fault.hits
    assert isinstance(entry, Entry)
    assert entry.api == "Heartbeat"
    assert entry.fault is fault
    assert entry.error_codes == {ErrorCode.NOT_COORDINATOR}


def test_a_broker_without_faults_and_journal_looks_at_no_request(tapped: Tapped) -> None:
    fault = tapped.fault(api="Produce", error=CODE)
    assert tapped.is_tapped()
    assert tapped.faults.remove(fault)
    assert not tapped.faults.remove(fault)
    assert not tapped.is_tapped()
    assert not tapped.is_tapped()
    tapped.fault(error=CODE)
    tapped.fault(delay_ms=1)
    tapped.faults.clear()
    assert not tapped.is_tapped()
