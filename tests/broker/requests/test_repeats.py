"""The short way: what takes it, and what does not. `test_both_ways.py` holds it against the long way."""

import struct
from typing import Any

import pytest

from minibroker.faults.observer import drop_journal, keep_journal
from minibroker.requests.dispatch import accept
from minibroker.requests.repeats import UNKNOWN, Repeats, Template
from minibroker.requests.request_path import compose
from minibroker.routing.outcomes import Answer, Filled, Waiting
from minibroker.routing.routes import UnservedRequestError
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minibroker_protocol.messages.describe_cluster import DescribeClusterRequest
from minibroker_protocol.messages.fetch import FetchRequest, FetchResponse
from minibroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from minibroker_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minibroker_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.faults.tapped import Channel
from tests.broker.harness import (
    Harness,
    Pending,
    batch,
    bytes_of,
    fetch_request,
    frame_of,
    only_partition,
    produce_request,
    response_of,
    values_in,
)
from tests.broker.quotas.asking import set_quota


def view(frame: bytes) -> memoryview:
    return memoryview(bytearray(frame))


def outcome(harness: Harness, frame: bytes, repeats: Repeats | None) -> bytes | str | None:
    """The bytes of the answer, or how the request was refused."""
    try:
        answer = accept(view(frame), harness.session(repeats=repeats))
    except (DecodeError, UnservedRequestError) as error:
        return type(error).__name__
    assert not isinstance(answer, Waiting)
    harness.core.writes.commit()
    return None if answer is None else bytes_of(answer)


def learn(harness: Harness, frame: bytes, repeats: Repeats) -> None:
    """Send a request for the first and the second time; nothing is remembered before."""
    for _ in range(2):
        assert not is_known(repeats, frame)
        outcome(harness, frame, repeats)


def is_known(repeats: Repeats, frame: bytes) -> bool:
    """Does the frame take the short way? It is served then."""
    return repeats.take(view(frame)) is not UNKNOWN


@pytest.mark.parametrize("version", range(13))
def test_a_request_that_differs_in_its_records_and_its_number_takes_the_short_way(
    harness: Harness, version: int
) -> None:
    repeats = Repeats()
    sizes = (1, 5, 40, 100, 5000, 1)
    for number, size in enumerate(sizes):
        frame = view(frame_of(produce_request(batch(b"x" * size)), version, number))
        taken = repeats.take(frame)
        assert (taken is not UNKNOWN) is (number > 1)
        answer = accept(frame, harness.session(repeats=repeats)) if taken is UNKNOWN else taken
        harness.core.writes.commit()
        assert isinstance(answer, Answer if number < 2 else Filled)
        assert struct.unpack_from(">i", bytes_of(answer), 4) == (number,)
    assert [value for _, value in values_in(harness.fetch_one().records)] == [b"x" * size for size in sizes]


def test_requests_for_each_of_many_partitions_take_the_short_way(harness: Harness) -> None:
    harness.create("many", 5)
    repeats = Repeats()
    frames = [frame_of(produce_request(batch(b"a"), "many", index), 9) for index in range(5)]
    for frame in (frames[0], *frames):
        assert not is_known(repeats, frame)
        outcome(harness, frame, repeats)
    assert all(is_known(repeats, frame) for frame in frames)
    harness.core.writes.commit()
    assert [len(values_in(harness.fetch_one(0, "many", index).records)) for index in range(5)] == [3, 2, 2, 2, 2]


@pytest.mark.parametrize(
    "other",
    [
        (produce_request(batch(b"a"), "u"), 9, "test"),
        (produce_request(batch(b"a"), "t", 1), 9, "test"),
        (produce_request(batch(b"a"), acks=1), 9, "test"),
        (produce_request(batch(b"a")), 8, "test"),
        (produce_request(batch(b"a")), 9, "tesT"),
        (produce_request(None), 9, "test"),
        (produce_request(b""), 9, "test"),
        (MetadataRequest(topics=[]), 9, "test"),
    ],
)
def test_a_request_that_differs_in_anything_else_takes_the_long_way(
    harness: Harness, other: tuple[Any, int, str]
) -> None:
    repeats = Repeats()
    learn(harness, frame_of(produce_request(batch(b"a")), 9), repeats)
    request, version, client_id = other
    assert not is_known(repeats, frame_of(request, version, client_id=client_id))


def test_requests_of_another_client_id_are_served_as_its_own(harness: Harness) -> None:
    repeats = Repeats()
    metadata = frame_of(MetadataRequest(topics=[]), 9)
    learn(harness, metadata, repeats)
    assert is_known(repeats, metadata)
    other = frame_of(MetadataRequest(topics=[]), 9, client_id="other")
    outcome(harness, other, repeats)
    assert is_known(repeats, other)
    assert not is_known(repeats, metadata)


def test_a_request_for_several_partitions_takes_the_long_way(harness: Harness) -> None:
    repeats = Repeats()
    data = [PartitionProduceData(index=0, records=batch(b"a")), PartitionProduceData(index=1, records=batch(b"b"))]
    topics = [TopicProduceData(name="t", partition_data=data)]
    frame = frame_of(ProduceRequest(acks=1, timeout_ms=0, topic_data=topics), 9)
    learn(harness, frame, repeats)
    assert not is_known(repeats, frame)


@pytest.mark.parametrize("version", [0, 3, 8, 9])
def test_a_request_that_is_cut_takes_the_long_way(harness: Harness, version: int) -> None:
    repeats = Repeats()
    frame = frame_of(produce_request(batch(b"a")), version)
    learn(harness, frame, repeats)
    assert is_known(repeats, frame)
    assert not any(is_known(repeats, frame[:cut]) for cut in range(len(frame)))
    assert not is_known(repeats, frame + b"\0")


def test_no_buffer_is_held_after_a_request(harness: Harness) -> None:
    repeats = Repeats()
    for number in range(4):
        frame = bytearray(frame_of(produce_request(batch(b"a")), 9))
        held = memoryview(frame)
        taken = accept(held, harness.session(repeats=repeats))
        assert isinstance(taken, Filled) is (number > 1)
        harness.core.writes.commit()
        held.release()
        frame.clear()  # BufferError while anything still looks at it


SAME = [
    (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
    (ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1), 1),
    (DescribeClusterRequest(include_cluster_authorized_operations=False), 1),
    (FindCoordinatorRequest(key="g"), 2),
    (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
    (MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12),
]


@pytest.mark.parametrize(("request_", "version"), SAME, ids=lambda value: type(value).__name__)
def test_a_request_that_comes_again_byte_for_byte_is_answered_with_the_same_bytes(
    harness: Harness, request_: Any, version: int
) -> None:
    harness.send(FindCoordinatorRequest(key="g"), 2)  # makes the coordinator's topic
    repeats = Repeats()
    expected = outcome(harness, frame_of(request_, version), None)
    assert isinstance(expected, bytes)
    ways: list[bool] = []
    for number in range(5):
        taken = repeats.take(view(frame_of(request_, version, number)))
        ways.append(isinstance(taken, Filled))
        if taken is UNKNOWN:
            taken = accept(view(frame_of(request_, version, number)), harness.session(repeats=repeats))
        assert isinstance(taken, Answer | Filled)
        data = bytes_of(taken)
        assert data == expected[:4] + struct.pack(">i", number) + expected[8:]
    assert ways == [False, False, True, True, True]


def test_an_answer_that_has_changed_is_told(harness: Harness) -> None:
    repeats = Repeats()
    request = MetadataRequest(topics=None)
    partitions: list[int] = []
    for number in range(8):
        if number == 4:
            harness.create("u", 3)
        data = outcome(harness, frame_of(request, 12), repeats)
        assert isinstance(data, bytes)
        partitions.append(sum(len(topic.partitions) for topic in response_of(request, 12, data).topics))
    assert partitions == [1] * 4 + [4] * 4


def fetches(repeats: Repeats, harness: Harness, request: FetchRequest, version: int) -> tuple[bool, FetchResponse]:
    """Whether a fetch takes the short way, and its response."""
    frame = frame_of(request, version, 9)
    taken = repeats.take(view(frame))
    answer = accept(view(frame), harness.session(repeats=repeats)) if taken is UNKNOWN else taken
    assert isinstance(answer, Answer | Filled)
    response = response_of(request, version, bytes_of(answer), 9)
    assert isinstance(response, FetchResponse)
    return taken is not UNKNOWN, response


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_a_fetch_that_differs_in_its_offset_takes_the_short_way(harness: Harness, version: int) -> None:
    for number in range(6):
        harness.produce(batch(b"%d" % number))
    repeats, ways = Repeats(), []
    for offset in (0, 1, 2, 5, 3, 6):
        request = fetch_request(("t", 0, offset), max_wait_ms=0, session_epoch=-1)
        is_short, response = fetches(repeats, harness, request, version)
        ways.append(is_short)
        found = values_in(only_partition(response).records)
        assert found == [(number, b"%d" % number) for number in range(offset, 6)]
    assert ways == [False, False, True, True, True, True]


def test_a_fetch_that_waits_takes_the_short_way_when_it_comes_again(harness: Harness) -> None:
    repeats = Repeats()
    taken: list[bool] = []
    for number in range(4):
        request = fetch_request(("t", 0, number), max_wait_ms=500, min_bytes=1)
        frame = view(frame_of(request, 11))
        session = harness.session(repeats=repeats)
        waiting = repeats.take(frame)
        taken.append(waiting is not UNKNOWN)
        if waiting is UNKNOWN:
            waiting = accept(frame, session)
        assert isinstance(waiting, Waiting)
        pending = Pending(request, 11, waiting)
        harness.produce(batch(b"%d" % number))
        harness.run_soon()
        assert values_in(only_partition(pending.response).records) == [(number, b"%d" % number)]
    assert taken == [False, False, True, True]


def test_a_fetch_of_a_session_that_is_refused_changes_nothing_of_it(harness: Harness) -> None:
    for number in range(4):
        harness.produce(batch(b"%d" % number))
    repeats = Repeats()

    def fetch(offset: int | None, epoch: int, session_id: int = 0) -> tuple[bool, FetchResponse]:
        partitions = () if offset is None else (("t", 0, offset),)
        request = fetch_request(*partitions, max_wait_ms=0, session_id=session_id, session_epoch=epoch)
        return fetches(repeats, harness, request, 12)

    known = fetch(0, 0)[1].session_id
    ways = [fetch(offset, epoch, known)[0] for epoch, offset in enumerate((1, 2, 1, 2), 1)]
    assert ways == [False, True, True, True]
    is_short, refused = fetch(3, 99, known)
    assert (is_short, refused.error_code) == (True, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    _, response = fetch(None, 5, known)
    assert [offset for offset, _ in values_in(only_partition(response).records)] == [2, 3]


def test_a_commit_that_differs_in_its_offset_takes_the_short_way(harness: Harness) -> None:
    harness.send(FindCoordinatorRequest(key="g"), 2)
    repeats = Repeats()
    ways: list[bool] = []
    for offset in range(5):
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
        topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
        frame = frame_of(OffsetCommitRequest(group_id="g", topics=topics), 8)
        taken = repeats.take(view(frame))
        ways.append(taken is not UNKNOWN)
        assert taken is not UNKNOWN or outcome(harness, frame, repeats) is not None
        harness.core.writes.commit()
        found = harness.ask(
            OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]), 5
        )
        assert found.topics[0].partitions[0].committed_offset == offset
    assert ways == [False, False, True, True, True]


def test_the_journal_sees_repeated_requests_and_quotas_see_every_request(harness: Harness) -> None:
    channel, session = Channel(), harness.session(repeats=Repeats())
    frame = frame_of(produce_request(batch(b"a")), 9)

    def ways() -> list[bool]:
        taken: list[bool] = []
        for _ in range(3):
            taken.append(isinstance(compose(harness.services, None, channel)(view(frame), session), Filled))
            harness.core.writes.commit()
        return taken

    assert ways() == [False, False, True]
    journal = keep_journal(harness.services)
    assert ways() == [True] * 3
    assert len(journal) == 3
    drop_journal(harness.services)
    assert ways() == [True] * 3
    set_quota(harness, {"client-id": "test"}, producer_byte_rate=1e9)
    assert ways() == [False] * 3
    set_quota(harness, {"client-id": "test"}, producer_byte_rate=None)
    assert ways() == [True] * 3


def test_a_template_needs_its_numbers_one_behind_the_other_and_once() -> None:
    response = HeartbeatResponse(error_code=ErrorCode.NONE)
    assert Template.of(response, 4, flexible_header=True, marks=(1 << 40,)) is None
    template = Template.of(response, 4, flexible_header=True)
    assert template is not None
    data = template.pack(template.size, 7, template.head, template.tail)
    assert data == bytes_of(Answer(response, 4, 7, flexible_header=True))
