"""A broker as it was before: everything in a directory of its own, and back."""

import os
import shutil
import weakref
from collections.abc import Callable
from functools import partial
from io import FileIO
from typing import Final, Self

from minibroker.errors import ConflictError, NotFoundError, is_the_callers
from minibroker.operations.reset import forget_topics, forget_visitors
from minibroker.services import Services
from minibroker.support import temporary
from minibroker_storage.atomic_files import TMP_SUFFIX
from minibroker_storage.data_directory.names import (
    BACKUP_SUFFIX,
    CLEAN_SHUTDOWN,
    LOCK_FILE,
    META_PROPERTIES,
    TOPICS_FILE,
)

__tracebackhide__ = is_the_callers

_COPIED_AT_ONCE: Final = 1 << 20
_OF_THE_RUN: Final = frozenset({LOCK_FILE, CLEAN_SHUTDOWN, META_PROPERTIES})
"""Files that a directory keeps when its logs are exchanged."""


class Snapshot:
    """All topics, records, groups and transactions of a broker at one moment.

    A data directory like any other: `minibroker serve --data-dir` runs on a copy of it. A temporary one goes with
    `delete`, at the end of a `with` block, or with this object.
    """

    def __init__(self, directory: str, *, is_temporary: bool) -> None:
        self.directory = directory
        self._end = weakref.finalize(self, temporary.remove, directory) if is_temporary else None

    def delete(self) -> None:
        """Remove it if it is a temporary one. Twice does no harm."""
        if self._end is not None:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.delete()


def take_snapshot(services: Services, directory: str | os.PathLike[str] | None = None) -> Snapshot:
    """Copy everything into a new directory; None for a temporary one. `ConflictError` if it is there; `OSError`."""
    if directory is not None and os.path.exists(directory):
        raise ConflictError(f"snapshot: {directory} is there already")
    services.core.writes.commit()
    for topic in services.core.topics:
        for partition in topic.partitions:
            if partition.opened_log is not None:
                partition.opened_log.take_producer_snapshot()
    services.core.logs.write_checkpoints(sync=False)
    services.core.topics.save()
    target = temporary.make("snapshot-") if directory is None else os.fspath(directory)
    snapshot = Snapshot(target, is_temporary=directory is None)
    try:
        os.makedirs(target, exist_ok=True)
        partitions = {os.path.basename(each.directory) for topic in services.core.topics for each in topic.partitions}
        # No log is closed for it: the copy is opened as the directory of a killed broker is.
        _copy_all(services.core.topics.data_dir, target, partitions, but={LOCK_FILE, CLEAN_SHUTDOWN})
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return snapshot


def restore_snapshot(services: Services, snapshot: Snapshot | str | os.PathLike[str]) -> None:
    """Replace all topics, groups and transactions by those of a snapshot; clients go on as after a restart.

    `NotFoundError` for a directory that is none; `OSError`, with which the broker may be left without topics.
    """
    source = snapshot.directory if isinstance(snapshot, Snapshot) else os.fspath(snapshot)
    if not os.path.exists(f"{source}/{TOPICS_FILE}"):
        raise NotFoundError(f"restore: {source} is not a snapshot: it has no {TOPICS_FILE}")
    services.core.writes.commit()
    forget_visitors(services)
    forget_topics(services)
    with os.scandir(source) as entries:
        partitions = {entry.name for entry in entries if entry.is_dir()}
    services.core.metadata.remove()  # a snapshot has one only if anything was altered before it was taken
    _copy_all(source, services.core.topics.data_dir, partitions, but=_OF_THE_RUN)
    services.core.metadata.load()
    services.core.topics.load()
    services.core.logs.restored()
    services.resume_coordinators()


def _copy_all(source: str, target: str, partitions: set[str], but: frozenset[str] | set[str]) -> None:
    """Copy files, and those of these directories."""
    with os.scandir(source) as entries:
        found = [(entry.name, entry.is_dir()) for entry in entries]
    for name, is_directory in found:
        if is_directory and name in partitions:
            os.mkdir(f"{target}/{name}")
            with os.scandir(f"{source}/{name}") as files:
                names = [file.name for file in files if file.is_file()]
            for each in names:
                _copy_file(f"{source}/{name}/{each}", f"{target}/{name}/{each}")
        elif not is_directory and name not in but and not name.endswith((TMP_SUFFIX, BACKUP_SUFFIX)):
            _copy_file(f"{source}/{name}", f"{target}/{name}")


def _copy_file(source: str, target: str) -> None:
    """Copy a file with its holes: the indexes of a log in use are ten megabytes of nearly nothing."""
    with open(source, "rb", buffering=0) as read, open(target, "wb", buffering=0, opener=_opener(read)) as written:
        size = os.fstat(read.fileno()).st_size
        os.ftruncate(written.fileno(), size)
        position = 0
        while position < size:
            try:
                start = os.lseek(read.fileno(), position, os.SEEK_DATA)
            except OSError:  # nothing but a hole is left
                return
            position = min(os.lseek(read.fileno(), start, os.SEEK_HOLE), size)
            while start < position:
                data = os.pread(read.fileno(), min(position - start, _COPIED_AT_ONCE), start)
                if not data:
                    return
                os.pwrite(written.fileno(), data, start)
                start += len(data)


def _opener(source: FileIO) -> Callable[[str, int], int]:
    """Opens a new file for users with access to the other one."""
    return partial(os.open, mode=os.fstat(source.fileno()).st_mode & 0o777)
