"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords.

Expected values are those of Kafka 3.9.1, and for OffsetForLeaderEpoch those of `LeaderEpochFileCache.endOffsetFor`.
"""

import os
from pathlib import Path
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
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from tests.broker.harness import Configured, Harness, batch, values_in
from tests.broker.logs.world import checkpoint, log_of

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


SINCE_1 = range(1, 12)


def asked(
    harness: Harness, *partitions: tuple[str, int, int], version: int = 7, isolation_level: int = 0, **fields: Any
) -> list[ListOffsetsPartitionResponse]:
    """Return the results for several (topic, partition, timestamp)."""
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
    """Return (error, offset, timestamp, leader epoch) for a timestamp."""
    (outcome,) = asked(harness, (topic, 0, timestamp), version=version)
    return outcome.error_code, outcome.offset, outcome.timestamp, outcome.leader_epoch


@pytest.fixture
def filled(harness: Harness) -> Harness:
    """A broker with the offsets 0 to 4, which have the timestamps 1000, 1001, 5000, 3000 and 3001."""
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
    log_of(filled).advance_log_start_offset(3)
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
    delete(filled, ("t", 0, 2))
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
    (segment,) = log_of(filled).segments
    os.truncate(segment.log.path, 0)
    if version == 0:
        os.unlink(segment.log.path)
    filled.create("other")
    broken, other = asked(filled, ("t", 0, timestamp), ("other", 0, LATEST), version=version)
    assert (broken.error_code, broken.offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert other.error_code == 0


class TestVersion0:
    """Version 0, which returns the start offsets of segments, newest first, and the log end."""

    @pytest.fixture
    def segmented(self, harness: Harness) -> Harness:
        """A broker with segments that begin at 0, 2 and 4, last written 3000, 2000 and 1000 ms before now."""
        harness.create("s", 1, segment_bytes="200")
        for _ in range(5):
            harness.produce(batch(b"x" * 20), "s")
        segments = log_of(harness, "s").segments
        assert [segment.base_offset for segment in segments] == [0, 2, 4]
        for age, segment in zip((3, 2, 1), segments, strict=True):
            moment = harness.clock.now_ms() // 1000 - age
            os.utime(segment.log.path, (moment, moment))
        return harness

    def offsets(self, harness: Harness, timestamp: int, limit: int = 100, topic: str = "s") -> list[int]:
        (outcome,) = asked(harness, (topic, 0, timestamp), version=0, max_num_offsets=limit)
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


def end_of_epoch(
    harness: Harness, epoch: int, *, current: int = -1, version: int = 4, topic: str = "t", partition: int = 0
) -> tuple[int, int, int]:
    """Return (error code, epoch, end offset)."""
    requested_partition = OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[requested_partition])]
    )
    (answer,) = harness.ask(request, version).topics
    (outcome,) = answer.partitions
    assert (answer.topic, outcome.partition) == (topic, partition)
    return outcome.error_code, outcome.leader_epoch, outcome.end_offset


@pytest.fixture
def led(harness: Harness) -> Harness:
    """A partition with one record of epoch 0, two of epoch 2, and none of epochs 1, 3 and 4, the current one."""
    harness.produce(batch(b"a"))
    cluster = harness.core.cluster
    cluster.stop_node(1)
    cluster.start_node(1)
    harness.produce(batch(b"b", b"c"))
    cluster.stop_node(1)
    cluster.start_node(1)
    return harness


@pytest.mark.parametrize(
    ("epoch", "found"),
    [
        (0, (0, 0, 1)),
        (1, (0, 0, 1)),
        (2, (0, 2, 3)),
        (3, (0, 2, 3)),
        (4, (0, 4, 3)),
        (5, (0, -1, -1)),
        (-1, (0, -1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(led: Harness, epoch: int, found: tuple[int, int, int]) -> None:
    assert end_of_epoch(led, epoch) == found


def test_the_epoch_of_an_empty_log_ends_at_its_start(harness: Harness) -> None:
    assert end_of_epoch(harness, 0) == (0, 0, 0)


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_served(led: Harness, version: int) -> None:
    assert end_of_epoch(led, 2, version=version) == (0, 2 if version >= 1 else -1, 3)


@pytest.mark.parametrize(
    ("current", "code"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (4, 0), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_clients_are_held_against_the_epoch_that_they_know_from_version_2_on(
    led: Harness, current: int, code: int
) -> None:
    assert end_of_epoch(led, 2, current=current)[0] == code
    assert end_of_epoch(led, 2, current=current, version=1)[0] == 0


@pytest.mark.parametrize(("topic", "partition"), [("t", 1), ("u", 0)])
def test_a_partition_that_does_not_exist_is_unknown(harness: Harness, topic: str, partition: int) -> None:
    assert end_of_epoch(harness, 0, topic=topic, partition=partition) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


HIGH_WATERMARK = -1


def delete(harness: Harness, *requested: tuple[str, int, int], version: int = 2) -> list[tuple[str, int, int, int]]:
    """Delete up to several (topic, partition, offset). Return (topic, partition, low watermark, error code) of each."""
    topics: dict[str, list[DeleteRecordsPartition]] = {}
    for name, partition, offset in requested:
        topics.setdefault(name, []).append(DeleteRecordsPartition(partition_index=partition, offset=offset))
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        timeout_ms=1000,
    )
    return [
        (topic.name, result.partition_index, result.low_watermark, result.error_code)
        for topic in harness.ask(request, version).topics
        for result in topic.partitions
    ]


def fill(harness: Harness, topic: str = "t", partition: int = 0, count: int = 10) -> None:
    for value in range(count):
        assert harness.produce(batch(b"%d" % value, timestamp=harness.clock.now_ms()), topic, partition).error_code == 0


@pytest.mark.parametrize("version", range(3))
def test_records_below_the_offset_are_gone(harness: Harness, version: int) -> None:
    fill(harness)
    assert delete(harness, ("t", 0, 4), version=version) == [("t", 0, 4, 0)]
    assert harness.fetch_one(3).error_code == OUT_OF_RANGE
    data = harness.fetch_one(4)
    assert data.log_start_offset == 4
    assert values_in(data.records) == [(offset, b"%d" % offset) for offset in range(4, 10)]


def test_minus_1_is_the_high_watermark(harness: Harness) -> None:
    fill(harness)
    assert delete(harness, ("t", 0, HIGH_WATERMARK)) == [("t", 0, 10, 0)]
    assert harness.fetch_one(9).error_code == OUT_OF_RANGE
    assert harness.fetch_one(10).error_code == 0
    assert harness.produce(batch(b"more")).base_offset == 10


def test_the_start_never_moves_back(harness: Harness) -> None:
    fill(harness)
    assert delete(harness, ("t", 0, 6)) == [("t", 0, 6, 0)]
    assert delete(harness, ("t", 0, 2)) == [("t", 0, 6, 0)]
    assert delete(harness, ("t", 0, 0)) == [("t", 0, 6, 0)]


def test_an_empty_log_has_nothing_to_delete(harness: Harness) -> None:
    assert delete(harness, ("t", 0, HIGH_WATERMARK)) == [("t", 0, 0, 0)]
    assert delete(harness, ("t", 0, 1)) == [("t", 0, -1, OUT_OF_RANGE)]


@pytest.mark.parametrize("offset", [11, 2**62, -2, -(2**63)])
def test_offsets_that_the_log_cannot_start_with_are_refused(harness: Harness, offset: int) -> None:
    fill(harness)
    assert delete(harness, ("t", 0, offset)) == [("t", 0, -1, OUT_OF_RANGE)]
    assert harness.fetch_one(0).log_start_offset == 0


def test_each_partition_has_its_own_outcome(harness: Harness) -> None:
    harness.create("u", 2)
    fill(harness, "t")
    fill(harness, "u", 1)
    partitions = [("u", 1, 5), ("t", 0, 99), ("nobody", 0, 1), ("u", 7, 1), ("u", -1, 1), ("t", 0, 3)]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(delete(harness, *partitions)) == sorted(
        [("u", 1, 5, 0), ("t", 0, 3, 0), ("nobody", 0, -1, unknown), ("u", 7, -1, unknown), ("u", -1, -1, unknown)]
    )  # The last offset of a repeated partition counts.


@pytest.mark.parametrize(
    ("policy", "code"), [("delete", 0), ("compact,delete", 0), ("compact", ErrorCode.POLICY_VIOLATION)]
)
def test_a_topic_that_is_only_compacted_keeps_its_records(harness: Harness, policy: str, code: int) -> None:
    harness.create("u", 1, cleanup_policy=policy)
    assert delete(harness, ("u", 0, HIGH_WATERMARK)) == [("u", 0, -1 if code else 0, code)]


def test_kafkas_own_topics_are_refused(harness: Harness) -> None:
    harness.create("__consumer_offsets")
    code = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert delete(harness, ("__consumer_offsets", 0, HIGH_WATERMARK)) == [("__consumer_offsets", 0, -1, code)]


def test_whole_segments_go_at_once(configured: Configured) -> None:
    harness = configured({"log.segment.bytes": "200"})
    fill(harness)
    directory = Path(harness.data_dir) / "t-0"
    segments = sorted(int(path.stem) for path in directory.glob("*.log"))
    assert len(segments) >= 4
    delete(harness, ("t", 0, segments[2] + 1))
    assert sorted(int(path.stem) for path in directory.glob("*.log")) == segments[2:]
    assert values_in(harness.fetch_one(segments[2] + 1).records)[0][0] == segments[2] + 1


def test_what_is_too_old_waits_for_the_next_round_of_retention(configured: Configured) -> None:
    harness = configured({"log.segment.bytes": "200", "log.retention.ms": "1000"})
    fill(harness)
    harness.clock.advance(5_000)
    assert delete(harness, ("t", 0, 4)) == [("t", 0, 4, 0)]
    assert harness.fetch_one(4).log_start_offset == 4
    harness.clock.advance(30_000)
    assert harness.fetch_one(4).error_code == OUT_OF_RANGE


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_deleted_records_do_not_come_back(harness: Harness, end: str) -> None:
    fill(harness)
    delete(harness, ("t", 0, 4))
    assert checkpoint(harness, "log-start") == {("t", 0): 4}
    getattr(harness, end)()
    assert harness.fetch_one(3).error_code == OUT_OF_RANGE
    assert values_in(harness.fetch_one(4).records)[0] == (4, b"4")
    harness.core.logs.write_checkpoints()
    assert checkpoint(harness, "log-start") == {("t", 0): 4}


def test_a_new_topic_does_not_begin_where_an_older_one_of_its_name_did(harness: Harness) -> None:
    fill(harness)
    delete(harness, ("t", 0, 4))
    harness.delete()
    harness.create("t")
    harness.crash()
    assert harness.fetch_one(0).error_code == 0
    assert harness.produce(batch(b"new")).base_offset == 0


def test_what_cannot_be_noted_is_deleted_all_the_same(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    fill(harness)
    blocker = Path(harness.data_dir) / "log-start-offset-checkpoint.tmp"
    blocker.mkdir()
    assert delete(harness, ("t", 0, 4)) == [("t", 0, 4, 0)]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    blocker.rmdir()
    harness.restart()
    assert harness.fetch_one(3).error_code == OUT_OF_RANGE
