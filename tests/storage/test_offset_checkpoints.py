"""The offset checkpoints of a data directory: their content, and when they are written."""

import logging
from pathlib import Path

import pytest

from minibroker_storage.data_directory.offset_checkpoints import OffsetCheckpoint

NAME = "log-start-offset-checkpoint"


@pytest.fixture
def checkpoint(tmp_path: Path) -> OffsetCheckpoint:
    return OffsetCheckpoint(str(tmp_path), NAME)


def test_what_was_saved_is_there_again(tmp_path: Path) -> None:
    first = OffsetCheckpoint(str(tmp_path), NAME)
    assert first.offsets == {}
    was_behind = [first.is_behind]
    first.offsets = {("t", 0): 5}
    was_behind.append(first.is_behind)
    first.save(sync=True)
    assert [*was_behind, first.is_behind] == [False, True, False]
    assert OffsetCheckpoint(str(tmp_path), NAME).offsets == {("t", 0): 5}


def test_nothing_is_written_when_nothing_has_changed(checkpoint: OffsetCheckpoint, tmp_path: Path) -> None:
    checkpoint.save(sync=True)
    assert not (tmp_path / NAME).exists()
    checkpoint.offsets = {("t", 0): 5}
    checkpoint.save(sync=True)
    (tmp_path / NAME).unlink()
    checkpoint.offsets = {("t", 0): 5}
    checkpoint.save(sync=True)
    assert not (tmp_path / NAME).exists()


def test_what_is_not_on_the_disk_yet_is_written_there_later(checkpoint: OffsetCheckpoint) -> None:
    checkpoint.offsets = {("t", 0): 5}
    checkpoint.save(sync=False)
    was_behind = checkpoint.is_behind
    checkpoint.save(sync=True)
    assert (was_behind, checkpoint.is_behind) == (True, False)


def test_a_damaged_file_is_ignored_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / NAME).write_text("0\n2\nt 0 1\n")
    checkpoint = OffsetCheckpoint(str(tmp_path), NAME)
    assert checkpoint.offsets == {}
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(tmp_path / NAME) in record.getMessage()
    checkpoint.offsets = {("t", 0): 5}
    checkpoint.save(sync=True)
    assert OffsetCheckpoint(str(tmp_path), NAME).offsets == {("t", 0): 5}


def test_an_error_in_the_background_is_logged(
    checkpoint: OffsetCheckpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint.offsets = {("t", 0): 5}
    (tmp_path / f"{NAME}.tmp").mkdir()
    checkpoint.save_logged()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    was_behind = checkpoint.is_behind
    (tmp_path / f"{NAME}.tmp").rmdir()
    checkpoint.save_logged()
    assert (was_behind, checkpoint.is_behind) == (True, False)


def test_new_topics_inherit_nothing(checkpoint: OffsetCheckpoint, tmp_path: Path) -> None:
    checkpoint.offsets = {("t", 0): 5, ("t", 1): 6, ("u", 0): 7}
    checkpoint.save(sync=True)
    checkpoint.forget(frozenset({"t", "v"}))
    assert checkpoint.offsets == OffsetCheckpoint(str(tmp_path), NAME).offsets == {("u", 0): 7}


def test_what_only_the_file_still_holds_is_forgotten_as_well(checkpoint: OffsetCheckpoint, tmp_path: Path) -> None:
    checkpoint.offsets = {("t", 0): 5}
    checkpoint.save(sync=True)
    checkpoint.offsets = {}  # The change was not written yet when the topic was deleted.
    checkpoint.forget(frozenset({"t"}))
    assert OffsetCheckpoint(str(tmp_path), NAME).offsets == {}
