"""DeleteRecords: what goes, what stays, and what is refused; compared with Kafka 3.9.1."""

from collections.abc import Callable
from pathlib import Path

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from minibroker_protocol.messages.topics import DeleteTopicsRequest
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint
from tests.broker.harness import Harness, batch, values_in

OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
HIGH_WATERMARK = -1


def delete(harness: Harness, *requested: tuple[str, int, int], version: int = 2) -> list[tuple[str, int, int, int]]:
    """Ask for (topic, partition, offset)s; tells (topic, partition, low watermark, error code)s."""
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


def filled(harness: Harness, topic: str = "t", partition: int = 0, count: int = 10) -> None:
    for value in range(count):
        assert harness.produce(batch(b"%d" % value, timestamp=harness.clock.now_ms()), topic, partition).error_code == 0


def start_checkpoint(harness: Harness) -> dict[tuple[str, int], int]:
    return read_offset_checkpoint(f"{harness.data_dir}/log-start-offset-checkpoint")


@pytest.mark.parametrize("version", range(3))
def test_records_below_the_offset_are_gone(harness: Harness, version: int) -> None:
    filled(harness)
    assert delete(harness, ("t", 0, 4), version=version) == [("t", 0, 4, 0)]
    assert harness.fetch_one(3).error_code == OUT_OF_RANGE
    data = harness.fetch_one(4)
    assert data.log_start_offset == 4
    assert values_in(data.records) == [(offset, b"%d" % offset) for offset in range(4, 10)]


def test_minus_1_is_the_high_watermark(harness: Harness) -> None:
    filled(harness)
    assert delete(harness, ("t", 0, HIGH_WATERMARK)) == [("t", 0, 10, 0)]
    assert harness.fetch_one(9).error_code == OUT_OF_RANGE
    assert harness.fetch_one(10).error_code == 0
    assert harness.produce(batch(b"more")).base_offset == 10


def test_the_start_never_moves_back(harness: Harness) -> None:
    filled(harness)
    assert delete(harness, ("t", 0, 6)) == [("t", 0, 6, 0)]
    assert delete(harness, ("t", 0, 2)) == [("t", 0, 6, 0)]
    assert delete(harness, ("t", 0, 0)) == [("t", 0, 6, 0)]


def test_an_empty_log_has_nothing_to_delete(harness: Harness) -> None:
    assert delete(harness, ("t", 0, HIGH_WATERMARK)) == [("t", 0, 0, 0)]
    assert delete(harness, ("t", 0, 1)) == [("t", 0, -1, OUT_OF_RANGE)]


@pytest.mark.parametrize("offset", [11, 2**62, -2, -(2**63)])
def test_offsets_that_the_log_cannot_start_with_are_refused(harness: Harness, offset: int) -> None:
    filled(harness)
    assert delete(harness, ("t", 0, offset)) == [("t", 0, -1, OUT_OF_RANGE)]
    assert harness.fetch_one(0).log_start_offset == 0


def test_each_partition_has_its_own_outcome(harness: Harness) -> None:
    harness.create("u", 2)
    filled(harness, "t")
    filled(harness, "u", 1)
    asked = [("u", 1, 5), ("t", 0, 99), ("nobody", 0, 1), ("u", 7, 1), ("u", -1, 1), ("t", 0, 3)]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(delete(harness, *asked)) == sorted(
        [("u", 1, 5, 0), ("t", 0, 3, 0), ("nobody", 0, -1, unknown), ("u", 7, -1, unknown), ("u", -1, -1, unknown)]
    )  # of a partition that is named twice, the last offset counts


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


# On disk.


def test_whole_segments_go_at_once(configured: Callable[[dict[str, str]], Harness]) -> None:
    harness = configured({"log.segment.bytes": "200"})
    filled(harness)
    directory = Path(harness.data_dir) / "t-0"
    segments = sorted(int(path.stem) for path in directory.glob("*.log"))
    assert len(segments) >= 4
    delete(harness, ("t", 0, segments[2] + 1))
    assert sorted(int(path.stem) for path in directory.glob("*.log")) == segments[2:]
    assert values_in(harness.fetch_one(segments[2] + 1).records)[0][0] == segments[2] + 1


def test_what_is_too_old_waits_for_the_next_round_of_retention(
    configured: Callable[[dict[str, str]], Harness],
) -> None:
    harness = configured({"log.segment.bytes": "200", "log.retention.ms": "1000"})
    filled(harness)
    harness.clock.advance(5_000)
    assert delete(harness, ("t", 0, 4)) == [("t", 0, 4, 0)]
    assert harness.fetch_one(4).log_start_offset == 4
    harness.clock.advance(30_000)
    assert harness.fetch_one(4).error_code == OUT_OF_RANGE


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_deleted_records_do_not_come_back(harness: Harness, end: str) -> None:
    filled(harness)
    delete(harness, ("t", 0, 4))
    assert start_checkpoint(harness) == {("t", 0): 4}
    getattr(harness, end)()
    assert harness.fetch_one(3).error_code == OUT_OF_RANGE
    assert values_in(harness.fetch_one(4).records)[0] == (4, b"4")
    harness.core.logs.write_checkpoints()
    assert start_checkpoint(harness) == {("t", 0): 4}


def test_a_new_topic_does_not_begin_where_an_older_one_of_its_name_did(harness: Harness) -> None:
    filled(harness)
    delete(harness, ("t", 0, 4))
    harness.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    harness.create("t")
    harness.crash()
    assert harness.fetch_one(0).error_code == 0
    assert harness.produce(batch(b"new")).base_offset == 0


def test_what_cannot_be_noted_is_deleted_all_the_same(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    filled(harness)
    blocker = Path(harness.data_dir) / "log-start-offset-checkpoint.tmp"
    blocker.mkdir()
    assert delete(harness, ("t", 0, 4)) == [("t", 0, 4, 0)]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    blocker.rmdir()
    harness.restart()
    assert harness.fetch_one(3).error_code == OUT_OF_RANGE
