"""Records that have to be looked at one by one are validated in slices, while other requests are served."""

from typing import Any

import pytest

from minibroker.cluster.routing.outcomes import Waiting
from minibroker.server.requests.dispatch import accept
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.broker.harness import Harness, Pending, frame_of, produce_request

MANY = 1500
"""More records than are looked at within one step."""


def records(count: int, key: bytes | None = b"k") -> list[NewRecord]:
    return [NewRecord(key, b"%d" % number, 1_700_000_000_000) for number in range(count)]


def keyed(count: int) -> bytearray:
    return build_batch(records(count), codec=CompressionCodec.GZIP)


@pytest.fixture
def compacted(harness: Harness) -> Harness:
    """A broker with the compacted topic "c", and slices of one step."""
    harness.create("c", cleanup_policy="compact")
    harness.core.slices.slice_s = 0.0
    return harness


def begun(harness: Harness, request: Any, version: int = 9) -> Pending:
    """A request that is not through when its wake-up ends."""
    outcome = harness.accept(request, version)
    assert isinstance(outcome, Waiting)
    harness.core.writes.commit()
    return Pending(request, version, outcome)


def outcomes(pending: Pending) -> list[tuple[int, int]]:
    """(error, first offset) of each partition."""
    answered = [each for topic in pending.response.responses for each in topic.partition_responses]
    return [(each.error_code, each.base_offset) for each in answered]


def test_a_batch_that_comes_while_a_long_one_is_looked_at_is_before_it(compacted: Harness) -> None:
    long = begun(compacted, produce_request(keyed(MANY), "c"))
    assert compacted.accept(produce_request(keyed(2), "c"), 9) is not None
    assert not long.is_answered
    compacted.run_soon()
    assert outcomes(long) == [(0, 2)]
    assert compacted.core.topics.get("c").partitions[0].log.log_end_offset == MANY + 2  # type: ignore[union-attr]  # it is there


def test_a_bad_record_far_behind_refuses_the_batch(compacted: Harness) -> None:
    bad = build_batch([*records(MANY), *records(1, key=None)])
    long = begun(compacted, produce_request(bad, "c"))
    compacted.run_soon()
    assert outcomes(long) == [(ErrorCode.INVALID_RECORD, -1)]
    (error,) = long.response.responses[0].partition_responses[0].record_errors
    assert error.batch_index == MANY


def test_a_topic_that_is_deleted_meanwhile_takes_nothing(compacted: Harness) -> None:
    long = begun(compacted, produce_request(keyed(MANY), "c"))
    compacted.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="c")], timeout_ms=1000), 6)
    compacted.run_soon()
    assert outcomes(long) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


def test_the_records_stay_when_the_receive_buffer_is_used_again(compacted: Harness) -> None:
    session = compacted.session()
    pending: list[Pending] = []
    for _ in range(2):  # the second time the request is a repeated one
        frame = bytearray(frame_of(produce_request(build_batch(records(MANY)), "c"), 9))
        outcome = accept(memoryview(frame), session)
        assert isinstance(outcome, Waiting)
        pending.append(Pending(produce_request(None, "c"), 9, outcome))
        frame[:] = bytes(len(frame))
    compacted.run_soon()
    assert [outcomes(each) for each in pending] == [[(0, 0)], [(0, MANY)]]


def test_one_long_batch_among_few_makes_slices_of_the_request(compacted: Harness) -> None:
    data = [PartitionProduceData(index=0, records=each) for each in (keyed(1), keyed(MANY))]
    topics = [TopicProduceData(name=name, partition_data=[each]) for name, each in zip("tc", data, strict=True)]
    long = begun(compacted, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics))
    compacted.run_soon()
    assert outcomes(long) == [(0, 0), (0, 0)]


@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.GZIP])
def test_long_message_sets_of_old_clients_are_looked_at_in_slices(compacted: Harness, codec: CompressionCodec) -> None:
    sets = [build_message_set(records(MANY), magic=1, codec=codec), build_message_set(records(3), magic=1)]
    long = begun(compacted, produce_request(sets[0]), 2)
    assert compacted.produce(sets[1], version=2).base_offset == 0
    compacted.run_soon()
    assert outcomes(long) == [(0, 3)]
    fetched = compacted.fetch_one(3)
    assert fetched.records


def test_one_record_that_unpacks_to_many_bytes_is_compressed_again_in_slices(harness: Harness) -> None:
    harness.create("z", compression_type="zstd")
    harness.core.slices.slice_s = 0.0
    large = build_batch([NewRecord(None, bytes(16 << 20), 1_700_000_000_000)], codec=CompressionCodec.GZIP)
    assert len(large) < 20_000
    long = begun(harness, produce_request(large, "z"))
    assert harness.accept(produce_request(build_batch(records(1)), "z"), 9) is not None
    harness.run_soon()
    assert outcomes(long) == [(0, 1)]
