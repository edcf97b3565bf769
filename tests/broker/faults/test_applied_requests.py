"""Requests that are applied although their client gets an error or nothing, and the observers of the registry."""

from typing import Any

import pytest

from minibroker.server.faults.fault import Fault, RequestContext
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import HeartbeatRequest
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.faults.tapped import Tapped
from tests.broker.harness import batch, fetch_request, only_partition, produce_request, values_in

AFTER_APPEND = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def values(tapped: Tapped, offset: int = 0) -> list[bytes | None]:
    fetched = only_partition(tapped.fetch(("t", 0, offset)))
    return [value for _, value in values_in(fetched.records)]


def commit_request(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])


def committed(tapped: Tapped) -> int:
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    response = tapped.ask(OffsetFetchRequest(group_id="g", topics=topics), 5)
    offset: int = response.topics[0].partitions[0].committed_offset
    return offset


def test_an_error_after_the_append_leaves_the_record(tapped: Tapped) -> None:
    fault = tapped.fault(api="Produce", error="NOT_ENOUGH_REPLICAS_AFTER_APPEND", applied=True)
    response = tapped.ask(produce_request(batch(b"a")), 9)
    assert response.responses[0].partition_responses[0].error_code == AFTER_APPEND
    assert values(tapped) == [b"a"]
    assert fault.fired == 1


def test_an_error_for_one_partition_leaves_the_records_of_all(tapped: Tapped) -> None:
    tapped.create("two", 2)
    tapped.fault(api="Produce", topic="two", partition=1, error=AFTER_APPEND, applied=True)
    data = [PartitionProduceData(index=index, records=memoryview(batch(b"v"))) for index in (0, 1)]
    request = ProduceRequest(acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="two", partition_data=data)])
    answered = tapped.ask(request, 9).responses[0].partition_responses
    assert {part.index: part.error_code for part in answered} == {0: 0, 1: AFTER_APPEND}
    assert [log.high_watermark for log in (part.log for part in tapped.topic("two").partitions)] == [1, 1]


def test_a_request_that_is_refused_anyway_keeps_its_own_error(tapped: Tapped) -> None:
    fault = tapped.fault(api="Produce", error="REQUEST_TIMED_OUT", applied=True)
    response = tapped.ask(produce_request(batch(b"a"), "missing"), 9)
    code = response.responses[0].partition_responses[0].error_code
    assert (code, fault.fired) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)


def test_a_commit_holds_though_its_answer_is_an_error(tapped: Tapped) -> None:
    tapped.fault(api="OffsetCommit", error="COORDINATOR_NOT_AVAILABLE", applied=True)
    response = tapped.ask(commit_request(5), 2)
    assert response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert committed(tapped) == 5


def test_a_late_request_is_applied_after_others_of_its_partition(tapped: Tapped) -> None:
    tapped.fault(api="Produce", late=2, times=1)
    late = tapped.start_asking(produce_request(batch(b"late")), 9)
    assert late.events == ["end"]
    tapped.ask(produce_request(batch(b"first")), 9)
    tapped.ask(MetadataRequest(topics=[]), 9)
    assert values(tapped) == [b"first"]  # This fetch is the second request of the partition.
    assert values(tapped) == [b"first", b"late"]


def test_a_late_idempotent_batch_is_recognised_as_a_duplicate(tapped: Tapped) -> None:
    tapped.fault(api="Produce", late=1, times=1)
    sent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    tapped.start_asking(produce_request(batch(b"once", **sent)), 9)
    tapped.ask(produce_request(batch(b"once", **sent)), 9)
    assert values(tapped) == [b"once"]


def test_a_late_commit_makes_the_offset_go_back(tapped: Tapped) -> None:
    tapped.ask(commit_request(1), 2)
    tapped.fault(api="OffsetCommit", late=2, times=1)
    tapped.start_asking(commit_request(3), 2)
    tapped.ask(commit_request(7), 2)
    assert committed(tapped) == 7
    assert committed(tapped) == 3


def test_settling_applies_late_requests_and_a_stopped_broker_loses_them(tapped: Tapped) -> None:
    tapped.fault(api="Produce", late=9)
    tapped.start_asking(produce_request(batch(b"a")), 9)
    tapped.faults.settle()
    assert values(tapped) == [b"a"]
    tapped.start_asking(produce_request(batch(b"b")), 9)
    tapped.core.cluster.stop_node(1)
    tapped.core.cluster.start_node(1)
    tapped.faults.settle()
    assert (values(tapped), len(tapped.faults.late)) == ([b"a"], 0)


@pytest.mark.parametrize("how", ["time", "release", "settle"])
def test_a_delayed_request_is_applied_and_answered_later(tapped: Tapped, how: str) -> None:
    fault = tapped.fault(api="Produce", delay_ms=100, times=1)
    fault.delays_request = True
    held = tapped.start_asking(produce_request(batch(b"held")), 9)
    tapped.ask(produce_request(batch(b"first")), 9)
    assert (held.is_answered(), values(tapped)) == (False, [b"first"])
    assert held.waiting is not None
    assert held.waiting.delayed.waits_for() == "the delay of a fault"
    if how == "time":
        tapped.clock.advance(100)
    elif how == "release":
        tapped.faults.late.release(fault)
    else:
        tapped.faults.settle()
    tapped.run_soon()
    assert held.response.responses[0].partition_responses[0].base_offset == 1
    assert values(tapped) == [b"first", b"held"]


def test_a_delayed_request_is_applied_though_its_client_is_gone(tapped: Tapped) -> None:
    fault = tapped.fault(api="Produce", delay_ms=100, times=1)
    fault.delays_request = True
    held = tapped.start_asking(produce_request(batch(b"held")), 9)
    assert held.waiting is not None
    held.waiting.delayed.cancel()
    tapped.faults.settle()
    tapped.run_soon()
    assert (held.is_answered(), values(tapped)) == (False, [b"held"])


def test_a_delayed_request_waits_for_what_its_handler_waits_for(tapped: Tapped) -> None:
    fault = tapped.fault(api="Fetch", delay_ms=100, times=1)
    fault.delays_request = True
    held = tapped.start_asking(fetch_request(("t", 0, 0), max_wait_ms=500), 11)
    tapped.faults.settle()
    tapped.run_soon()
    assert held.waiting is not None
    assert (held.is_answered(), held.waiting.delayed.waits_for()[:15]) == (False, "appends to t-0:")
    tapped.ask(produce_request(batch(b"a")), 9)
    tapped.run_soon()
    assert held.is_answered()


@pytest.mark.parametrize(("limit", "expected"), [(0, []), (1, [b"a"]), (1000, [b"a", b"b"])])
def test_a_fetch_gets_less_than_there_is(tapped: Tapped, limit: int, expected: list[bytes]) -> None:
    tapped.produce(batch(b"a"))
    tapped.produce(batch(b"b"))
    tapped.fault(api="Fetch", fetch_bytes=limit)
    response = tapped.ask(fetch_request(("t", 0, 0), max_wait_ms=500, min_bytes=100), 12)
    part = only_partition(response)
    whole = [value for _, value in values_in(part.records)]
    assert (whole, part.high_watermark) == (expected, 2)


def test_an_advisor_is_asked_where_no_fault_acts(tapped: Tapped) -> None:
    heard: list[tuple[str, int]] = []

    def advise(context: Any, request: Any, call: Any, entry: Any) -> Fault | None:
        assert call.client_id == "test"
        heard.append((context.api, entry.number))
        return Fault(error="NOT_COORDINATOR") if isinstance(request, HeartbeatRequest) else None

    tapped.faults.advisor = advise
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert tapped.ask(beat, 3).error_code == ErrorCode.NOT_COORDINATOR
    tapped.ask(MetadataRequest(topics=[]), 9)
    tapped.fault(error="REBALANCE_IN_PROGRESS", times=1)
    assert tapped.ask(beat, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert heard == [("Heartbeat", 1), ("Metadata", 2)]
    tapped.faults.clear()
    tapped.faults.advisor = None
    assert not tapped.is_tapped()


def test_an_advisor_can_show_old_metadata(tapped: Tapped) -> None:
    def advise(context: RequestContext, *_: Any) -> Fault | None:
        return Fault(api="Metadata", stale_metadata=1) if context.version == 9 else None

    tapped.faults.advisor = advise
    assert [topic.name for topic in tapped.ask(MetadataRequest(topics=None), 9).topics] == ["t"]
    tapped.create("new")
    assert [topic.name for topic in tapped.ask(MetadataRequest(topics=None), 9).topics] == ["t"]
    assert len(tapped.ask(MetadataRequest(topics=None), 8).topics) == 2


def test_observers_see_what_was_applied_whatever_the_client_gets(tapped: Tapped) -> None:
    seen: list[tuple[int, str, Any]] = []

    def observe(entry: Any, request: Any, response: Any, call: Any) -> None:
        assert call.endpoint.api == entry.api
        offset = None if response is None else response.responses[0].partition_responses[0].base_offset
        seen.append((entry.number, bytes(request.topic_data[0].partition_data[0].records)[-2:-1].decode(), offset))

    tapped.faults.add_observer(observe)
    tapped.ask(produce_request(batch(b"a")), 9)
    for what in ({"disconnect": "after"}, {"disconnect": "before"}, {"error": "REQUEST_TIMED_OUT", "applied": True}):
        tapped.fault(api="Produce", times=1, **what)
    tapped.fault(api="Produce", late=1, times=1)
    for value in (b"b", b"c", b"d", b"e"):
        tapped.start_asking(produce_request(batch(value)), 9)
    tapped.start_asking(produce_request(batch(b"f"), acks=0), 9)
    assert seen == [(1, "a", 0), (2, "b", 1), (4, "d", 2), (6, "f", None), (5, "e", 4)]
    tapped.faults.clear()
    tapped.faults.remove_observer(observe)
    assert not tapped.is_tapped()


def test_a_delayed_response_is_observed_when_it_is_delivered(tapped: Tapped) -> None:
    seen: list[int] = []

    def observe(entry: Any, _request: Any, response: Any, _call: Any) -> None:
        if entry.api == "Fetch":
            seen.append(only_partition(response).high_watermark)

    tapped.faults.add_observer(observe)
    asking = tapped.start_asking(fetch_request(("t", 0, 0), max_wait_ms=500), 12)
    assert not seen
    tapped.produce(batch(b"a"))
    assert asking.is_answered()
    assert seen == [1]
