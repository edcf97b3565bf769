"""A broker as it was before: everything in a directory of its own, and back."""

import contextlib
import os
import shutil
import weakref
from collections.abc import Generator
from pathlib import Path
from typing import Final, Self

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.deletion import marked
from minibroker.cluster.dynamic_configs import DynamicConfigs
from minibroker.cluster.features import Features
from minibroker.cluster.section_store import ClusterFileError, ClusterMetadata
from minibroker.cluster.topics import Topics
from minibroker.core import Core
from minibroker.errors import ConflictError, NotFoundError, OperationError, is_the_callers
from minibroker.operations.replacement import METADATA_FILES, replace, staging, sync_tree
from minibroker.operations.reset import forget_visitors
from minibroker.operations.snapshot_mark import Mark, copy_file, is_cut_short, read_mark, write_mark
from minibroker.services import Services
from minibroker.support import temporary
from minibroker_storage.data_directory.lock import DirectoryLock, DirectoryLockedError
from minibroker_storage.data_directory.names import (
    BACKUP_SUFFIX,
    LESSONS_FILE,
    LOCK_FILE,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    TOPICS_FILE,
    parse_partition_directory,
)
from minibroker_storage.data_directory.staged_write import UNFINISHED
from minibroker_storage.data_directory.topics_file import TopicsFileError
from minibroker_storage.layout import CLEANED_SUFFIX, DELETED_SUFFIX, delete_directory_name, rename_if_there

__tracebackhide__ = is_the_callers

_FILES: Final = (*METADATA_FILES, *OFFSET_CHECKPOINTS, LESSONS_FILE)
_BACKUPS: Final = tuple(name + BACKUP_SUFFIX for name in METADATA_FILES)


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
    """Copy everything into a new directory; None for a temporary one.

    ConflictError if there is something in the directory, but for a snapshot that was cut short, or if it lies in the
    broker's own; `OSError`, and there is no snapshot.
    """
    core = services.core
    if directory is not None:
        _check_target(core, os.fspath(directory))
    core.writes.commit()
    for topic in core.topics:
        for partition in topic.partitions:
            if partition.opened_log is not None:
                partition.opened_log.take_producer_snapshot()
    core.logs.write_checkpoints(sync=False)
    core.topics.save()
    target = temporary.make("snapshot-") if directory is None else os.fspath(directory)
    snapshot = Snapshot(target, is_temporary=directory is None)
    try:
        if directory is not None:
            _begin(os.path.abspath(target))
        files: Mark = {}
        own = {os.path.basename(each.directory) for topic in core.topics for each in topic.partitions}
        # No log is closed for it: the copy is opened as the directory of a killed broker is.
        for name in _files_of(core.topics.data_dir, (*_FILES, META_PROPERTIES)):
            if name.partition("/")[0] in own or "/" not in name:
                files[name] = copy_file(f"{core.topics.data_dir}/{name}", f"{target}/{name}")
        if directory is not None:
            sync_tree(target)
        write_mark(target, files, sync=directory is not None)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return snapshot


def restore_snapshot(services: Services, snapshot: Snapshot | str | os.PathLike[str]) -> None:
    """Replace all topics, groups and transactions by those of a snapshot; clients go on as after a restart.

    The directory may also be one that a stopped broker or a stopped Apache Kafka has left. `NotFoundError` for another
    one, `ConflictError` for the broker's own one and those in use, `OperationError` for a damaged one; `OSError`.
    Nothing has changed then; after a kill nothing has, or all.
    """
    core = services.core
    source = snapshot.directory if isinstance(snapshot, Snapshot) else os.fspath(snapshot)
    mark = _check_source(core, source)
    core.writes.commit()
    with staging(core) as new:
        with _unused(source):
            _copy(source, new, mark)
        try:
            _prepare(core, new)
        except (TopicsFileError, ClusterFileError) as error:
            raise OperationError(f"restore: {source} is damaged: {error}".replace(new, source)) from None
        replace(core, new, tuple(core.topics))
    forget_visitors(services)
    core.topics.load()
    core.producer_ids.skip_block()
    services.resume_coordinators()


def _begin(target: str) -> None:
    """Make the directory of a snapshot, which says from its first moment that it is not whole. OSError."""
    begun, old = delete_directory_name(target), delete_directory_name(target)
    try:
        os.makedirs(begun)
        write_mark(begun, None, sync=True)
        rename_if_there(target, old)  # which was cut short
        os.rename(begun, target)
    finally:
        for path in (old, begun):
            shutil.rmtree(path, ignore_errors=True)


def _check_target(core: Core, target: str) -> None:
    if _lies_in(target, core.topics.data_dir):
        raise ConflictError(f"snapshot: {target} lies in {core.topics.data_dir}, the broker's own directory")
    if os.path.lexists(target) and not is_cut_short(target):
        raise ConflictError(f"snapshot: {target} is there already")


def _check_source(core: Core, source: str) -> Mark | None:
    """Return the mark of a directory that may be restored, if it has one."""
    if not os.path.isdir(source):
        raise NotFoundError(f"restore: {source} is not a snapshot: there is no such directory")
    own = core.topics.data_dir
    if _lies_in(source, own) or _lies_in(own, source):
        raise ConflictError(f"restore: {source} is, holds or lies in {own}, the broker's own directory")
    mark = read_mark(source)
    if not any(os.path.exists(f"{source}/{name}") for name in (TOPICS_FILE, META_PROPERTIES)):
        raise NotFoundError(f"restore: {source} is not a snapshot: it has no {TOPICS_FILE} and no {META_PROPERTIES}")
    if os.path.exists(f"{source}/{UNFINISHED}"):
        raise ConflictError(f"restore: {source} has an unfinished write: start a broker on it first, and stop it")
    return mark


def _lies_in(path: str, directory: str) -> bool:
    """Whether a path, which need not exist, is a directory or lies in it, whatever links lead there."""
    resolved = Path(path).resolve()
    return any(each.exists() and each.samefile(directory) for each in (resolved, *resolved.parents))


@contextlib.contextmanager
def _unused(source: str) -> Generator[None]:
    """Hold the lock of a directory, if it has one that this process may take. ConflictError."""
    try:
        lock = DirectoryLock(source) if os.access(f"{source}/{LOCK_FILE}", os.W_OK) else None
    except DirectoryLockedError:
        raise ConflictError(f"restore: {source} is in use: stop its broker first, or have it take a snapshot") from None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _copy(source: str, new: str, mark: Mark | None) -> None:
    """Copy what belongs to a snapshot, and check that it is what was written. OperationError, OSError."""
    names = _files_of(source, (*_FILES, *_BACKUPS)) if mark is None else mark
    for name in names:
        if name == META_PROPERTIES:  # the broker has its own
            continue
        try:
            copied = copy_file(f"{source}/{name}", f"{new}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            raise OperationError(f"restore: {source} is damaged: {name} is missing") from None
        if mark is not None and copied != mark[name]:
            raise OperationError(f"restore: {source} is damaged: {name} is not as it was written")
    for directory in marked(source).values():
        os.mkdir(f"{new}/{os.path.basename(directory)}")


def _prepare(core: Core, new: str) -> None:
    """Read the metadata as a start would, and let nothing go back that clients have seen of this broker.

    TopicsFileError, ClusterFileError, OSError.
    """
    metadata = ClusterMetadata(new)
    DynamicConfigs(core.config, metadata, core.cluster.first.id)
    Features(metadata, core.features.supported)
    metadata.write_first(new)  # whole, if it was torn
    core.features.outlast(metadata)
    # Consumers may be beyond what comes back: a later epoch has them look where the logs part (KIP-320).
    core.cluster.forget_leaders()
    core.cluster.first_epoch += 1
    cluster = Cluster(core.cluster.first.id, len(core.cluster.nodes), core.config)
    cluster.first_epoch = core.cluster.first_epoch
    topics = Topics(new, core.config, core.logs, cluster)
    topics.next_producer_id = max(topics.next_producer_id, core.topics.next_producer_id)
    topics.first_valid_producer_id = topics.next_producer_id
    topics.save()
    for name in _BACKUPS:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{new}/{name}")


def _files_of(directory: str, files: tuple[str, ...]) -> list[str]:
    """The files of a data directory with these names, and those of partitions. OSError."""
    names: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir() and parse_partition_directory(entry.name) is not None:
                with os.scandir(entry.path) as within:
                    names += [f"{entry.name}/{file.name}" for file in within if _is_kept(file)]
            elif entry.name in files:
                names.append(entry.name)
    return names


def _is_kept(file: os.DirEntry[str]) -> bool:
    """Whether a partition's file counts, and is not about to be removed or still being made by a cleaning."""
    return file.is_file() and not file.name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX))
