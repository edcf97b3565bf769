"""The appends of one wake-up, which are written together or fail together."""

import os
from collections.abc import Callable, Sequence

import pytest

from minibroker.cluster.routing.outcomes import Answer, Outcome
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.produce import PartitionProduceResponse
from tests.broker.harness import (
    Harness,
    Pending,
    batch,
    bytes_of,
    fetch_request,
    produce_request,
    response_of,
    values_in,
)

Refuse = Callable[[], None]


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Return a function that makes all further writes to logs fail."""

    def refuse() -> None:
        def no_space(*args: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "pwrite", no_space)
        monkeypatch.setattr(os, "pwritev", no_space)

    return refuse


def wake_up(harness: Harness, records: Sequence[bytearray], topic: str = "t") -> list[PartitionProduceResponse]:
    """Send Produce requests that arrive together, from several connections or pipelined."""
    answers = [harness.accept(produce_request(record, topic), 9) for record in records]
    harness.core.writes.commit()
    harness.run_soon()
    return list(map(outcome_of, answers))


def outcome_of(answer: Outcome) -> PartitionProduceResponse:
    """Return the result for the only partition, as decoded by the client."""
    assert isinstance(answer, Answer)
    response = response_of(produce_request(None), 9, bytes_of(answer))
    outcome: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return outcome


def idempotent(sequence: int) -> bytearray:
    return batch(b"v", producer_id=7, producer_epoch=0, base_sequence=sequence)


def test_batches_that_arrive_together_are_written_together(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    pwrite, pwritev = os.pwrite, os.pwritev

    def counted(fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        writes.append(len(buffers))
        return pwritev(fd, buffers, offset)

    def counted_one(fd: int, data: memoryview, offset: int) -> int:
        writes.append(1)
        return pwrite(fd, data, offset)

    harness.produce(batch(b"first"))  # This opens the log.
    monkeypatch.setattr(os, "pwritev", counted)
    monkeypatch.setattr(os, "pwrite", counted_one)
    answers = wake_up(harness, [batch(b"a"), batch(b"b"), batch(b"c")])
    assert [answer.base_offset for answer in answers] == [1, 2, 3]
    assert writes == [3]


def test_a_full_disk_refuses_every_answer_of_the_wake_up(
    harness: Harness, full_disk: Refuse, caplog: pytest.LogCaptureFixture
) -> None:
    harness.produce(batch(b"kept"))
    full_disk()
    answers = wake_up(harness, [batch(b"a"), batch(b"b"), batch(b"c")])
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)] * 3
    assert all("No space left" in (answer.error_message or "") for answer in answers)
    assert "No space left" in caplog.text


def test_the_log_is_readable_after_a_full_disk_and_writable_when_there_is_room_again(
    harness: Harness, full_disk: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.produce(batch(b"kept"))
    full_disk()
    wake_up(harness, [batch(b"lost")])
    assert values_in(harness.fetch_one().records) == [(0, b"kept")]
    monkeypatch.undo()
    assert harness.produce(batch(b"next")).base_offset == 1
    assert values_in(harness.fetch_one().records) == [(0, b"kept"), (1, b"next")]
    harness.restart()
    assert values_in(harness.fetch_one().records) == [(0, b"kept"), (1, b"next")]


def test_a_write_that_stops_half_way_leaves_nothing_behind(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.produce(batch(b"kept"))
    pwrite = os.pwrite

    def half(fd: int, data: memoryview, offset: int) -> int:
        if len(data) < 40:
            raise OSError(28, "No space left on device")
        return pwrite(fd, data[: len(data) // 2], offset)

    monkeypatch.setattr(os, "pwrite", half)
    (answer,) = wake_up(harness, [batch(b"a")])
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert os.path.getsize(f"{harness.data_dir}/t-0/00000000000000000000.log") == len(batch(b"kept"))
    assert harness.produce(batch(b"b")).base_offset == 1


def test_one_log_that_cannot_be_written_does_not_spoil_another(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("other")
    harness.produce(batch(b"x"), "other")
    harness.produce(batch(b"y"))
    refused = harness.topic("other").partitions[0].log.segments[-1].log.fd()
    pwrite = os.pwrite

    def refuse_one(fd: int, data: memoryview, offset: int) -> int:
        if fd == refused:
            raise OSError(5, "Input/output error")
        return pwrite(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", refuse_one)
    good = harness.accept(produce_request(batch(b"a")), 9)
    bad = harness.accept(produce_request(batch(b"a"), "other"), 9)
    harness.core.writes.commit()
    assert [outcome_of(answer).error_code for answer in (good, bad)] == [0, ErrorCode.KAFKA_STORAGE_ERROR]


def test_an_idempotent_producer_can_send_again_what_the_disk_refused(
    harness: Harness, full_disk: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wake_up(harness, [idempotent(0)])[0].error_code == 0
    full_disk()
    assert wake_up(harness, [idempotent(1)])[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert [(answer.error_code, answer.base_offset) for answer in wake_up(harness, [idempotent(1)])] == [(0, 1)]


def test_a_repeated_batch_fails_with_the_batch_that_it_repeats(harness: Harness, full_disk: Refuse) -> None:
    wake_up(harness, [idempotent(0)])
    full_disk()
    answers = wake_up(harness, [idempotent(1), idempotent(1), idempotent(0)])
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        (ErrorCode.KAFKA_STORAGE_ERROR, -1),
        (ErrorCode.KAFKA_STORAGE_ERROR, -1),
        (0, 0),  # This batch was written earlier.
    ]


def test_a_waiting_fetch_sees_nothing_of_what_was_refused(harness: Harness, full_disk: Refuse) -> None:
    pending = harness.send(fetch_request(("t", 0, 0), max_wait_ms=500), 12)
    assert isinstance(pending, Pending)
    full_disk()
    wake_up(harness, [batch(b"a")])
    harness.clock.advance(500)
    data = pending.response.responses[0].partitions[0]
    assert (data.error_code, data.high_watermark, values_in(data.records)) == (0, 0, [])


def test_acks_of_0_learn_of_a_full_disk_by_the_end_of_the_connection(harness: Harness, full_disk: Refuse) -> None:
    harness.produce(batch(b"kept"))
    full_disk()
    with pytest.raises(UnservedRequestError, match="No space left"):
        harness.send(produce_request(batch(b"a"), acks=0), 9)


def test_batches_before_a_roll_are_kept_when_the_disk_fills_after_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("small", 1, segment_bytes="400")
    records = [batch(b"x" * 100) for _ in range(4)]  # Two of them fit into a segment.
    harness.produce(batch(b"x" * 100), "small")
    pwrite = os.pwrite
    room = [1]

    def take_one(fd: int, data: memoryview, offset: int) -> int:
        if len(data) > 100:  # Index entries are smaller.
            if not room:
                raise OSError(28, "No space left on device")
            room.pop()
        return pwrite(fd, data, offset)

    def take_none(fd: int, data: Sequence[memoryview], offset: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", take_one)
    monkeypatch.setattr(os, "pwritev", take_none)
    answers = wake_up(harness, records, "small")
    monkeypatch.undo()
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        (0, 1),
        *[(ErrorCode.KAFKA_STORAGE_ERROR, -1)] * 3,
    ]
    assert [offset for offset, _ in values_in(harness.fetch_one(0, "small").records)] == [0, 1]
    assert harness.produce(batch(b"y"), "small").base_offset == 2
