"""The small text files of a partition and of a data directory."""

import errno
import os
from pathlib import Path

import pytest

from minibroker_storage.checkpoints import LeaderEpochCheckpoint, partition_metadata, read_partition_metadata
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint, write_offset_checkpoint
from minibroker_storage.errors import CorruptCheckpointError
from minibroker_storage.files import write_atomically
from tests.storage.helpers import TOPIC_ID, Disk


def checkpoint(tmp_path: Path, text: str | None = None) -> LeaderEpochCheckpoint:
    path = tmp_path / "leader-epoch-checkpoint"
    if text is not None:
        path.write_text(text)
    epochs = LeaderEpochCheckpoint(str(path))
    epochs.load()
    return epochs


def test_an_atomic_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a long old content")
    write_atomically(str(path), b"new", sync=True)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("room", [0, 2])
def test_a_failed_atomic_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, disk: Disk, room: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    disk.room = room
    with pytest.raises(OSError, match="space") as raised:
        write_atomically(str(path), b"new bytes")
    assert raised.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_partition_metadata_has_the_topic_id_in_base64_for_urls() -> None:
    assert partition_metadata(b"\xfb\xef\xbe" * 5 + b"\xff") == b"version: 0\ntopic_id: --------------------_w"
    assert partition_metadata(TOPIC_ID) == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize("topic_id", [TOPIC_ID, b"\xff" * 16, bytes(16), b"\xfb\xef\xbe\xff" * 4])
def test_partition_metadata_reads_back(tmp_path: Path, topic_id: bytes) -> None:
    path = tmp_path / "partition.metadata"
    path.write_bytes(partition_metadata(topic_id))
    assert read_partition_metadata(str(path)) == topic_id
    path.write_bytes(partition_metadata(topic_id) + b"\n")
    assert read_partition_metadata(str(path)) == topic_id


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 0\n",
        b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        b"version: x\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        b"version: 0\ntopic_id: AAEC",
        b"version: 0\ntopic_id: A",
    ],
)
def test_metadata_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "partition.metadata"
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpointError):
        read_partition_metadata(str(path))


def test_the_leader_epoch_checkpoint_is_kafkas_text(tmp_path: Path) -> None:
    epochs = checkpoint(tmp_path)
    assert epochs.assign(0, 0)
    assert epochs.assign(3, 42)
    epochs.write()
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 42\n"
    assert checkpoint(tmp_path).entries == ((0, 0), (3, 42))


def test_an_empty_or_missing_checkpoint_has_no_entries(tmp_path: Path) -> None:
    assert checkpoint(tmp_path).entries == ()
    assert checkpoint(tmp_path, "").latest_epoch == -1


@pytest.mark.parametrize(
    "text",
    ["0\n", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0\n", "0\n1\n0 0 0\n", "0\n2\n3 0\n1 9\n", "x\n0\n", "0\n2\n1 1\n1 1\n"],
)
def test_a_checkpoint_that_is_none_is_refused_and_leaves_no_entries(tmp_path: Path, text: str) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text(text)
    epochs = LeaderEpochCheckpoint(str(path))
    with pytest.raises(CorruptCheckpointError):
        epochs.load()
    assert epochs.entries == ()


def test_assigning_what_is_known_changes_nothing(tmp_path: Path) -> None:
    epochs = checkpoint(tmp_path, "0\n2\n0 0\n3 42\n")
    assert not epochs.assign(3, 42)
    assert not epochs.assign(3, 60)
    assert not epochs.assign(-1, 60)
    assert epochs.entries == ((0, 0), (3, 42))


@pytest.mark.parametrize(
    ("epoch", "offset", "entries"),
    [
        (4, 50, ((0, 0), (3, 42), (4, 50))),
        (4, 42, ((0, 0), (4, 42))),
        (4, 20, ((0, 0), (4, 20))),
        (2, 60, ((0, 0), (2, 60))),
        (3, 30, ((0, 0), (3, 30))),
        (5, 0, ((5, 0),)),
    ],
)
def test_a_new_epoch_removes_those_that_are_not_below_it(
    tmp_path: Path, epoch: int, offset: int, entries: tuple[tuple[int, int], ...]
) -> None:
    epochs = checkpoint(tmp_path, "0\n2\n0 0\n3 42\n")
    assert epochs.assign(epoch, offset)
    assert epochs.entries == entries


def test_epochs_are_cut_at_both_ends(tmp_path: Path) -> None:
    epochs = checkpoint(tmp_path, "0\n3\n0 0\n3 42\n4 50\n")
    assert not epochs.truncate_from_end(51)
    assert epochs.truncate_from_end(50)
    assert epochs.entries == ((0, 0), (3, 42))
    assert epochs.truncate_from_start(10)
    assert epochs.entries == ((0, 10), (3, 42))
    assert not epochs.truncate_from_start(10)
    assert not epochs.truncate_from_start(5)
    assert epochs.truncate_from_start(42)
    assert list(epochs.entries) == [(3, 42)]


@pytest.mark.parametrize(
    ("epoch", "found"), [(-1, (-1, -1)), (0, (0, 10)), (1, (1, 42)), (3, (1, 42)), (4, (4, 99)), (5, (-1, -1))]
)
def test_the_end_of_an_epoch_is_where_the_next_one_begins(tmp_path: Path, epoch: int, found: tuple[int, int]) -> None:
    epochs = checkpoint(tmp_path, "0\n2\n1 10\n4 42\n")
    assert epochs.end_offset_for(epoch, 99) == found


def test_an_offset_has_the_epoch_that_began_at_or_before_it(tmp_path: Path) -> None:
    epochs = checkpoint(tmp_path, "0\n2\n1 10\n4 42\n")
    assert [epochs.epoch_for(offset) for offset in (9, 10, 41, 42, 1000)] == [-1, 1, 1, 4, 4]


# Offset checkpoints


def test_an_offset_checkpoint_is_written_as_kafka_does(tmp_path: Path) -> None:
    path = str(tmp_path / "recovery-point-offset-checkpoint")
    write_offset_checkpoint(path, {("orders", 0): 17, ("a.b_c-d", 12): 0}, sync=True)
    assert Path(path).read_bytes() == b"0\n2\norders 0 17\na.b_c-d 12 0\n"
    write_offset_checkpoint(path, {})
    assert Path(path).read_bytes() == b"0\n0\n"


@pytest.mark.parametrize("offsets", [{}, {("t", 0): 0}, {("t", n): 2**62 + n for n in range(5000)}])
def test_an_offset_checkpoint_reads_back(tmp_path: Path, offsets: dict[tuple[str, int], int]) -> None:
    path = str(tmp_path / "checkpoint")
    write_offset_checkpoint(path, offsets)
    assert read_offset_checkpoint(path) == offsets


def test_a_missing_or_an_empty_offset_checkpoint_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    assert read_offset_checkpoint(str(path)) == {}
    path.write_bytes(b"")
    assert read_offset_checkpoint(str(path)) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"0\n",
        b"1\n0\n",
        b"0\n1\n",
        b"0\n1\nt 0 1\nt 1 1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 1 2\n",
        b"0\n1\nt x 1\n",
        b"x\n0\n",
        b"0\n1\n\xff 0 1\n",
        bytes(20),
    ],
)
def test_a_damaged_offset_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match="checkpoint"):
        read_offset_checkpoint(str(path))
