"""Helpers for the storage tests: batches, logs in a directory, their contents, and failing disks."""

import errno
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from minibroker_protocol.records.batch import Batch as AnyBatch
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import BatchHeader, read_header
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import LogWriteError
from minibroker_storage.files import FilePool
from minibroker_storage.layout import create_partition_directory
from minibroker_storage.log import Log

TOPIC_ID = bytes(range(16))
NOW = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=1500, index_interval_bytes=200, segment_index_bytes=1200)

LOG = "00000000000000000000.log"
INDEX = "00000000000000000000.index"
TIME_INDEX = "00000000000000000000.timeindex"


class Batch(NamedTuple):
    """A batch in a connection's buffer, and its header as received."""

    view: memoryview
    header: BatchHeader

    @property
    def size(self) -> int:
        return len(self.view)


def a_batch(count: int = 1, *, value: bytes = b"value", timestamps: Sequence[int] = (), **fields: Any) -> Batch:
    """Return a batch of `count` equal records, with `timestamps`; `fields` are passed to `build_batch`."""
    times = list(timestamps) or [NOW] * count
    view = memoryview(build_batch([NewRecord(None, value, time) for time in times], **fields))
    return Batch(view, read_header(view))


def sequenced(base_sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, **fields: Any) -> Batch:
    """Return a batch of an idempotent producer."""
    return a_batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=base_sequence, **fields)


def marker(*, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 3, commit: bool = True) -> Batch:
    """Return a transaction marker in a coordinator's format: version 0, type, version 0, coordinator epoch."""
    record = NewRecord(struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, coordinator_epoch), NOW + 5)
    view = memoryview(
        build_batch([record], producer_id=producer_id, producer_epoch=epoch, is_transactional=True, is_control=True)
    )
    return Batch(view, read_header(view))


class Home:
    """A partition's directory and the log in it, which can be closed and reopened."""

    def __init__(self, path: Path, config: LogConfig = SMALL, files: FilePool | None = None) -> None:
        self.path = path
        self.config = config
        self.files = files or FilePool(100)
        create_partition_directory(str(path), TOPIC_ID)
        self.log = self.open(last_stop=LastStop.CLEAN)

    def open(
        self, *, last_stop: LastStop, recovery_point: int = 0, log_start_offset: int = 0, now_ms: int = NOW
    ) -> Log:
        self.log = Log.open(
            str(self.path),
            config=self.config,
            files=self.files,
            last_stop=last_stop,
            recovery_point=recovery_point,
            now_ms=now_ms,
            log_start_offset=log_start_offset,
        )
        return self.log

    def crash(self) -> None:
        abandon(self.log)

    def stop(self, last_stop: LastStop) -> None:
        """Close the log for a clean stop, or else abandon it."""
        if last_stop is LastStop.CLEAN:
            self.log.close()
        else:
            self.crash()

    def reopen(self, last_stop: LastStop, *, recovery_point: int = 0, log_start_offset: int = 0) -> Log:
        """Stop the log in the way given by `last_stop`, and open it again."""
        self.stop(last_stop)
        return self.open(last_stop=last_stop, recovery_point=recovery_point, log_start_offset=log_start_offset)

    def stage(self, *batches: Batch, leader_epoch: int = 0, now_ms: int = NOW) -> list[int]:
        return [self.log.append(batch.view, batch.header, leader_epoch, now_ms) for batch in batches]

    def append(self, *batches: Batch, leader_epoch: int = 0, now_ms: int = NOW) -> list[int]:
        offsets = self.stage(*batches, leader_epoch=leader_epoch, now_ms=now_ms)
        self.log.commit()
        return offsets

    def file(self, name: str) -> Path:
        return self.path / name

    def names(self, suffix: str) -> list[str]:
        return sorted(path.name for path in self.path.iterdir() if path.name.endswith(suffix))


def open_log(directory: Path, config: LogConfig, last_stop: LastStop = LastStop.CLEAN, now_ms: int = NOW) -> Log:
    """Open the log in a directory with its own files."""
    return Log.open(str(directory), config=config, files=FilePool(50), last_stop=last_stop, now_ms=now_ms)


def stage_messages(log: Log, data: bytearray | memoryview, timestamp: int, at: int = 0, now_ms: int = NOW) -> int:
    """Stage a message set in which the message number `at` is the first one with the largest timestamp."""
    base, last = log.next_offset, [batch.header.last_offset for batch in iter_batches(data)][-1]
    offset = log.append_message_set(
        memoryview(data), last_offset=last, max_timestamp=timestamp, offset_of_max_timestamp=base + at, now_ms=now_ms
    )
    assert offset == base
    return base


def abandon(log: Log) -> None:
    """Abandon a log like a killed process: close the descriptors without writing."""
    for segment in log.segments:
        segment.close_files()


def filled(tmp_path: Path, count: int = 60, config: LogConfig = SMALL) -> Home:
    """Return a log of several segments with batches of 3 records; timestamps increase by 10 ms per batch."""
    home = Home(tmp_path / "orders-0", config)
    for number in range(count):
        home.append(a_batch(3, timestamps=[NOW + 10 * number + by for by in range(3)]))
    return home


def batches_of(log: Log, offset: int | None = None, *, max_bytes: int = 1 << 20) -> list[AnyBatch]:
    """Return every batch from `offset` or the log start on, read slice by slice like a consumer."""
    found: list[AnyBatch] = []
    offset = log.log_start_offset if offset is None else offset
    while batches := list(iter_batches(log.read(offset, max_bytes).read())):
        found += batches
        offset = batches[-1].header.last_offset + 1
    return found


def offsets_of(log: Log, offset: int | None = None, *, max_bytes: int = 1 << 20) -> list[int]:
    """Return the base offsets of batches_of()."""
    return [batch.header.base_offset for batch in batches_of(log, offset, max_bytes=max_bytes)]


class Disk:
    """Replaces the kernel's write calls, which can then fail or write only a part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pwrite = os.pwrite
        self._pwritev = os.pwritev
        #: Number of bytes to write before an error, or None for no error.
        self.room: int | None = None
        self.error = errno.ENOSPC
        #: Maximum number of bytes per call.
        self.most = 1 << 30
        self.calls = 0
        monkeypatch.setattr(os, "pwrite", self.pwrite)
        monkeypatch.setattr(os, "pwritev", self.pwritev)

    @contextmanager
    def full_after(self, room: int = 0) -> Iterator[pytest.ExceptionInfo[LogWriteError]]:
        """Expect a LogWriteError after `room` bytes. The disk has room again afterwards."""
        self.room = room
        with pytest.raises(LogWriteError, match=os.strerror(self.error)) as raised:
            yield raised
        self.room = None

    def _write(self, write: Callable[[bytes], int], data: bytes) -> int:
        self.calls += 1
        head = data[: self.most]
        if self.room is not None:
            head = head[: self.room]
            if not head:
                raise OSError(self.error, os.strerror(self.error))
            self.room -= len(head)
        return write(head)

    def pwrite(self, fd: int, data: Any, position: int) -> int:
        return self._write(lambda part: self._pwrite(fd, part, position), bytes(data))

    def pwritev(self, fd: int, buffers: Sequence[Any], position: int) -> int:
        return self._write(lambda part: self._pwritev(fd, [part], position), b"".join(map(bytes, buffers)))


@contextmanager
def refusing(name: str, error: int = errno.ENOSPC, when: Callable[..., bool] = lambda *_: True) -> Iterator[None]:
    """Let calls to the function `name` of `os` fail if their arguments meet a condition."""
    real = getattr(os, name)

    def call(*arguments: Any, **options: Any) -> Any:
        if when(*arguments):
            raise OSError(error, os.strerror(error))
        return real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, name, call)
        yield


def creates_file(_path: object, flags: int, *_: object) -> bool:
    """Return whether a call of `os.open` may create a file, as a condition of `refusing`."""
    return bool(flags & os.O_CREAT)


class Moments:
    """Copies a directory before each rename and removal in it, as a crash at that moment would leave it."""

    def __init__(self, directory: Path, copies: Path) -> None:
        self.directory = directory
        self.copies = copies
        self.found: list[Path] = []
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> list[Path]:
        self.copies.mkdir()
        for name in ("rename", "replace", "unlink"):
            self._patch.setattr(os, name, self._copying(getattr(os, name)))
        return self.found

    def _copying(self, real: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any, **options: Any) -> None:
            if options or os.path.exists(arguments[0]):  # Options give the directory of a relative name.
                copy = self.copies / str(len(self.found)) / self.directory.name
                shutil.copytree(self.directory, copy)
                self.found.append(copy)
            real(*arguments, **options)

        return call

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def contents(directory: Path) -> dict[str, bytes]:
    """Return the bytes of every file by name, without the trailing zeros of preallocated indexes."""
    return {
        path.name: path.read_bytes().rstrip(b"\0") if path.name.endswith("index") else path.read_bytes()
        for path in directory.iterdir()
    }
