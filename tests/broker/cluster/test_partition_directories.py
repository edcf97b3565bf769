"""Partitions get their directories with their first records, or at a clean stop. Until then they are empty."""

import errno
import os
from pathlib import Path

import pytest

from minibroker.cluster import partition as partition_module
from minibroker.cluster.logs import log_manager
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_dirs import DescribeLogDirsRequest
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from minibroker_storage.layout import LOG_SUFFIX, PARTITION_METADATA, file_name
from tests.broker.harness import Harness, batch, create_request, values_in

LOG = file_name(0, LOG_SUFFIX)


def directories(harness: Harness, topic: str = "new") -> set[str]:
    return {name for name in os.listdir(harness.data_dir) if name.startswith(f"{topic}-")}


def files(harness: Harness, partition: int) -> set[str]:
    return set(os.listdir(f"{harness.data_dir}/new-{partition}"))


def partitions(harness: Harness, topic: str = "new") -> int:
    (metadata,) = harness.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics
    return len(metadata.partitions)


@pytest.fixture
def new(harness: Harness) -> Harness:
    """Return a broker with a topic "new" of three partitions."""
    harness.create("new", 3)
    return harness


def test_only_the_partition_that_holds_a_record_has_a_directory(new: Harness) -> None:
    assert directories(new) == set()
    assert new.produce(batch(b"a"), "new", 1).base_offset == 0
    assert directories(new) == {"new-1"}
    assert Path(new.data_dir, "new-1", PARTITION_METADATA).read_text().startswith("version: 0\ntopic_id: ")


def test_an_empty_partition_is_read_and_described_without_a_directory(new: Harness) -> None:
    answer = new.fetch_one(0, "new", 2)
    assert (answer.error_code, answer.high_watermark, answer.records or b"") == (0, 0, b"")
    assert new.fetch_one(1, "new", 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    for timestamp in (-1, -2, -3, 0):
        partition = ListOffsetsPartition(partition_index=2, timestamp=timestamp, current_leader_epoch=-1)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="new", partitions=[partition])], replica_id=-1)
        (result,) = new.ask(request, 7).topics[0].partitions
        assert (result.error_code, result.offset) == (0, 0 if timestamp in {-1, -2} else -1)
    (log_dir,) = new.ask(DescribeLogDirsRequest(topics=None), 4).results
    sizes = {
        topic.name: [(partition.partition_index, partition.partition_size) for partition in topic.partitions]
        for topic in log_dir.topics
    }
    assert sizes["new"] == [(0, 0), (1, 0), (2, 0)]
    assert directories(new) == set()


def test_a_kill_leaves_partitions_without_directories_which_are_empty(new: Harness) -> None:
    new.produce(batch(b"a"), "new", 1)
    new.crash()
    assert directories(new) == {"new-1"}
    assert partitions(new) == 3
    assert values_in(new.fetch_one(0, "new", 1).records) == [(0, b"a")]
    assert new.fetch_one(0, "new", 0).high_watermark == 0
    assert new.produce(batch(b"b"), "new", 0).base_offset == 0
    new.crash()
    assert values_in(new.fetch_one(0, "new", 0).records) == [(0, b"b")]


def test_a_clean_stop_makes_the_directories_as_kafka_expects_them(new: Harness) -> None:
    new.produce(batch(b"a"), "new", 1)
    new.fetch_one(0, "new", 2)  # The log is open, but not on disk.
    new.close()
    assert directories(new) == {"new-0", "new-1", "new-2"}
    ids = {Path(new.data_dir, name, PARTITION_METADATA).read_text() for name in directories(new)}
    assert len(ids) == 1
    assert files(new, 0) == files(new, 2) == {PARTITION_METADATA}
    assert Path(new.data_dir, ".kafka_cleanshutdown").exists()
    new.start()
    assert values_in(new.fetch_one(0, "new", 1).records) == [(0, b"a")]
    assert new.produce(batch(b"c"), "new", 2).base_offset == 0


def test_a_partition_that_a_stop_gave_a_directory_is_unused_until_its_first_record(new: Harness) -> None:
    new.restart()
    empty = files(new, 0)
    answer = new.fetch_one(0, "new", 0)
    assert (answer.error_code, answer.high_watermark, answer.records or b"") == (0, 0, b"")
    new.restart()  # Its log was open.
    assert files(new, 0) == empty == {PARTITION_METADATA}
    identity = Path(new.data_dir, "new-1", PARTITION_METADATA).read_text()
    assert new.produce(batch(b"a"), "new", 0).base_offset == 0
    assert LOG in files(new, 0)
    new.crash()
    assert values_in(new.fetch_one(0, "new", 0).records) == [(0, b"a")]
    assert Path(new.data_dir, "new-0", PARTITION_METADATA).read_text() == identity
    assert Path(new.data_dir, "new-1", PARTITION_METADATA).read_text() == identity


def test_a_topic_whose_partitions_were_never_used_is_deleted_after_a_stop_and_made_again(new: Harness) -> None:
    new.restart()
    new.fetch_one(0, "new", 1)
    new.delete("new")
    assert directories(new) == set()
    new.create("new", 3)
    assert new.produce(batch(b"a"), "new", 1).base_offset == 0


def test_a_link_in_the_place_of_an_unused_partition_is_followed(new: Harness, tmp_path: Path) -> None:
    new.close()
    Path(new.data_dir, "new-1").rename(tmp_path / "elsewhere")
    Path(new.data_dir, "new-1").symlink_to(tmp_path / "elsewhere")
    new.start()
    assert new.produce(batch(b"a"), "new", 1).base_offset == 0
    assert (tmp_path / "elsewhere" / LOG).stat().st_size


def test_a_clean_stop_on_a_full_disk_is_clean_without_the_directories(
    new: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    new.produce(batch(b"a"), "new", 1)

    def full(directory: str, topic_id: bytes, *, twin: str | None = None) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), directory)

    with monkeypatch.context() as patched:
        patched.setattr(log_manager, "create_unused_directory", full)
        new.close()
    assert "No space left on device" in caplog.text
    assert directories(new) == {"new-1"}
    assert Path(new.data_dir, ".kafka_cleanshutdown").exists()
    new.start()
    assert partitions(new) == 3


def test_a_directory_that_cannot_be_made_refuses_the_records(new: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(directory: str, topic_id: bytes) -> None:
        os.mkdir(directory)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), directory)

    with monkeypatch.context() as patched:
        patched.setattr(partition_module, "create_partition_directory", full)
        assert new.produce(batch(b"a"), "new").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert directories(new) == set()
    assert new.fetch_one(0, "new").high_watermark == 0
    assert new.produce(batch(b"a"), "new").base_offset == 0


def test_what_a_failed_attempt_has_left_is_no_obstacle(new: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        patched.setattr(os, "rmdir", full)
        assert new.produce(batch(b"a"), "new").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert directories(new) == {"new-0"}
    assert new.produce(batch(b"a"), "new").base_offset == 0
    new.crash()
    assert values_in(new.fetch_one(0, "new").records) == [(0, b"a")]


def test_something_in_the_place_of_a_directory_refuses_records(new: Harness) -> None:
    new.fetch_one(0, "new")  # The log is open.
    Path(new.data_dir, "new-0").mkdir()
    Path(new.data_dir, "new-0", "README").write_text("mine")
    assert new.produce(batch(b"a"), "new").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert Path(new.data_dir, "new-0", "README").read_text() == "mine"


def test_something_in_the_place_of_a_directory_refuses_the_topic(harness: Harness) -> None:
    Path(harness.data_dir, "new-1").mkdir()
    Path(harness.data_dir, "new-1", "README").write_text("mine")
    assert harness.ask(create_request("new", partitions=3), 7).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert Path(harness.data_dir, "new-1", "README").read_text() == "mine"
    harness.restart()
    assert harness.core.topics.get("new") is None


def test_something_in_the_place_of_a_directory_refuses_growth(new: Harness) -> None:
    Path(new.data_dir, "new-3").symlink_to("/nowhere")
    growth = CreatePartitionsTopic(name="new", count=5, assignments=None)
    (outcome,) = new.ask(CreatePartitionsRequest(topics=[growth], timeout_ms=20_000), 2).results
    assert outcome.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    new.crash()
    assert partitions(new) == 3


def test_an_empty_directory_of_a_crash_is_taken_over(harness: Harness) -> None:
    Path(harness.data_dir, "new-0").mkdir()
    harness.create("new")
    assert harness.produce(batch(b"a"), "new").base_offset == 0


def test_a_topic_that_is_made_again_knows_nothing_of_the_one_before(new: Harness) -> None:
    new.produce(batch(b"a"), "new", 1)
    new.delete("new")
    new.create("new", 3)
    assert directories(new) == set()
    new.crash()
    assert [new.fetch_one(0, "new", index).high_watermark for index in range(3)] == [0, 0, 0]


def test_a_partition_whose_directory_has_gone_ends_where_it_ended(new: Harness) -> None:
    for number in range(3):
        new.produce(batch(b"%d" % number), "new")
    new.close()
    log_start = Path(new.data_dir, "log-start-offset-checkpoint")
    log_start.write_text("0\n1\nnew 0 3\n")
    for path in Path(new.data_dir, "new-0").iterdir():
        path.unlink()
    Path(new.data_dir, "new-0").rmdir()
    new.start()
    assert new.produce(batch(b"d"), "new").base_offset == 3
