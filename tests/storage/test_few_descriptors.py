"""A shortage of descriptors at any point leaves the log unchanged and no file open, and a retry succeeds."""

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker_storage.cleaner import finish_cleaning, plan_cleaning, remove_cleaned_files
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import LogWriteError, StorageError
from minibroker_storage.files import FilePool
from tests.storage.helpers import NOW, Home, a_batch, filled, offsets_of, sequenced
from tests.storage.time_search import offset_of_time

_MOST_OPENS: Final = 300
COMPACTED: Final = LogConfig(
    segment_bytes=1500, index_interval_bytes=200, segment_index_bytes=1200, compact=True, min_cleanable_dirty_ratio=0.01
)


class Kernel:
    """Replaces `os.open` and fails after a number of calls; None disables this."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open = os.open
        self.left: int | None = None
        monkeypatch.setattr(os, "open", self.open)

    def open(self, *arguments: Any, **others: Any) -> int:
        if self.left is not None:
            if not self.left:
                raise OSError(errno.EMFILE, "Too many open files")
            self.left -= 1
        return self._open(*arguments, **others)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def at_every_open(kernel: Kernel, act: Callable[[], object], after: Callable[[], object]) -> int:
    """Let `act` fail at its first call to `os.open`, then at its second and so on, and return the number of calls."""
    for count in range(_MOST_OPENS):
        kernel.left = count
        failed = True
        with suppress(OSError, StorageError):
            act()
            failed = False
        kernel.left = None
        after()
        if not failed:
            return count
    raise AssertionError("it never came through")


@pytest.mark.parametrize("last_stop", LastStop)
def test_a_log_that_cannot_be_opened_keeps_no_file_and_opens_later(
    tmp_path: Path, kernel: Kernel, last_stop: LastStop
) -> None:
    home = filled(tmp_path)
    home.append(sequenced(0))
    before = offsets_of(home.log)
    home.log.close()
    home.files = FilePool(100)
    opens = at_every_open(kernel, lambda: home.open(last_stop=last_stop), lambda: open_are(home.files, home))
    assert opens > 4
    assert offsets_of(home.log) == before


def crowd_out(home: Home) -> None:
    """Close a log's files as the pool does to make room."""
    for segment in home.log.segments:
        for handle in segment.handles:
            handle.evict()


def open_are(files: FilePool, home: Home) -> None:
    """Check that only an opened log has open files."""
    assert len(files) == 0 or home.log.segments[-1].log._fd >= 0


def test_appends_and_rolls_fail_and_go_on(tmp_path: Path, kernel: Kernel) -> None:
    home = filled(tmp_path, 5)
    appended = 0

    def roll_and_append() -> None:
        nonlocal appended
        crowd_out(home)
        home.log.roll(NOW)
        home.append(a_batch())
        appended += 1

    assert at_every_open(kernel, roll_and_append, lambda: None) > 1
    assert offsets_of(home.log) == [0, 3, 6, 9, 12, *range(15, 15 + appended)]
    assert home.log.log_end_offset == 15 + appended
    home.reopen(LastStop.KILLED)
    assert home.log.log_end_offset == 15 + appended


def test_a_cleaning_that_cannot_be_put_in_place_leaves_the_log_as_it_was(tmp_path: Path, kernel: Kernel) -> None:
    home = Home(tmp_path / "orders-0", COMPACTED)
    for _ in range(5):
        home.append(a_batch(3))
        home.log.roll(NOW)
    home.append(a_batch())
    cleanings = 0

    def clean_it() -> None:
        nonlocal cleanings
        plan = plan_cleaning(home.log, None, NOW, force=True)
        assert plan is not None
        left, kernel.left = kernel.left, None  # The cleaner's process has its own descriptors.
        result = clean(plan)
        kernel.left = left
        crowd_out(home)
        finish_cleaning(home.log, result)
        cleanings += 1

    def look() -> None:
        remove_cleaned_files(home.log.directory)
        assert offsets_of(home.log)[-1] == 15
        copy = tmp_path / "copy"
        shutil.copytree(home.path, copy)
        shutil.rmtree(copy)
        home.append(a_batch())
        home.log.truncate_to(16, NOW)

    assert at_every_open(kernel, clean_it, look) == 2
    assert cleanings == 1


def test_a_segment_that_could_not_be_closed_gets_its_last_entry_later(tmp_path: Path, kernel: Kernel) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=100, segment_index_bytes=1200))
    home.append(a_batch(timestamps=[NOW]), a_batch(timestamps=[NOW + 2]))
    crowd_out(home)
    kernel.left = 3  # The next segment needs three files.
    with pytest.raises(LogWriteError):
        home.log.roll(NOW)
    crowd_out(home)
    kernel.left = 0
    home.stage(a_batch(timestamps=[NOW]), a_batch(timestamps=[NOW]))
    with pytest.raises(LogWriteError):
        home.log.commit()
    kernel.left = None
    home.log.roll(NOW)
    times = home.log.segments[0].time_index
    assert times.entry(times.entries - 1) == (NOW + 2, 1)
    home.reopen(LastStop.CLEAN)
    assert offset_of_time(home.log, NOW + 2) == 1


@pytest.mark.parametrize("ends", ["roll", "close"])
def test_what_could_not_be_cut_off_is_cut_off_before_the_segment_is_closed(
    tmp_path: Path, kernel: Kernel, ends: str
) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=0, segment_index_bytes=1200))
    home.append(sequenced(0), sequenced(1))
    segment = home.log.segments[0]
    size = segment.size
    for handle in (segment.offset_index.file, segment.time_index.file):
        handle.evict()
    home.files.capacity = 1  # Opening an index closes the log.
    kernel.left = 0
    home.stage(sequenced(2))
    with pytest.raises(LogWriteError):
        home.log.commit()
    path = home.path / f"{0:020d}.log"
    assert path.stat().st_size > size
    kernel.left = None
    if ends == "roll":
        home.log.roll(NOW)
        home.append(a_batch())
    home.log.close()
    assert path.stat().st_size == size
    home.open(last_stop=LastStop.CLEAN)
    assert offsets_of(home.log) == ([0, 1, 2] if ends == "roll" else [0, 1])
