"""Produce: appended and refused records, with the outcomes of Kafka 3.9.1 unless a test says otherwise.

Records that must be checked one by one are validated in slices, while other requests are served.

These tests are one file because their handlers are one module.
"""

import errno
import os
import struct
import zlib
from typing import Any

import pytest

from minibroker.cluster.routing.outcomes import Waiting
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.server.requests.dispatch import accept
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, compute_crc
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.broker.harness import Configured, Harness, Pending, batch, frame_of, produce_request, values_in
from tests.broker.logs.world import log_of
from tests.storage.time_search import find_by_timestamp, find_max_timestamp

VERSIONS = range(14)


def stored(harness: Harness, topic: str = "t", partition: int = 0) -> list[tuple[int, bytes | None]]:
    return values_in(harness.fetch_one(0, topic, partition).records)


def corrupt(data: bytearray) -> bytearray:
    data[-1] ^= 1
    return data


def legacy_message(magic: int) -> bytearray:
    """Return a message of format v0 or v1 with a key and a value."""
    body = bytes([magic, 0]) + bytes(8 * magic) + struct.pack(">i3si5s", 3, b"key", 5, b"value")
    return bytearray(struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body)


def test_batches_get_consecutive_offsets(harness: Harness) -> None:
    first = harness.produce(batch(b"a", b"b"))
    second = harness.produce(batch(b"c"))
    assert (first.error_code, first.base_offset, first.log_start_offset) == (0, 0, 0)
    assert (second.error_code, second.base_offset) == (0, 2)
    assert stored(harness) == [(0, b"a"), (1, b"b"), (2, b"c")]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_appends_a_batch_of_format_v2(harness: Harness, version: int) -> None:
    outcome = harness.produce(batch(b"a"), version=version)
    assert (outcome.error_code, outcome.base_offset, outcome.log_append_time_ms) == (0, 0, -1)
    assert outcome.log_start_offset == (0 if version >= 5 else -1)
    assert stored(harness) == [(0, b"a")]


@pytest.mark.parametrize("version", VERSIONS)
def test_acks_of_0_have_no_response_but_are_appended(harness: Harness, version: int) -> None:
    assert harness.send(produce_request(batch(b"a"), acks=0), version) is None
    assert stored(harness) == [(0, b"a")]


@pytest.mark.parametrize("topic", ["t", "missing"])
def test_acks_of_0_with_an_error_close_the_connection(harness: Harness, topic: str) -> None:
    with pytest.raises(UnservedRequestError, match="acks=0"):
        harness.send(produce_request(corrupt(batch(b"a")), topic, acks=0), 9)


@pytest.mark.parametrize("acks", [2, -2, 7, 32_767])
def test_other_acks_are_refused_for_each_partition(harness: Harness, acks: int) -> None:
    outcome = harness.produce(batch(b"a"), acks=acks)
    assert (outcome.error_code, outcome.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert stored(harness) == []


@pytest.mark.parametrize(("topic", "partition"), [("missing", 0), ("t", 1), ("t", -1)])
@pytest.mark.parametrize("version", [0, 3, 9, 13])
def test_an_unknown_topic_or_partition_is_said_so(harness: Harness, topic: str, partition: int, version: int) -> None:
    outcome = harness.produce(batch(b"a"), topic, partition, version=version)
    by_id = version >= 13 and topic == "missing"
    expected = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (outcome.error_code, outcome.base_offset) == (expected, -1)
    assert outcome.log_start_offset == -1


def test_each_partition_of_a_request_has_its_own_outcome(harness: Harness) -> None:
    harness.create("two", 2)
    data = [
        PartitionProduceData(index=0, records=batch(b"a")),
        PartitionProduceData(index=1, records=corrupt(batch(b"b"))),
        PartitionProduceData(index=2, records=batch(b"c")),
    ]
    topics = [
        TopicProduceData(name="two", partition_data=data),
        TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch(b"d"))]),
    ]
    response = harness.ask(ProduceRequest(acks=1, timeout_ms=0, topic_data=topics), 9)
    assert [
        (topic.name, outcome.index, outcome.error_code, outcome.base_offset)
        for topic in response.responses
        for outcome in topic.partition_responses
    ] == [
        ("two", 0, 0, 0),
        ("two", 1, ErrorCode.CORRUPT_MESSAGE, -1),
        ("two", 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("t", 0, 0, 0),
    ]


def test_a_request_without_topics_is_answered_without_topics(harness: Harness) -> None:
    assert harness.ask(ProduceRequest(acks=1, timeout_ms=0, topic_data=[]), 9).responses == []


def test_a_wrong_checksum_is_corrupt(harness: Harness) -> None:
    outcome = harness.produce(corrupt(batch(b"a")))
    assert outcome.error_code == ErrorCode.CORRUPT_MESSAGE
    assert "crc" in (outcome.error_message or "")
    assert stored(harness) == []


def test_the_largest_message_is_the_topics_and_is_measured_in_whole_batches(configured: Configured) -> None:
    harness = configured({"message.max.bytes": "200"})
    harness.create("larger", 1, max_message_bytes="201")
    fitting, larger = batch(bytes(200 - 61 - 9)), batch(bytes(201 - 61 - 9))
    assert (len(fitting), len(larger)) == (200, 201)
    assert harness.produce(fitting).error_code == 0
    assert harness.produce(larger).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert harness.produce(larger, "larger").error_code == 0


def test_a_batch_that_no_segment_can_hold_is_refused(harness: Harness) -> None:
    harness.create("small", 1, segment_bytes="500")
    assert harness.produce(batch(bytes(600)), "small").error_code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert harness.produce(batch(bytes(100)), "small").base_offset == 0


@pytest.mark.parametrize("version", VERSIONS[3:])
@pytest.mark.parametrize("magic", [0, 1])
def test_message_formats_v0_and_v1_are_refused_in_new_requests(harness: Harness, version: int, magic: int) -> None:
    for records in (legacy_message(magic), legacy_message(magic) * 3):
        assert harness.produce(records, version=version).error_code == ErrorCode.INVALID_RECORD
    assert stored(harness) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_second_batch_for_a_partition_is_refused_with_the_first(harness: Harness, version: int) -> None:
    outcome = harness.produce(batch(b"a") + batch(b"b"), version=version)
    assert (outcome.error_code, outcome.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert stored(harness) == []


@pytest.mark.parametrize("records", [b"", None])
@pytest.mark.parametrize("version", VERSIONS)
def test_no_records_are_refused_since_version_3_and_do_nothing_before(
    harness: Harness, version: int, records: bytes | None
) -> None:
    outcome = harness.produce(records, version=version)
    assert (outcome.error_code, outcome.base_offset) == (ErrorCode.INVALID_RECORD if version >= 3 else 0, -1)
    assert stored(harness) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_zstd_needs_version_7(harness: Harness, version: int) -> None:
    outcome = harness.produce(batch(b"a", codec=CompressionCodec.ZSTD), version=version)
    assert outcome.error_code == (0 if version >= 7 else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@pytest.mark.parametrize("codec", [CompressionCodec.GZIP, CompressionCodec.SNAPPY, CompressionCodec.LZ4])
@pytest.mark.parametrize("version", [0, 3, 9])
def test_older_codecs_are_taken_by_every_version(harness: Harness, version: int, codec: CompressionCodec) -> None:
    assert harness.produce(batch(b"a" * 100, codec=codec), version=version).error_code == 0
    assert stored(harness) == [(0, b"a" * 100)]


def with_header_field(data: bytearray, position: int, value: bytes) -> bytearray:
    data[position : position + len(value)] = value
    return data


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (batch(b"a", base_offset=5), ErrorCode.INVALID_RECORD),
        (batch(b"a", is_control=True), ErrorCode.INVALID_RECORD),
        (batch(b"a")[:-1], ErrorCode.INVALID_RECORD),
        (batch(b"a")[:20], ErrorCode.INVALID_RECORD),
        (batch(b"a")[:5], ErrorCode.INVALID_RECORD),
        (batch(b"a") + b"\0", ErrorCode.CORRUPT_MESSAGE),
        (with_header_field(batch(b"a"), 8, b"\x7f\xff\xff\xff"), ErrorCode.INVALID_RECORD),
        (with_header_field(batch(b"a"), 8, b"\xff\xff\xff\xff"), ErrorCode.CORRUPT_MESSAGE),
        (with_header_field(batch(b"a"), 8, b"\0\0\0\0"), ErrorCode.CORRUPT_MESSAGE),
        (with_header_field(batch(b"a"), 16, b"\x03"), ErrorCode.CORRUPT_MESSAGE),
    ],
)
@pytest.mark.parametrize("version", [0, 2, 3, 9])
def test_a_batch_whose_header_lies_is_refused(
    harness: Harness, records: bytearray, code: ErrorCode, version: int
) -> None:
    outcome = harness.produce(records, version=version)
    assert (outcome.error_code, outcome.base_offset) == (code, -1)
    assert stored(harness) == []


@pytest.mark.parametrize(
    ("limit", "code"), [("1", 0), ("2", ErrorCode.INVALID_RECORD), ("-1", ErrorCode.INVALID_RECORD)]
)
def test_records_are_opened_up_to_the_configured_count(configured: Configured, limit: str, code: int) -> None:
    harness = configured({"minibroker.validate.records.max": limit})
    strange = batch(b"a", b"b")
    strange[-3] = 0x7E  # The last value claims more bytes than there are.
    strange[17:21] = compute_crc(memoryview(strange)).to_bytes(4, "big")
    assert harness.produce(strange).error_code == code


class Producer:
    """An idempotent producer whose batches have `count` records each."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    def send(self, sequence: int, count: int = 1, epoch: int = 0) -> PartitionProduceResponse:
        records = batch(*[b"v"] * count, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
        return self._harness.produce(records)


@pytest.fixture
def producer(harness: Harness) -> Producer:
    return Producer(harness)


def outcome(answer: PartitionProduceResponse) -> tuple[ErrorCode, int]:
    return ErrorCode(answer.error_code), answer.base_offset


OUT_OF_ORDER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        pytest.param([(0, 2, 0), (2, 2, 0), (4, 2, 0)], [(0, 0), (0, 2), (0, 4)], id="consecutive"),
        pytest.param([(0, 2, 0), (0, 3, 0)], [(0, 0), OUT_OF_ORDER], id="repeated with another count"),
        pytest.param([(0, 1, 1), (1, 1, 2), (0, 1, 2)], [(0, 0), OUT_OF_ORDER, (0, 1)], id="new epoch"),
        pytest.param([(0, 1, 2), (1, 1, 1), (0, 1, 1)], [(0, 0), FENCED, FENCED], id="old epoch"),
        pytest.param([(-1, 1, 0)], [(ErrorCode.INVALID_RECORD, -1)], id="no sequence"),
        pytest.param([(2**31 - 2, 2, 0), (0, 1, 0)], [(0, 0), (0, 2)], id="0 after the largest"),
        pytest.param([(77, 1, 0), (78, 1, 0)], [(0, 0), (0, 1)], id="unknown producer"),
        pytest.param(
            [*((sequence, 1, 0) for sequence in range(6)), (0, 1, 0)],
            [*((0, sequence) for sequence in range(6)), OUT_OF_ORDER],
            id="repeated after five others",
        ),
    ],
)
def test_sequences_of_an_idempotent_producer_are_consecutive(
    producer: Producer, batches: list[tuple[int, int, int]], expected: list[tuple[int, int]]
) -> None:
    """Each batch is (sequence, count, epoch)."""
    assert [outcome(producer.send(*sent)) for sent in batches] == expected


def test_the_last_five_batches_are_answered_again_with_their_offset_and_timestamp(
    harness: Harness, producer: Producer
) -> None:
    for sequence in range(7):
        producer.send(sequence)
    for sequence in (2, 3, 4, 5, 6):
        again = producer.send(sequence)
        assert outcome(again) == (0, sequence)
        assert (again.log_append_time_ms, again.log_start_offset) == (1_700_000_000_000, 0)
    assert len(stored(harness)) == 7


def test_a_gap_in_the_sequence_is_out_of_order_and_does_no_harm(harness: Harness, producer: Producer) -> None:
    producer.send(0)
    assert outcome(producer.send(2)) == OUT_OF_ORDER
    assert outcome(producer.send(1)) == (0, 1)
    assert len(stored(harness)) == 2


def test_producers_are_known_after_a_restart(harness: Harness, producer: Producer) -> None:
    producer.send(0)
    producer.send(1)
    harness.restart()
    assert outcome(producer.send(1)) == (0, 1)
    assert outcome(producer.send(3)) == OUT_OF_ORDER
    assert outcome(producer.send(2)) == (0, 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_transactional_batches_need_a_transactional_id(harness: Harness, version: int) -> None:
    records = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    refused = harness.produce(records, version=version)
    assert outcome(refused) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)
    assert stored(harness) == []


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors for which fsync was called."""
    called: list[int] = []
    monkeypatch.setattr(os, "fsync", called.append)
    return called


def test_an_answer_waits_for_the_disk_once_enough_records_have_come_together(
    harness: Harness, forced: list[int]
) -> None:
    harness.create("f", 1, flush_messages="3")
    forced.clear()  # Creating the topic calls it too.
    assert harness.produce(batch(b"a", b"b"), "f").base_offset == 0
    assert not forced
    waiting = harness.send(produce_request(batch(b"c"), "f"), 9)
    assert isinstance(waiting, Pending)
    assert forced
    (outcome,) = waiting.response.responses[0].partition_responses
    assert (outcome.error_code, outcome.base_offset) == (0, 2)
    assert harness.produce(batch(b"d"), "f").base_offset == 3


def test_records_that_cannot_be_brought_to_disk_are_answered_with_an_error(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("f", 1, flush_messages="1")

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def outcome_of(value: bytes) -> int:
        waiting = harness.send(produce_request(batch(value), "f"), 9)
        assert isinstance(waiting, Pending)
        (outcome,) = waiting.response.responses[0].partition_responses
        code: int = outcome.error_code
        return code

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        assert outcome_of(b"a") == ErrorCode.KAFKA_STORAGE_ERROR
    # The kernel reports lost pages once: a later fsync that succeeds would prove nothing about them.
    assert outcome_of(b"b") == ErrorCode.KAFKA_STORAGE_ERROR
    assert [value for _, value in stored(harness, "f")] == [b"a", b"b"]
    harness.restart()
    assert outcome_of(b"c") == 0


def test_a_topic_that_vanishes_while_its_records_go_to_disk_leaves_nobody_waiting(
    harness: Harness, forced: list[int]
) -> None:
    harness.create("f", 1, flush_messages="1")
    waiting = begun(harness, produce_request(batch(b"a"), "f"))
    harness.delete("f")
    assert waiting.is_answered


def test_a_client_that_has_gone_is_not_answered_when_the_disk_is_done(harness: Harness, forced: list[int]) -> None:
    harness.create("f", 1, flush_messages="1")
    waiting = begun(harness, produce_request(batch(b"a"), "f"))
    waiting.cancel()
    harness.run_soon()
    assert not waiting.is_answered
    assert stored(harness, "f") == [(0, b"a")]


@pytest.mark.parametrize("opened", ["100", "0"])
def test_a_batch_without_a_time_in_its_header_gets_that_of_its_records(configured: Configured, opened: str) -> None:
    """Sarama before 1.45.1 sends batches like this one."""
    harness = configured({"minibroker.validate.records.max": opened})
    now_ms = harness.clock.now_ms()
    sent = batch(b"a", b"b", timestamp=now_ms, producer_id=7, producer_epoch=0, base_sequence=0)
    struct.pack_into(">q", sent, 35, -1)
    struct.pack_into(">I", sent, 17, compute_crc(memoryview(sent)))
    assert harness.produce(bytes(sent)).error_code == 0
    log = log_of(harness, "t")
    assert find_by_timestamp(log, now_ms + 1) == (now_ms + 1, 1, 0)
    assert find_max_timestamp(log) == (now_ms + 1, 1, 0)
    harness.clock.advance(20 * 60_000)  # Producers are checked for expiry in this time.
    assert harness.produce(bytes(sent)).base_offset == 0
    assert log.log_end_offset == 2
    assert values_in(harness.fetch_one().records) == [(0, b"a"), (1, b"b")]


def test_a_batch_that_promises_a_far_time_does_not_keep_its_segment(configured: Configured) -> None:
    harness = configured({"log.retention.ms": "1000", "log.retention.check.interval.ms": "1000"})
    sent = batch(b"a", timestamp=harness.clock.now_ms())
    struct.pack_into(">q", sent, 35, 2**62)
    struct.pack_into(">I", sent, 17, compute_crc(memoryview(sent)))
    assert harness.produce(sent).error_code == 0
    log = log_of(harness, "t")
    log.delete_old_segments(harness.clock.now_ms() + 2_000)
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)


def test_a_batch_of_no_bytes_cannot_declare_two_billion_records(harness: Harness) -> None:
    sent = batch(b"", codec=CompressionCodec.GZIP)[:61] + zlib.compress(b"", wbits=31)
    struct.pack_into(">i", sent, 8, len(sent) - 12)
    struct.pack_into(">i", sent, 23, 2**31 - 2)
    struct.pack_into(">i", sent, 57, 2**31 - 1)
    struct.pack_into(">I", sent, 17, compute_crc(memoryview(sent)))
    assert harness.produce(sent).error_code == ErrorCode.INVALID_RECORD
    assert log_of(harness, "t").log_end_offset == 0


MANY = 1500


def records(count: int, key: bytes | None = b"k") -> list[NewRecord]:
    return [NewRecord(key, b"%d" % number, 1_700_000_000_000) for number in range(count)]


def keyed(count: int) -> bytearray:
    return build_batch(records(count), codec=CompressionCodec.GZIP)


@pytest.fixture
def compacted(harness: Harness) -> Harness:
    """A broker with a compacted topic "c" and slices of one step."""
    harness.create("c", cleanup_policy="compact")
    harness.core.slices.slice_s = 0.0
    return harness


def begun(harness: Harness, request: Any, version: int = 9) -> Pending:
    """Send a request that does not finish within its wake-up."""
    outcome = harness.accept(request, version)
    assert isinstance(outcome, Waiting)
    harness.core.writes.commit()
    return Pending(request, version, outcome)


def outcomes(pending: Pending) -> list[tuple[int, int]]:
    """Return (error, first offset) of each partition."""
    answered = [partition for topic in pending.response.responses for partition in topic.partition_responses]
    return [(partition.error_code, partition.base_offset) for partition in answered]


def test_a_batch_that_comes_while_a_long_one_is_looked_at_is_before_it(compacted: Harness) -> None:
    long = begun(compacted, produce_request(keyed(MANY), "c"))
    assert compacted.accept(produce_request(keyed(2), "c"), 9) is not None
    assert not long.is_answered
    compacted.run_soon()
    assert outcomes(long) == [(0, 2)]
    assert log_of(compacted, "c").log_end_offset == MANY + 2


def test_a_bad_record_far_behind_refuses_the_batch(compacted: Harness) -> None:
    bad = build_batch([*records(MANY), *records(1, key=None)])
    long = begun(compacted, produce_request(bad, "c"))
    compacted.run_soon()
    assert outcomes(long) == [(ErrorCode.INVALID_RECORD, -1)]
    (error,) = long.response.responses[0].partition_responses[0].record_errors
    assert error.batch_index == MANY


def test_a_topic_that_is_deleted_meanwhile_takes_nothing(compacted: Harness) -> None:
    long = begun(compacted, produce_request(keyed(MANY), "c"))
    compacted.delete("c")
    compacted.run_soon()
    assert outcomes(long) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


def test_the_records_stay_when_the_receive_buffer_is_used_again(compacted: Harness) -> None:
    session = compacted.session()
    pending: list[Pending] = []
    for _ in range(2):  # The second time the request is a repetition.
        frame = bytearray(frame_of(produce_request(build_batch(records(MANY)), "c"), 9))
        outcome = accept(memoryview(frame), session)
        assert isinstance(outcome, Waiting)
        pending.append(Pending(produce_request(None, "c"), 9, outcome))
        frame[:] = bytes(len(frame))
    compacted.run_soon()
    assert [outcomes(response) for response in pending] == [[(0, 0)], [(0, MANY)]]


def test_one_long_batch_among_few_makes_slices_of_the_request(compacted: Harness) -> None:
    data = [PartitionProduceData(index=0, records=records) for records in (keyed(1), keyed(MANY))]
    topics = [TopicProduceData(name=name, partition_data=[records]) for name, records in zip("tc", data, strict=True)]
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
    assert compacted.fetch_one(3).records


def test_one_record_that_unpacks_to_many_bytes_is_compressed_again_in_slices(harness: Harness) -> None:
    harness.create("z", compression_type="zstd")
    harness.core.slices.slice_s = 0.0
    large = build_batch([NewRecord(None, bytes(16 << 20), 1_700_000_000_000)], codec=CompressionCodec.GZIP)
    assert len(large) < 20_000
    long = begun(harness, produce_request(large, "z"))
    assert harness.accept(produce_request(build_batch(records(1)), "z"), 9) is not None
    harness.run_soon()
    assert outcomes(long) == [(0, 1)]
