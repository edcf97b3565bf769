"""The memo of repeated produce requests: with it and without it the same things happen."""

import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minibroker.requests.call import Call
from minibroker.requests.dispatch import accept
from minibroker.requests.produce_memo import ProduceMemo
from minibroker.routing.delayed import UnservedRequestError
from minibroker.routing.outcomes import Answer
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.harness import Harness, batch, bytes_of, frame_of, produce_request, values_in

TOPICS = ("t", "u", "missing")


def outcome(harness: Harness, frame: bytes, memo: ProduceMemo[Call] | None) -> bytes | str | None:
    """The bytes of the answer, or how the request was refused."""
    try:
        answer = accept(memoryview(bytearray(frame)), harness.session(memo=memo))
    except (DecodeError, UnservedRequestError) as error:
        return type(error).__name__
    assert answer is None or isinstance(answer, Answer)
    harness.core.writes.commit()
    return None if answer is None else bytes_of(answer)


def recalled(memo: ProduceMemo[Call], frame: bytes) -> bool:
    found = memo.recall(memoryview(bytearray(frame)))
    memo.forget_records()
    return found


@pytest.mark.parametrize("version", range(10))
def test_a_request_that_differs_in_its_records_and_its_number_is_recalled(harness: Harness, version: int) -> None:
    memo: ProduceMemo[Call] = ProduceMemo()
    sizes = (1, 5, 40, 100, 5000, 1)
    for number, size in enumerate(sizes):
        frame = frame_of(produce_request(batch(b"x" * size)), version, number)
        assert recalled(memo, frame) is (number > 0)
        answer = outcome(harness, frame, memo)
        assert isinstance(answer, bytes)
        assert struct.unpack_from(">i", answer, 4) == (number,)
    assert [value for _, value in values_in(harness.fetch_one().records)] == [b"x" * size for size in sizes]


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
def test_a_request_that_differs_in_anything_else_is_not_recalled(harness: Harness, other: tuple[Any, int, str]) -> None:
    memo: ProduceMemo[Call] = ProduceMemo()
    outcome(harness, frame_of(produce_request(batch(b"a")), 9), memo)
    request, version, client_id = other
    assert not recalled(memo, frame_of(request, version, client_id=client_id))


def test_a_request_for_several_partitions_is_not_remembered(harness: Harness) -> None:
    memo: ProduceMemo[Call] = ProduceMemo()
    data = [PartitionProduceData(index=0, records=batch(b"a")), PartitionProduceData(index=1, records=batch(b"b"))]
    topics = [TopicProduceData(name="t", partition_data=data)]
    frame = frame_of(ProduceRequest(acks=1, timeout_ms=0, topic_data=topics), 9)
    outcome(harness, frame, memo)
    assert not recalled(memo, frame)


@pytest.mark.parametrize("version", [0, 3, 8, 9])
def test_a_request_that_is_cut_is_not_recalled(harness: Harness, version: int) -> None:
    memo: ProduceMemo[Call] = ProduceMemo()
    frame = frame_of(produce_request(batch(b"a")), version)
    outcome(harness, frame, memo)
    assert recalled(memo, frame)
    assert not any(recalled(memo, frame[:cut]) for cut in range(len(frame)))
    assert not recalled(memo, frame + b"\0")


def test_no_buffer_is_held_after_a_request(harness: Harness) -> None:
    memo: ProduceMemo[Call] = ProduceMemo()
    for _ in range(2):
        frame = bytearray(frame_of(produce_request(batch(b"a")), 9))
        view = memoryview(frame)
        accept(view, harness.session(memo=memo))
        harness.core.writes.commit()
        view.release()
        frame.clear()  # BufferError while anything still looks at it


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A produce frame, mostly of few kinds, sometimes with a fault."""
    version = draw(st.sampled_from([2, 3, 8, 9]))
    request = produce_request(
        draw(st.sampled_from([None, b"", *(bytes(batch(b"x" * size)) for size in (0, 3, 70, 200))])),
        draw(st.sampled_from(TOPICS)),
        draw(st.integers(0, 1)),
        acks=draw(st.sampled_from([1, 1, -1, 0])),
    )
    frame = bytearray(frame_of(request, version, draw(st.integers(0, 3))))
    match draw(st.sampled_from(["whole"] * 6 + ["cut", "longer", "flipped"])):
        case "cut":
            return bytes(frame[: draw(st.integers(0, len(frame)))])
        case "longer":
            return bytes(frame) + draw(st.binary(min_size=1, max_size=4))
        case "flipped":
            frame[draw(st.integers(8, len(frame) - 1))] ^= draw(st.integers(1, 255))
    return bytes(frame)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kinds=st.lists(frames(), min_size=1, max_size=3), order=st.lists(st.integers(0, 2), max_size=12))
def test_with_and_without_a_memo_the_same_things_happen(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[bytes], order: list[int]
) -> None:
    brokers: list[Harness] = []
    for _ in range(2):
        harness = Harness(str(tmp_path_factory.mktemp("memo")))
        harness.create("t", 2)
        harness.create("u", 2)
        brokers.append(harness)
    memo: ProduceMemo[Call] = ProduceMemo()
    with_memo, without = brokers
    for number in order:
        frame = kinds[number % len(kinds)]
        assert outcome(with_memo, frame, memo) == outcome(without, frame, None)
    for topic in ("t", "u"):
        for partition in (0, 1):
            found = [values_in(harness.fetch_one(0, topic, partition).records) for harness in brokers]
            assert found[0] == found[1]
    for harness in brokers:
        harness.services.close()
