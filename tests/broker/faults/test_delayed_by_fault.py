"""Faults other than errors: responses are delayed, lost, damaged, throttled or out of date."""

import struct
from typing import Any

import pytest

from minibroker.server.faults.fault import Fault
from minibroker.server.faults.installed import combine
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.fetch import FetchResponse
from minibroker_protocol.messages.groups import HeartbeatRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.faults.tapped import Asking, Tapped
from tests.broker.harness import batch, fetch_request, only_partition, produce_request, response_of, values_in

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def end_of_log(tapped: Tapped) -> int:
    """Return the number of records in "t", with a request that no fault of these tests matches."""
    return only_partition(tapped.ask(fetch_request(("t", 0, 0), max_wait_ms=0), 12)).high_watermark


def frame(asking: Asking) -> bytes:
    (data,) = [event for event in asking.events if isinstance(event, bytes)]
    return data


def test_a_delayed_answer_comes_when_its_time_is_up_and_what_it_asks_is_done_at_once(tapped: Tapped) -> None:
    tapped.fault(api="Produce", delay_ms=500)
    asking = tapped.start_asking(produce_request(batch(b"a")), 9)
    assert end_of_log(tapped) == 1
    tapped.clock.advance(499)
    assert asking.events == []
    tapped.clock.advance(1)
    assert asking.response.responses[0].partition_responses[0].base_offset == 0
    assert asking.verbs == ["release"]


def test_delays_add_up_and_go_with_an_error(tapped: Tapped) -> None:
    delays = [tapped.fault(delay_ms=100), tapped.fault(error="NOT_COORDINATOR"), tapped.fault(delay_ms=50)]
    asking = tapped.start_asking(BEAT, 3)
    tapped.clock.advance(149)
    assert not asking.is_answered()
    tapped.clock.advance(1)
    assert asking.response.error_code == ErrorCode.NOT_COORDINATOR
    assert [fault.fired for fault in delays] == [1, 1, 1]


def test_jitter_is_a_random_delay_that_a_seed_repeats() -> None:
    delays = [
        [matched.delay_ms for _ in range(20) if (matched := combine([fault]))]
        for fault in (Fault(jitter_ms=50, delay_ms=100, seed=seed) for seed in (1, 1, 2))
    ]
    assert delays[0] == delays[1] != delays[2]
    assert all(100 <= delay <= 150 for delay in delays[0])
    assert len(set(delays[0])) == 20


@pytest.mark.parametrize(
    ("fields", "size", "pause_ms"),
    [
        ({"slice_bytes": 5}, 5, 1),
        ({"bytes_per_second": 100}, 5, 50),
        ({"bytes_per_second": 100, "slice_bytes": 2}, 2, 20),
        ({"bytes_per_second": 1}, 1, 1000),
    ],
)
def test_a_response_leaves_in_pieces(tapped: Tapped, fields: dict[str, Any], size: int, pause_ms: int) -> None:
    tapped.fault(**fields)
    asking = tapped.start_asking(BEAT, 3)
    sizes: list[int] = []
    while "release" not in asking.events:
        sizes.append(len(asking.events))
        tapped.clock.advance(pause_ms - 1)
        assert len(asking.events) == sizes[-1]
        tapped.clock.advance(1)
    pieces = [event for event in asking.events if isinstance(event, bytes)]
    assert sizes == [*range(1, len(pieces) + 1)]
    assert [len(piece) for piece in pieces[:-1]] == [size] * (len(pieces) - 1)
    code = response_of(BEAT, 3, b"".join(pieces)).error_code
    assert code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_delayed_fetch_is_late_after_its_wait(tapped: Tapped) -> None:
    tapped.fault(api="Fetch", delay_ms=100)
    asking = tapped.start_asking(fetch_request(("t", 0, 0), max_wait_ms=400), 12)
    tapped.clock.advance(200)
    tapped.produce(batch(b"a"))
    tapped.clock.advance(99)
    assert not asking.is_answered()
    tapped.clock.advance(1)
    assert values_in(only_partition(asking.response).records) == [(0, b"a")]


def test_records_that_were_found_are_sent_after_a_delay_though_their_topic_has_gone(tapped: Tapped) -> None:
    tapped.produce(batch(b"a"))
    tapped.fault(api="Fetch", delay_ms=100)
    asking = tapped.start_asking(fetch_request(("t", 0, 0)), 12)
    tapped.core.topics.delete(tapped.topic())
    tapped.clock.advance(100)
    assert values_in(only_partition(asking.response).records) == [(0, b"a")]


def test_nothing_happens_for_a_client_that_has_gone_meanwhile(tapped: Tapped) -> None:
    tapped.fault(delay_ms=100)
    late = tapped.start_asking(BEAT, 3)
    delayed = tapped.start_asking(fetch_request(("t", 0, 0), max_wait_ms=50), 12)
    for asking in (late, delayed):
        assert asking.waiting is not None
        asking.waiting.delayed.cancel()
    tapped.clock.advance(1000)
    assert late.events == delayed.events == []


@pytest.mark.parametrize(("when", "appended"), [("before", 0), ("after", 1)])
def test_a_dropped_request_is_never_answered(tapped: Tapped, when: Any, appended: int) -> None:
    fault = tapped.fault(api="Produce", drop=when, times=1)
    asking = tapped.start_asking(produce_request(batch(b"a")), 9)
    tapped.clock.advance(10_000_000)
    assert asking.waiting is not None
    assert asking.events == []
    assert (fault.fired, end_of_log(tapped)) == (1, appended)


@pytest.mark.parametrize(("when", "appended"), [("before", 0), ("after", 1)])
def test_a_connection_is_closed_instead_of_an_answer(tapped: Tapped, when: Any, appended: int) -> None:
    tapped.fault(api="Produce", disconnect=when)
    assert tapped.start_asking(produce_request(batch(b"a")), 9).events == ["end"]
    assert end_of_log(tapped) == appended


def test_a_connection_is_closed_after_a_delay(tapped: Tapped) -> None:
    tapped.fault(api="Heartbeat", disconnect="before", delay_ms=30)
    asking = tapped.start_asking(BEAT, 3)
    assert asking.events == []
    tapped.clock.advance(30)
    assert asking.events == ["end"]


def test_a_black_hole_swallows_its_connection(tapped: Tapped) -> None:
    tapped.fault(api="Produce", black_hole=True)
    assert tapped.start_asking(produce_request(batch(b"a")), 9).events == ["swallow"]
    assert end_of_log(tapped) == 0


@pytest.mark.parametrize("size", [0, 3, 8, 10_000])
def test_an_answer_is_cut_and_the_connection_closed(tapped: Tapped, size: int) -> None:
    whole = tapped.start_asking(BEAT, 3).response
    fault = tapped.fault(api="Heartbeat", truncate=size)
    asking = tapped.start_asking(BEAT, 3)
    assert len(frame(asking)) == min(size, 4 + 4 + 4 + 2)
    assert asking.verbs == ["end"]
    assert fault.hits[0].bytes_out == len(frame(asking))
    assert fault.hits[0].response == whole


def test_the_checksum_of_the_first_batch_is_wrong_in_the_partition_of_the_fault(tapped: Tapped) -> None:
    tapped.create("u")
    for topic in ("t", "u"):
        tapped.produce(batch(b"a"), topic)
    fault = tapped.fault(api="Fetch", topic="t", corrupt="records")
    response = tapped.start_asking(fetch_request(("t", 0, 0), ("u", 0, 0)), 12).response
    assert isinstance(response, FetchResponse)
    records = {topic.topic: topic.partitions[0].records for topic in response.responses}
    assert values_in(records["u"]) == [(0, b"a")]
    with pytest.raises(Exception, match=r"(?i)crc|checksum"):
        values_in(records["t"])
    assert fault.fired == 1


def test_a_fetch_without_records_does_not_count_as_corrupted(tapped: Tapped) -> None:
    fault = tapped.fault(api="Fetch", corrupt="records", times=1)
    tapped.start_asking(fetch_request(("t", 0, 0), max_wait_ms=0), 12)
    assert (fault.fired, len(fault.hits)) == (0, 0)
    tapped.produce(batch(b"a"))
    tapped.start_asking(fetch_request(("t", 0, 0), max_wait_ms=0), 12)
    assert fault.fired == 1


def test_messages_of_old_formats_get_a_wrong_checksum_too(tapped: Tapped) -> None:
    tapped.produce(batch(b"a"))
    tapped.fault(api="Fetch", corrupt="records")
    asking = tapped.start_asking(fetch_request(("t", 0, 0), max_wait_ms=0), 1)
    with pytest.raises(Exception, match=r"(?i)crc|checksum"):
        values_in(only_partition(asking.response).records)


@pytest.mark.parametrize(
    ("corruption", "begins"),
    [
        ("length", struct.pack(">ii", -1, 1)),
        ("correlation_id", struct.pack(">ii", 10, ~1)),
        ("body", struct.pack(">iii", 10, 1, -1)),
    ],
)
def test_an_answer_comes_with_wrong_bytes(tapped: Tapped, corruption: Any, begins: bytes) -> None:
    tapped.fault(api="Heartbeat", corrupt=corruption)
    asking = tapped.start_asking(BEAT, 3)
    assert frame(asking)[: len(begins)] == begins
    assert asking.verbs == ["release"]


def test_a_throttled_client_is_told_and_not_served_meanwhile(tapped: Tapped) -> None:
    tapped.fault(api="Heartbeat", throttle_ms=200)
    asking = tapped.start_asking(BEAT, 3)
    assert asking.response.throttle_time_ms == 200
    assert asking.verbs == []
    tapped.clock.advance(200)
    assert asking.verbs == ["release"]


def test_requests_without_acks_are_lost_or_late_and_hold_nobody_up(tapped: Tapped) -> None:
    request = produce_request(batch(b"a"), acks=0)
    lost = tapped.fault(api="Produce", drop="before", times=1)
    assert tapped.start_asking(request, 9).events == ["release"]
    assert (lost.fired, end_of_log(tapped)) == (1, 0)
    cut = tapped.fault(api="Produce", truncate=3, times=1)
    assert tapped.start_asking(request, 9).events == ["release"]
    assert (cut.fired, end_of_log(tapped)) == (0, 1)
    tapped.faults.clear()
    tapped.fault(api="Produce", delay_ms=10)
    late = tapped.start_asking(request, 9)
    assert (late.events, end_of_log(tapped)) == ([], 2)
    tapped.clock.advance(10)
    assert late.events == ["release"]


def partition_counts(tapped: Tapped, *names: str, version: int = 12) -> dict[str, int]:
    topics = [MetadataRequestTopic(name=name) for name in names] if names else None
    response = tapped.ask(MetadataRequest(topics=topics), version)
    assert [broker.host for broker in response.brokers] == ["broker.test"]
    return {topic.name: -topic.error_code or len(topic.partitions) for topic in response.topics}


def test_stale_metadata_is_what_it_was_so_many_changes_ago(tapped: Tapped) -> None:
    fault = tapped.fault(api="Metadata", stale_metadata=2)
    assert partition_counts(tapped) == {"t": 1}
    for number, name in enumerate(("a", "b", "c")):
        tapped.create(name)
        assert len(partition_counts(tapped)) == max(1, number)
    unknown = -ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partition_counts(tapped, "a", "c", version=4) == {"a": 1, "c": unknown}
    tapped.faults.remove(fault)
    assert partition_counts(tapped) == {"t": 1, "a": 1, "b": 1, "c": 1}


def test_stale_metadata_creates_no_topics(tapped: Tapped) -> None:
    tapped.fault(api="Metadata", stale_metadata=1)
    assert partition_counts(tapped, "new") == {"new": -ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert tapped.core.topics.get("new") is None
