"""Foreign directories in the data directory, some of which only look like partitions."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.primitives import new_uuid, uuid_text
from minibroker_storage.layout import PARTITION_METADATA
from tests.broker.harness import Harness, batch, values_in


def restarted(harness: Harness) -> set[str]:
    """Restart the broker, and return the names of its topics."""
    harness.restart()
    return {topic.name for topic in harness.core.topics}


@pytest.mark.parametrize(
    "name", ["backup-20261122", "orders-backup-2026112", "orders-100000", f"orders-{'9' * 200}", "orders-0", "a.b-1"]
)
def test_a_directory_that_only_looks_like_a_partition_is_left_alone(
    harness: Harness, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory = Path(harness.data_dir, name)
    directory.mkdir()
    (directory / "README").write_text("mine")
    assert restarted(harness) == {"t"}
    assert (directory / "README").read_text() == "mine"
    (warning,) = [record.message for record in caplog.records if name in record.message]
    assert warning.startswith(f"{harness.data_dir}: left alone (")


def test_a_large_number_is_left_alone_whatever_is_in_the_directory(harness: Harness) -> None:
    harness.produce(batch(b"a record"))
    shutil.copytree(f"{harness.data_dir}/t-0", f"{harness.data_dir}/backup-20261122")
    assert restarted(harness) == {"t"}


def test_a_number_with_zeros_before_it_is_left_alone(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.produce(batch(b"a record"))
    shutil.copytree(f"{harness.data_dir}/t-0", f"{harness.data_dir}/orders-007")
    assert restarted(harness) == {"t"}
    assert "left alone (brokers never name a partition so): orders-007" in caplog.text


def test_many_foreign_directories_make_one_line(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(9):
        Path(harness.data_dir, f"x-{number}").mkdir()
    assert restarted(harness) == {"t"}
    (warning,) = [record.message for record in caplog.records if "left alone" in record.message]
    assert warning.endswith("(no files of a partition are in them): x-0, x-1, x-2, x-3, x-4 and 4 more")


def test_an_unknown_link_is_left_alone(harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    harness.produce(batch(b"a record"))
    shutil.copytree(f"{harness.data_dir}/t-0", tmp_path / "elsewhere")
    Path(harness.data_dir, "linked-0").symlink_to(tmp_path / "elsewhere")
    assert restarted(harness) == {"t"}
    assert "left alone (symbolic links are not taken for partitions): linked-0" in caplog.text


def test_a_partition_that_was_moved_and_linked_is_served_and_deleted_without_what_the_link_leads_to(
    harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    harness.produce(batch(b"moved"))
    harness.close()
    elsewhere = tmp_path / "elsewhere"
    shutil.move(f"{harness.data_dir}/t-0", elsewhere)
    (elsewhere / "README").write_text("mine")
    Path(harness.data_dir, "t-0").symlink_to(elsewhere)
    harness.start()
    assert values_in(harness.fetch_one(0).records) == [(0, b"moved")]
    before = sorted(os.listdir(elsewhere))
    harness.delete("t")
    assert f"its files stay where the link leads: {elsewhere}" in caplog.text
    assert sorted(os.listdir(elsewhere)) == before
    assert not [name for name in os.listdir(harness.data_dir) if "t-0" in name]
    assert restarted(harness) == set()


def test_a_leftover_that_cannot_be_removed_does_not_stop_the_start(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leftover = f"t-0.{'0' * 32}-delete"
    Path(harness.data_dir, leftover).mkdir()

    def rmdir(path: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", rmdir)
        assert restarted(harness) == {"t"}
    assert f"{leftover} cannot be removed: [Errno 1]" in caplog.text
    assert restarted(harness) == {"t"}
    assert not Path(harness.data_dir, leftover).exists()


def test_a_leftover_that_is_a_file_or_a_link_goes(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "README").write_text("mine")
    Path(harness.data_dir, f"a-0.{'0' * 32}-delete").symlink_to(tmp_path / "elsewhere")
    Path(harness.data_dir, f"b-0.{'0' * 32}-delete").write_text("a file")
    assert restarted(harness) == {"t"}
    assert (tmp_path / "elsewhere" / "README").read_text() == "mine"
    assert not Path(harness.data_dir, f"a-0.{'0' * 32}-delete").is_symlink()


def test_empty_partitions_that_a_crash_has_left_to_a_topic_do_not_outlive_its_deletion(harness: Harness) -> None:
    harness.restart()  # A clean stop creates the directory of t-0.
    for index, (name, records) in enumerate((("t-1", b""), ("t-2", b"records")), 1):
        shutil.copytree(f"{harness.data_dir}/t-0", f"{harness.data_dir}/t-{index}")
        Path(harness.data_dir, name, f"{0:020}.log").write_bytes(records)
    for name, content in (("t-3", ""), ("t-4", f"version: 0\ntopic_id: {uuid_text(new_uuid())}\n")):
        shutil.copytree(f"{harness.data_dir}/t-0", f"{harness.data_dir}/{name}")
        Path(harness.data_dir, name, PARTITION_METADATA).write_text(content)  # A crash may lose the id, too.
    for name, file in (("t-20261122", "notes"), ("t-5", "notes"), ("t-6", f"{7:020}.log")):
        shutil.copytree(f"{harness.data_dir}/t-0", f"{harness.data_dir}/{name}")
        Path(harness.data_dir, name, file).touch()
    assert restarted(harness) == {"t"}
    remaining = {path.name for path in Path(harness.data_dir).glob("t-*")}
    assert remaining == {"t-0", "t-2", "t-20261122", "t-5", "t-6"}
    (topic,) = harness.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12).topics
    assert len(topic.partitions) == 1
