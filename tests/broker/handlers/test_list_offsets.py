"""ListOffsets: the ends of a log and the offset of a moment, as Kafka 3.9.1 answers."""

import os
from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from tests.broker.harness import Harness, batch

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
SINCE_1 = range(1, 12)


def asked(
    harness: Harness, *partitions: tuple[str, int, int], version: int = 7, isolation_level: int = 0, **fields: Any
) -> list[ListOffsetsPartitionResponse]:
    """The outcomes for (topic, partition, timestamp)s."""
    topics = [
        ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)]
        )
        for name, index, timestamp in partitions
    ]
    response = harness.ask(ListOffsetsRequest(topics=topics, isolation_level=isolation_level), version)
    assert [topic.name for topic in response.topics] == [name for name, _, _ in partitions]
    return [outcome for topic in response.topics for outcome in topic.partitions]


def found(harness: Harness, timestamp: int, version: int = 7, topic: str = "t") -> tuple[int, int, int, int]:
    """(error, offset, timestamp, leader epoch)."""
    (outcome,) = asked(harness, (topic, 0, timestamp), version=version)
    return outcome.error_code, outcome.offset, outcome.timestamp, outcome.leader_epoch


@pytest.fixture
def filled(harness: Harness) -> Harness:
    """Offsets 0 to 4 with the timestamps 1000, 1001, 5000, 3000, 3001."""
    harness.produce(batch(b"a", b"b", timestamp=1000))
    harness.produce(batch(b"c", timestamp=5000))
    harness.produce(batch(b"d", b"e", timestamp=3000))
    return harness


@pytest.mark.parametrize("version", SINCE_1)
def test_the_ends_of_the_log_have_offsets_and_no_timestamps(filled: Harness, version: int) -> None:
    epoch = 0 if version >= 4 else -1
    assert found(filled, LATEST, version) == (0, 5, -1, epoch)
    assert found(filled, EARLIEST, version) == (0, 0, -1, epoch)


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_the_end_for_readers_of_committed_data_is_the_last_stable_offset(filled: Harness, isolation_level: int) -> None:
    (outcome,) = asked(filled, ("t", 0, LATEST), isolation_level=isolation_level)
    assert outcome.offset == 5


def test_an_empty_log_begins_and_ends_at_0(harness: Harness) -> None:
    assert found(harness, LATEST) == found(harness, EARLIEST) == (0, 0, -1, 0)


def test_the_log_start_offset_is_the_earliest(filled: Harness) -> None:
    topic = filled.core.topics.get("t")
    assert topic is not None
    topic.partitions[0].log.advance_log_start_offset(3)
    assert found(filled, EARLIEST) == (0, 3, -1, 0)
    assert found(filled, 0) == (0, 3, 3000, 0)


@pytest.mark.parametrize("version", SINCE_1)
@pytest.mark.parametrize(
    ("timestamp", "offset", "its_timestamp"),
    [(0, 0, 1000), (1000, 0, 1000), (1001, 1, 1001), (1002, 2, 5000), (3001, 2, 5000), (5000, 2, 5000)],
)
def test_a_moment_has_the_first_record_at_or_after_it(
    filled: Harness, timestamp: int, offset: int, its_timestamp: int, version: int
) -> None:
    assert found(filled, timestamp, version) == (0, offset, its_timestamp, 0 if version >= 4 else -1)


def test_a_moment_after_the_last_record_has_no_offset(filled: Harness) -> None:
    assert found(filled, 5001) == (0, -1, -1, -1)


@pytest.mark.parametrize("timestamp", [0, 1, 2**62])
def test_a_moment_in_an_empty_log_has_no_offset(harness: Harness, timestamp: int) -> None:
    assert found(harness, timestamp) == (0, -1, -1, -1)


def test_the_largest_timestamp_has_the_offset_of_its_first_record(harness: Harness) -> None:
    records = [NewRecord(None, b"v", timestamp) for timestamp in (10, 99, 5, 99)]
    harness.produce(build_batch(records))
    harness.produce(batch(b"w", timestamp=50))
    assert found(harness, MAX_TIMESTAMP) == (0, 1, 99, 0)


def test_the_largest_timestamp_of_an_empty_log_has_no_offset(harness: Harness) -> None:
    assert found(harness, MAX_TIMESTAMP) == (0, -1, -1, -1)


@pytest.mark.parametrize("version", range(7))
def test_the_largest_timestamp_needs_version_7(filled: Harness, version: int) -> None:
    assert found(filled, MAX_TIMESTAMP, version) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


@pytest.mark.parametrize("timestamp", [-7, -100])
@pytest.mark.parametrize("version", [0, 1, 7, 11])
def test_other_negative_timestamps_are_not_supported(filled: Harness, timestamp: int, version: int) -> None:
    assert found(filled, timestamp, version) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


@pytest.mark.parametrize("version", range(12))
@pytest.mark.parametrize(
    ("timestamp", "since"), [(EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)]
)
def test_without_tiered_storage_all_is_local(filled: Harness, timestamp: int, since: int, version: int) -> None:
    filled.ask(
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])],
            timeout_ms=1000,
        ),
        2,
    )
    expected = (0, 2, -1, 0) if timestamp == EARLIEST_LOCAL else (0, -1, -1, -1)
    if version < since:
        expected = (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)
    assert found(filled, timestamp, version) == expected


@pytest.mark.parametrize("version", range(12))
def test_an_unknown_topic_or_partition_is_said_so(harness: Harness, version: int) -> None:
    outcomes = asked(harness, ("missing", 0, LATEST), ("t", 1, LATEST), ("t", -1, LATEST), version=version)
    assert [outcome.error_code for outcome in outcomes] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3
    assert all(outcome.offset == -1 and outcome.old_style_offsets == [] for outcome in outcomes)


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_the_leader_epoch_is_checked_from_version_4_on(filled: Harness, epoch: int, code: int) -> None:
    (outcome,) = asked(filled, ("t", 0, LATEST), current_leader_epoch=epoch)
    assert outcome.error_code == code
    (outcome,) = asked(filled, ("t", 0, LATEST), current_leader_epoch=epoch, version=3)
    assert outcome.error_code == 0


def test_a_partition_that_is_asked_for_twice_is_refused_both_times(filled: Harness) -> None:
    filled.create("other")
    outcomes = asked(filled, ("t", 0, LATEST), ("other", 0, LATEST), ("t", 0, EARLIEST))
    assert [(outcome.error_code, outcome.offset) for outcome in outcomes] == [
        (ErrorCode.INVALID_REQUEST, -1),
        (0, 0),
        (ErrorCode.INVALID_REQUEST, -1),
    ]


@pytest.mark.parametrize(("version", "timestamp"), [(0, EARLIEST), (1, 1001), (7, 1001), (7, MAX_TIMESTAMP)])
def test_a_log_that_cannot_be_read_is_a_storage_error(filled: Harness, version: int, timestamp: int) -> None:
    topic = filled.core.topics.get("t")
    assert topic is not None
    (segment,) = topic.partitions[0].log.segments
    os.truncate(segment.log.path, 0)
    if version == 0:
        os.unlink(segment.log.path)
    filled.create("other")
    broken, other = asked(filled, ("t", 0, timestamp), ("other", 0, LATEST), version=version)
    assert (broken.error_code, broken.offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert other.error_code == 0


class TestVersion0:
    """Version 0 lists the offsets at which segments begin, newest first, and the log's end."""

    @pytest.fixture
    def segmented(self, harness: Harness) -> Harness:
        """Segments that begin at 0, 2 and 4 and were last written 3000, 2000 and 1000 ms before now."""
        harness.create("s", 1, segment_bytes="200")
        for _ in range(5):
            harness.produce(batch(b"x" * 20), "s")
        topic = harness.core.topics.get("s")
        assert topic is not None
        segments = topic.partitions[0].log.segments
        assert [segment.base_offset for segment in segments] == [0, 2, 4]
        for age, segment in zip((3, 2, 1), segments, strict=True):
            moment = harness.clock.now_ms() // 1000 - age
            os.utime(segment.log.path, (moment, moment))
        return harness

    def offsets(self, harness: Harness, timestamp: int, most: int = 100, topic: str = "s") -> list[int]:
        (outcome,) = asked(harness, (topic, 0, timestamp), version=0, max_num_offsets=most)
        assert (outcome.error_code, outcome.offset, outcome.timestamp) == (0, -1, -1)
        return outcome.old_style_offsets

    def test_latest_is_the_end_and_all_segments(self, segmented: Harness) -> None:
        assert self.offsets(segmented, LATEST) == [5, 4, 2, 0]

    def test_earliest_is_the_start(self, segmented: Harness) -> None:
        assert self.offsets(segmented, EARLIEST) == [0]

    @pytest.mark.parametrize(
        ("age", "expected"),
        [(0, [5, 4, 2, 0]), (1, [4, 2, 0]), (1000, [4, 2, 0]), (1001, [2, 0]), (2500, [0]), (3001, [])],
    )
    def test_a_moment_has_the_segments_that_were_written_by_then(
        self, segmented: Harness, age: int, expected: list[int]
    ) -> None:
        assert self.offsets(segmented, segmented.clock.now_ms() - age) == expected

    @pytest.mark.parametrize(("most", "expected"), [(1, [5]), (3, [5, 4, 2]), (0, [])])
    def test_no_more_than_asked_for_are_told(self, segmented: Harness, most: int, expected: list[int]) -> None:
        assert self.offsets(segmented, LATEST, most) == expected

    def test_an_empty_log_begins_at_its_end(self, harness: Harness) -> None:
        assert self.offsets(harness, LATEST, topic="t") == self.offsets(harness, EARLIEST, topic="t") == [0]

    def test_a_partition_may_be_asked_for_twice(self, segmented: Harness) -> None:
        outcomes = asked(segmented, ("s", 0, LATEST), ("s", 0, EARLIEST), version=0, max_num_offsets=1)
        assert [outcome.old_style_offsets for outcome in outcomes] == [[5], [0]]
