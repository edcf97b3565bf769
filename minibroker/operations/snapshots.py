"""A broker as it was before: everything in a directory of its own, and back.

`minibroker-snapshot.json`, the mark of a snapshot, is its first file and its last one: `{"version": 1, "files": null}`
while the others are being written, then the size and a checksum of each, by its path. A directory without it is no
snapshot of this version, but may be one of 1.0.0, or the directory of a stopped broker. A broker that starts on a
snapshot removes the mark.
"""

import asyncio
import contextlib
import json
import os
import shutil
import weakref
import zlib
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from minibroker.cluster import temporary
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.core import Core
from minibroker.cluster.directories import marked, purge_logged
from minibroker.cluster.dynamic_configs import DynamicConfigs
from minibroker.cluster.errors import ConflictError, NotFoundError, OperationError, is_the_callers
from minibroker.cluster.features import Features
from minibroker.cluster.section_store import ClusterFileError, ClusterMetadata
from minibroker.cluster.topics import Topics
from minibroker.operations.reset import METADATA_FILES, forget_visitors, replace, staging, sync_tree
from minibroker.server.services import Services
from minibroker_storage.data_directory.lock import DirectoryLock, DirectoryLockedError
from minibroker_storage.data_directory.names import (
    BACKUP_SUFFIX,
    LESSONS_FILE,
    LOCK_FILE,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINTS,
    SNAPSHOT_FILE,
    TOPICS_FILE,
    TopicsFileError,
    parse_partition_directory,
)
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint, write_offset_checkpoint
from minibroker_storage.data_directory.staged_write import UNFINISHED, staging_name
from minibroker_storage.files import pwrite_all, read_file, write_atomically
from minibroker_storage.layout import CLEANED_SUFFIX, DELETED_SUFFIX, delete_directory_name, rename_if_there

__tracebackhide__ = is_the_callers

_FILES: Final = (*METADATA_FILES, *OFFSET_CHECKPOINTS, LESSONS_FILE)
_BACKUPS: Final = tuple(name + BACKUP_SUFFIX for name in METADATA_FILES)

Aside: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function, usually in a thread, while the event loop serves clients."""


Mark = dict[str, list[int]]
"""Size in bytes and checksum of each file, by its path in the snapshot."""


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


async def take_snapshot(
    services: Services, directory: str | os.PathLike[str] | None = None, aside: Aside = asyncio.to_thread
) -> Snapshot:
    """Copy everything as it is now into a new directory; None for a temporary one. `aside` runs what takes long.

    ConflictError if there is something in the directory, but for a snapshot that was cut short, or if it lies in the
    broker's own; `OSError`, and there is no snapshot.
    """
    core = services.core
    async with services.copying:
        if directory is not None:
            _check_target(core, os.fspath(directory))
        core.writes.commit()
        for topic in core.topics:
            for partition in topic.partitions:
                if partition.opened_log is not None:
                    partition.opened_log.take_producer_snapshot()
        core.logs.write_checkpoints(sync=False)
        core.topics.save()
        held = staging_name(core.topics.data_dir)
        try:
            sizes = _hold(core, held)
            snapshot: Snapshot = await aside(partial(_copy_held, held, sizes, directory))
        finally:
            core.background(partial(purge_logged, [held]))
        return snapshot


def _hold(core: Core, held: str) -> dict[str, int]:
    """Link all files into a new directory; returns their sizes. Records that come later are beyond these. OSError."""
    data_dir, sizes = core.topics.data_dir, dict[str, int]()
    partitions = {
        os.path.basename(partition.directory): partition for topic in core.topics for partition in topic.partitions
    }
    os.mkdir(held)
    # No log is closed for it: the copy is opened as the directory of a killed broker is.
    for name in _files_of(data_dir, (*_FILES, META_PROPERTIES)):
        directory, slash, _ = name.rpartition("/")
        if slash and directory not in partitions:
            continue
        if not os.path.isdir(f"{held}/{directory}"):
            os.mkdir(f"{held}/{directory}")
        try:
            os.link(f"{data_dir}/{name}", f"{held}/{name}")
        except OSError:  # a file system without links
            copy_file(f"{data_dir}/{name}", f"{held}/{name}")
        sizes[name] = os.stat(f"{held}/{name}").st_size
    # All of the copy is on disk, and has a checksum: who opens it need not read it all.
    points = read_offset_checkpoint(f"{held}/{RECOVERY_POINTS}")
    points |= {
        partition.key: partition.opened_log.log_end_offset
        for partition in partitions.values()
        if partition.opened_log is not None and partition.opened_log.has_directory
    }
    write_offset_checkpoint(f"{held}/{RECOVERY_POINTS}", points)
    sizes[RECOVERY_POINTS] = os.stat(f"{held}/{RECOVERY_POINTS}").st_size
    return sizes


def _copy_held(held: str, sizes: Mapping[str, int], directory: str | os.PathLike[str] | None) -> Snapshot:
    target = temporary.make("snapshot-") if directory is None else os.fspath(directory)
    snapshot = Snapshot(target, is_temporary=directory is None)
    try:
        if directory is not None:
            _begin(os.path.abspath(target))
        files = {name: copy_file(f"{held}/{name}", f"{target}/{name}", size) for name, size in sizes.items()}
        if directory is not None:
            sync_tree(target)
        write_mark(target, files, sync=directory is not None)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return snapshot


async def restore_snapshot(
    services: Services, snapshot: Snapshot | str | os.PathLike[str], aside: Aside = asyncio.to_thread
) -> None:
    """Replace all topics, groups and transactions by those of a snapshot; clients go on as after a restart.

    Until all is copied they are served from the state before. `aside` runs what takes long.

    The directory may also be one that a stopped broker or a stopped Apache Kafka has left. `NotFoundError` for another
    one, `ConflictError` for the broker's own one and those in use, `OperationError` for a damaged one; `OSError`.
    Nothing has changed then; after a kill nothing has, or all.
    """
    core = services.core
    source = snapshot.directory if isinstance(snapshot, Snapshot) else os.fspath(snapshot)
    async with services.copying:
        mark = _check_source(core, source)
        with staging(core) as new:
            with _unused(source):
                await aside(partial(_copy, source, new, mark, sync=core.durability.is_needed))
            core.writes.commit()
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


def _copy(source: str, new: str, mark: Mark | None, *, sync: bool) -> None:
    """Copy what belongs to a snapshot, and check that it is what was written. OperationError, OSError.

    With `sync` the copy is on disk already when `replace` asks for that.
    """
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
    if sync:
        sync_tree(new)


def _prepare(core: Core, new: str) -> None:
    """Read the metadata as a start would, and let nothing go back that clients have seen of this broker.

    TopicsFileError, ClusterFileError, OSError.
    """
    metadata = ClusterMetadata(new)
    DynamicConfigs(core.config, metadata, core.cluster.first.id)
    Features(metadata, core.features.supported)
    metadata.write_first(new)  # whole, if it was torn
    core.features.outlast(metadata)
    core.cluster.forget_leaders()
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


_VERSION: Final = 1
_CHUNK_BYTES: Final = 16_384
_ZEROS: Final = bytes(_CHUNK_BYTES)


class CutShortError(OperationError):
    """A snapshot that is not whole: the broker was killed while it took it."""


def write_mark(directory: str, files: Mark | None, *, sync: bool) -> None:
    """Mark a directory as that of a snapshot which has these files; None while it is not whole. OSError."""
    data = json.dumps({"version": _VERSION, "files": files}).encode()
    write_atomically(f"{directory}/{SNAPSHOT_FILE}", data, sync=sync)


def read_mark(directory: str) -> Mark | None:
    """Return the mark of a snapshot; None for a directory without one.

    CutShortError, OperationError for a damaged mark, OSError.
    """
    path = f"{directory}/{SNAPSHOT_FILE}"
    try:
        content = json.loads(read_file(path))
        files: Mark | None = content["files"]
        strange = [name for name in files or () if not _is_in_snapshot(name)]
        if content["version"] != _VERSION or strange:
            raise ValueError(f"{strange} in version {content['version']}")  # noqa: TRY301 - said below
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise OperationError(f"restore: {path} is damaged: {type(error).__name__}: {error}") from None
    if files is None:
        raise CutShortError(f"restore: {directory} is not whole: the snapshot was cut short while it was taken")
    return files


def _is_in_snapshot(name: str) -> bool:
    directory, _, file = name.rpartition("/")
    return file not in {"", ".", ".."} and (not directory or parse_partition_directory(directory) is not None)


def is_cut_short(directory: str) -> bool:
    """Whether a directory has nothing but what a killed broker has left of a snapshot. OSError."""
    if os.path.islink(directory) or not os.path.isdir(directory):
        return False
    try:
        read_mark(directory)
    except CutShortError:
        return True
    except OperationError:
        pass
    return False


def copy_file(source: str, target: str, size: int | None = None) -> list[int]:
    """Copy a file with its holes, and its directory if need be: the indexes of a log in use are ten nearly empty MB.

    With `size` the copy has that many bytes, whether the file has grown or was cut. Returns the size and the checksum
    of what was copied. `OSError`, which names a path.
    """
    path, checksum = source, 0
    try:
        read = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(read)
            size = status.st_size if size is None else size
            path = target
            if not os.path.isdir(os.path.dirname(target)):
                os.mkdir(os.path.dirname(target), 0o755)
            written = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, status.st_mode & 0o777)
            try:
                os.ftruncate(written, size)
                for position, data in _chunks(read, size):
                    checksum = zlib.crc32(data, zlib.crc32(b"%d" % position, checksum))
                    pwrite_all(written, data, position)
            finally:
                os.close(written)
        finally:
            os.close(read)
    except OSError as error:
        error.filename = error.filename or path
        raise
    return [size, checksum]


def _chunks(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The chunks of a file that are not zeros, with their positions: the same ones wherever its holes are. OSError."""
    position = 0
    while position < size:
        try:
            position = max(position, os.lseek(fd, position, os.SEEK_DATA) // _CHUNK_BYTES * _CHUNK_BYTES)
        except OSError:  # nothing but a hole is left
            return
        length = min(_CHUNK_BYTES, size - position)
        data = os.pread(fd, length, position).ljust(length, b"\0")  # an index may have been trimmed since
        if data != _ZEROS[: len(data)]:
            yield position, data
        position += _CHUNK_BYTES
