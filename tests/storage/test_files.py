"""Descriptors are opened on use, limited in number, and kept open for readers."""

import errno
import os
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from minibroker_storage import descriptors
from minibroker_storage.errors import LogClosedError
from minibroker_storage.files import IOV_MAX, FileHandle, FilePool, pwrite_all, pwritev_all
from tests.patience import PATIENCE_S
from tests.storage.helpers import Disk


def files(tmp_path: Path, pool: FilePool, count: int) -> list[FileHandle]:
    handles = [pool.handle(str(tmp_path / f"file{number}"), os.O_RDWR | os.O_CREAT) for number in range(count)]
    for number, handle in enumerate(handles):
        os.pwrite(handle.fd(), b"%d" % number, 0)
    return handles


def is_open(fd: int) -> bool:
    return os.path.exists(f"/dev/fd/{fd}")


def test_a_file_is_opened_on_the_first_use_of_its_descriptor(tmp_path: Path) -> None:
    pool = FilePool(2)
    handle = pool.handle(str(tmp_path / "file"), os.O_RDWR | os.O_CREAT)
    assert not (tmp_path / "file").exists()
    before = handle._fd >= 0
    fd = handle.fd()
    assert handle.fd() == fd
    assert (before, handle._fd >= 0) == (False, True)
    assert len(pool) == 1


def test_the_longest_unused_descriptor_makes_room(tmp_path: Path) -> None:
    pool = FilePool(2)
    first, second, third = files(tmp_path, pool, 3)
    assert [handle._fd >= 0 for handle in (first, second, third)] == [False, True, True]
    second.fd()
    first.fd()
    assert [handle._fd >= 0 for handle in (first, second, third)] == [True, True, False]


def test_a_file_is_reopened_as_long_as_it_is_there(tmp_path: Path) -> None:
    pool = FilePool(1)
    (handle,) = files(tmp_path, pool, 1)
    fd = handle.reopen()
    handle.delete()
    with pytest.raises(OSError, match="file0"):
        handle.reopen()
    (tmp_path / "file0").write_bytes(b"of another log")
    with pytest.raises(LogClosedError, match="file0: closed"):
        handle.reopen()
    assert os.pread(fd, 10, 0) == b"0"
    os.close(fd)
    assert len(pool) == 0


def test_no_more_than_the_capacity_is_ever_open(tmp_path: Path) -> None:
    pool = FilePool(3)
    handles = files(tmp_path, pool, 20)
    for turn in range(60):
        handle = handles[turn * 7 % 20]
        assert os.pread(handle.fd(), 5, 0) == b"%d" % (turn * 7 % 20)
        assert sum(handle._fd >= 0 for handle in handles) == len(pool) <= 3


@pytest.mark.parametrize("flags", [os.O_CREAT, os.O_CREAT | os.O_TRUNC, os.O_CREAT | os.O_EXCL])
def test_a_file_that_comes_back_after_eviction_keeps_its_bytes(tmp_path: Path, flags: int) -> None:
    pool = FilePool(1)
    handle = pool.handle(str(tmp_path / "file"), os.O_RDWR | flags)
    os.pwrite(handle.fd(), b"bytes", 0)
    files(tmp_path, pool, 1)
    assert not handle._fd >= 0
    assert os.pread(handle.fd(), 9, 0) == b"bytes"


def test_a_pinned_descriptor_outlives_the_need_for_room(tmp_path: Path) -> None:
    pool = FilePool(1)
    (pinned,) = files(tmp_path, pool, 1)
    fd = pinned.pin()
    unpinned = [pool.handle(str(tmp_path / name), os.O_RDWR | os.O_CREAT) for name in "abc"]
    for handle in unpinned:
        handle.fd()
    assert os.pread(fd, 1, 0) == b"0"
    assert len(pool) == 2
    pinned.unpin()
    assert len(pool) == 1
    assert not is_open(fd)


def test_only_the_last_unpin_lets_a_deleted_file_go(tmp_path: Path) -> None:
    pool = FilePool(4)
    (handle,) = files(tmp_path, pool, 1)
    with handle as fd:
        handle.pin()
        handle.delete()
        assert not (tmp_path / "file0").exists()
        handle.unpin()
        assert os.pread(fd, 1, 0) == b"0"
        assert handle.pin() == fd
        handle.unpin()
    assert not is_open(fd)
    assert len(pool) == 0


def test_a_closed_handle_refuses_to_open_again(tmp_path: Path) -> None:
    pool = FilePool(4)
    (handle,) = files(tmp_path, pool, 1)
    fd = handle.fd()
    handle.close()
    assert not is_open(fd)
    with pytest.raises(LogClosedError, match="file0"):
        handle.fd()
    with pytest.raises(LogClosedError):
        handle.pin()


def test_deleting_a_file_that_is_gone_is_no_error(tmp_path: Path) -> None:
    (handle,) = files(tmp_path, FilePool(1), 1)
    (tmp_path / "file0").unlink()
    handle.delete()
    assert not handle._fd >= 0


def test_an_unpin_too_many_is_told(tmp_path: Path) -> None:
    (handle,) = files(tmp_path, FilePool(1), 1)
    with pytest.raises(ValueError, match="more often"):
        handle.unpin()


def test_a_pool_needs_room_for_one() -> None:
    with pytest.raises(ValueError, match="capacity"):
        FilePool(0)


def test_a_process_without_descriptors_gives_up_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = FilePool(100)
    handles = files(tmp_path, pool, 4)
    real, failures = os.open, [OSError(errno.EMFILE, "no descriptors")]

    def scarce(*arguments: Any) -> int:
        if failures:
            raise failures.pop()
        return real(*arguments)

    monkeypatch.setattr(os, "open", scarce)
    late = pool.handle(str(tmp_path / "late"), os.O_RDWR | os.O_CREAT)
    assert is_open(late.fd())
    assert [handle._fd >= 0 for handle in handles] == [False, False, True, True]


def test_any_other_error_of_opening_goes_to_the_caller(tmp_path: Path) -> None:
    pool = FilePool(2)
    with pytest.raises(FileNotFoundError):
        pool.handle(str(tmp_path / "missing")).fd()
    assert len(pool) == 0


@pytest.mark.parametrize("most", [1, 3, 7, 1000])
def test_writes_go_on_where_the_kernel_stopped(tmp_path: Path, disk: Disk, most: int) -> None:
    disk.most = most
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    pwrite_all(fd, b"0123456789", 0)
    pwritev_all(fd, [memoryview(b"abc"), bytearray(b"defgh"), b"", b"ij"], 10)
    assert os.pread(fd, 100, 0) == b"0123456789abcdefghij"
    os.close(fd)


def test_more_buffers_than_one_call_takes_are_all_written(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    buffers = [b"%06d" % number for number in range(2 * IOV_MAX + 5)]
    pwritev_all(fd, buffers, 3)
    assert os.pread(fd, 1 << 20, 3) == b"".join(buffers)
    os.close(fd)


def test_a_system_without_pwritev_writes_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pwritev")
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    pwritev_all(fd, [b"abc", b"def"], 2)
    assert os.pread(fd, 100, 0) == b"\0\0abcdef"
    os.close(fd)


def test_a_kernel_that_takes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    with pytest.raises(OSError, match="no more bytes"):
        pwrite_all(fd, b"x", 0)
    os.close(fd)


# Shortage of descriptors
#
# The kernel assigns the lowest free number, so a limit just above that acts like a full process.


def next_descriptor() -> int:
    fd = os.dup(0)
    os.close(fd)
    return fd


def _with_room(work: Callable[[Path, int], None], directory: Path, room: int) -> None:
    limit = next_descriptor() + room
    with patch.object(descriptors, "limit", lambda: limit):
        work(directory, limit)


def keep_none_of_the_last(directory: Path, limit: int) -> None:
    """A pool leaves the last descriptors free."""
    pool = FilePool(1000)
    handles = files(directory, pool, 300)
    assert all(handle.fd() < limit - min(16, limit // 8) for handle in handles)
    assert 20 < len(pool) < 80


def make_way_and_come_back(directory: Path, limit: int) -> None:
    """Files are closed to make room for connections, and can be reopened."""
    pool = FilePool(1000)
    files(directory, pool, 60)
    before = len(pool)
    assert not descriptors.can_accept_connection(0)
    assert pool.make_room_for_connection(0)
    assert 0 < len(pool) < before
    while pool.make_room_for_connection(0):
        os.dup(0)
    assert len(pool) <= descriptors.max_files_beside_connections()
    for number in range(60):  # The files still exist and can be used.
        assert os.pread(pool.handle(str(directory / f"file{number}")).fd(), 5, 0) == b"%d" % number
    assert next_descriptor() < limit - 4


def make_no_way(directory: Path, limit: int) -> None:
    """Pinned files are not closed to make room for connections."""
    pool = FilePool(1000)
    handles = files(directory, pool, 30)
    open_handles = [handle for handle in handles if handle._fd >= 0]
    for handle in open_handles:
        handle.pin()
    assert not pool.make_room_for_connection(0)
    assert all(handle._fd >= 0 for handle in open_handles)
    for handle in open_handles:
        handle.unpin()
    assert pool.make_room_for_connection(0)
    assert next_descriptor() < limit


@pytest.mark.parametrize(
    ("work", "room"), [(keep_none_of_the_last, 80), (make_way_and_come_back, 80), (make_no_way, 40)]
)
def test_a_process_with_few_descriptors_left(tmp_path: Path, work: Callable[[Path, int], None], room: int) -> None:
    """Call `work` in a new process with few open descriptors and `room` free ones, since their numbers matter."""
    process = get_context("spawn").Process(target=_with_room, args=(work, tmp_path, room))
    process.start()
    process.join(PATIENCE_S)
    assert process.exitcode == 0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.EMFILE, ""), True),
        (OSError(errno.ENFILE, ""), True),
        (ImportError("/x.so: cannot open shared object file: Too many open files"), True),
        (OSError(errno.ENOSPC, ""), False),
        (ImportError("No module named x"), False),
        (ValueError(), False),
    ],
)
def test_a_shortage_is_told_from_other_errors(error: Exception, *, expected: bool) -> None:
    assert descriptors.is_shortage(error) is expected
