"""Snapshots: copies a broker's state into a directory, and restores it.

A snapshot is marked by `minibroker-snapshot.json`, which is written first and again at the end. It contains
`{"version": 1, "files": null}` during the copy, and afterwards the size and checksum of each file by path. A directory
without this file may be a snapshot of version 1.0.0, or the data directory of a stopped broker.
A broker that starts on a snapshot removes the mark.
"""

import asyncio
import contextlib
import json
import shutil
import weakref
import zlib
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from minibroker.cluster import temporary
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.cluster_metadata import ClusterFileError, ClusterMetadata
from minibroker.cluster.core import Core
from minibroker.cluster.directories import find_markers, purge_and_log_errors
from minibroker.cluster.dynamic_configs import read_section
from minibroker.cluster.errors import ConflictError, NotFoundError, OperationError, is_the_callers
from minibroker.cluster.features import Features
from minibroker.cluster.topics import Topics
from minibroker.operations.reset import METADATA_FILES, create_staging_directory, replace, reset_clients, sync_tree
from minibroker.server.services import Services
from minibroker_storage.data_directory import names as directory_names
from minibroker_storage.data_directory.lock import DirectoryLock, DirectoryLockedError
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint, write_offset_checkpoint
from minibroker_storage.data_directory.staged_write import UNFINISHED, staging_name
from minibroker_storage.files import pwrite_all, read_file, write_atomically
from minibroker_storage.layout import CLEANED_SUFFIX, DELETED_SUFFIX, delete_directory_name, rename_if_exists
from minibroker_storage.portability import os

__tracebackhide__ = is_the_callers

_FILES: Final = (*METADATA_FILES, *directory_names.OFFSET_CHECKPOINTS, directory_names.LESSONS_FILE)
_BACKUPS: Final = tuple(name + directory_names.BACKUP_SUFFIX for name in METADATA_FILES)

Aside: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function, usually in a thread, while the event loop serves clients."""


Mark = dict[str, list[int]]
"""Size in bytes and checksum of each file by its path in the snapshot."""


class Snapshot:
    """All topics, records, groups and transactions of a broker at one moment.

    A snapshot is a normal data directory: `minibroker serve --data-dir` runs on a copy of it. A temporary snapshot
    is removed by `delete`, at the end of a `with` block, or when this object is garbage-collected.
    """

    def __init__(self, directory: str, *, is_temporary: bool) -> None:
        self.directory = directory
        self._end = weakref.finalize(self, temporary.remove, directory) if is_temporary else None

    def delete(self) -> None:
        """Remove the directory if it is temporary. A second call has no effect."""
        if self._end is not None:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.delete()


async def take_snapshot(
    services: Services, directory: str | os.PathLike[str] | None = None, aside: Aside = asyncio.to_thread
) -> Snapshot:
    """Copy the current state into a new directory.

    Args:
        services: the broker.
        directory: the directory to create, or None for a temporary one.
        aside: runs slow functions while the event loop serves clients.

    Raises:
        ConflictError: the directory is inside the broker's own, or has other content than an incomplete snapshot.
        OSError: the copy failed, and no snapshot exists.
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
        links = staging_name(core.topics.data_dir)
        try:
            sizes = _link_files(core, links)
            snapshot: Snapshot = await aside(partial(_copy_links, links, sizes, directory))
        finally:
            core.background(partial(purge_and_log_errors, [links]))
        return snapshot


def _link_files(core: Core, links: str) -> dict[str, int]:
    """Hard-link all files into a new directory, and return their sizes before any later appends.

    Raises:
        OSError: a file cannot be linked or copied.
    """
    data_dir, sizes = core.topics.data_dir, dict[str, int]()
    partitions = {
        os.path.basename(partition.directory): partition for topic in core.topics for partition in topic.partitions
    }
    os.mkdir(links)
    # Logs stay open while they are copied. A broker opens the copy like the directory of a killed broker.
    for name in _list_files(data_dir, (*_FILES, directory_names.META_PROPERTIES)):
        directory, slash, _ = name.rpartition("/")
        if slash and directory not in partitions:
            continue
        if not os.path.isdir(f"{links}/{directory}"):
            os.mkdir(f"{links}/{directory}")
        try:
            os.link(f"{data_dir}/{name}", f"{links}/{name}")
        except OSError:  # Copy the file, because the file system has no hard links.
            copy_file(f"{data_dir}/{name}", f"{links}/{name}")
        sizes[name] = os.stat(f"{links}/{name}").st_size
    # Set the recovery points to the ends of the logs. The copy is on disk and has checksums, so a broker that opens the
    # copy need not recover its logs.
    points = read_offset_checkpoint(f"{links}/{directory_names.RECOVERY_POINTS}")
    points |= {
        partition.key: partition.opened_log.log_end_offset
        for partition in partitions.values()
        if partition.opened_log is not None and partition.opened_log.has_directory
    }
    write_offset_checkpoint(f"{links}/{directory_names.RECOVERY_POINTS}", points)
    sizes[directory_names.RECOVERY_POINTS] = os.stat(f"{links}/{directory_names.RECOVERY_POINTS}").st_size
    return sizes


def _copy_links(links: str, sizes: Mapping[str, int], directory: str | os.PathLike[str] | None) -> Snapshot:
    target = temporary.make("snapshot-") if directory is None else os.fspath(directory)
    snapshot = Snapshot(target, is_temporary=directory is None)
    try:
        if directory is not None:
            _create_directory(os.path.abspath(target))
        files = {name: copy_file(f"{links}/{name}", f"{target}/{name}", size) for name, size in sizes.items()}
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
    """Replace all topics, groups and transactions with those of a snapshot. Clients continue as after a restart.

    Clients are served from the previous state until everything is copied. The directory may also be that of a stopped
    broker or a stopped Apache Kafka. If an error is raised, nothing has changed. A kill leaves either the old state or
    the new one.

    Args:
        services: the broker.
        snapshot: the snapshot or its directory.
        aside: runs slow functions while the event loop serves clients.

    Raises:
        NotFoundError: the directory is not a snapshot.
        ConflictError: the directory is the broker's own or in use.
        OperationError: the snapshot is damaged.
        OSError: a file cannot be copied.
    """
    core = services.core
    source = snapshot.directory if isinstance(snapshot, Snapshot) else os.fspath(snapshot)
    async with services.copying:
        mark = _check_source(core, source)
        with create_staging_directory(core) as new:
            with _lock(source):
                await aside(partial(_copy_snapshot, source, new, mark, sync=core.durability.is_needed))
            if services.chaos is not None:
                services.chaos.restart()
            core.writes.commit()
            try:
                _prepare_metadata(core, new)
            except (directory_names.TopicsFileError, ClusterFileError) as error:
                raise OperationError(f"restore: {source} is damaged: {error}".replace(new, source)) from None
            replace(core, new, tuple(core.topics))
        reset_clients(services)
        core.topics.load()
        core.producer_ids.skip_block()
        if services.facts is not None:
            services.facts.forget()
        services.resume_coordinators()


def _create_directory(target: str) -> None:
    """Create a snapshot's directory, marked as incomplete from the first moment.

    Raises:
        OSError: the directory cannot be created.
    """
    unfinished, old = delete_directory_name(target), delete_directory_name(target)
    try:
        os.makedirs(unfinished)
        write_mark(unfinished, None, sync=True)
        rename_if_exists(target, old)  # An existing target is an incomplete snapshot, which is removed below.
        os.rename(unfinished, target)
    finally:
        for path in (old, unfinished):
            shutil.rmtree(path, ignore_errors=True)


def _check_target(core: Core, target: str) -> None:
    if _is_inside(target, core.topics.data_dir):
        raise ConflictError(f"snapshot: {target!r} lies in {core.topics.data_dir!r}, the broker's own directory")
    if os.path.lexists(target) and not is_incomplete(target):
        raise ConflictError(f"snapshot: {target!r} exists already; name a new directory")


def _check_source(core: Core, source: str) -> Mark | None:
    """Check that a directory may be restored, and return its mark, if any."""
    if not os.path.isdir(source):
        raise NotFoundError(f"restore: {source!r} is not a snapshot: there is no such directory")
    own = core.topics.data_dir
    if _is_inside(source, own) or _is_inside(own, source):
        raise ConflictError(f"restore: {source!r} is, holds or lies in {own!r}, the broker's own directory")
    mark = read_mark(source)
    metadata_files = directory_names.TOPICS_FILE, directory_names.META_PROPERTIES
    if not any(os.path.exists(f"{source}/{name}") for name in metadata_files):
        raise NotFoundError(f"restore: {source!r} is not a snapshot: it has no {' and no '.join(metadata_files)}")
    if os.path.exists(f"{source}/{UNFINISHED}"):
        raise ConflictError(f"restore: {source!r} has an unfinished write: start a broker on it first, and stop it")
    return mark


def _is_inside(path: str, directory: str) -> bool:
    """Return whether a path, which need not exist, is a directory or inside it, after resolving links."""
    resolved = Path(path).resolve()
    return any(ancestor.exists() and ancestor.samefile(directory) for ancestor in (resolved, *resolved.parents))


@contextlib.contextmanager
def _lock(source: str) -> Generator[None]:
    """Hold the lock of a directory, if it has a lock file that this process may write.

    Raises:
        ConflictError: the directory is in use.
    """
    with contextlib.ExitStack() as locks:
        try:
            if os.access(f"{source}/{directory_names.LOCK_FILE}", os.W_OK):
                locks.callback(DirectoryLock(source).release)
        except DirectoryLockedError:
            reason = "stop its broker first, or have it take a snapshot"
            raise ConflictError(f"restore: {source} is in use: {reason}") from None
        yield


def _copy_snapshot(source: str, new: str, mark: Mark | None, *, sync: bool) -> None:
    """Copy the files of a snapshot and verify them against its mark.

    With `sync` the copy is on disk afterwards, as `replace` requires.

    Raises:
        OperationError: the snapshot is damaged.
        OSError: a file cannot be copied.
    """
    names = _list_files(source, (*_FILES, *_BACKUPS)) if mark is None else mark
    for name in names:
        if name == directory_names.META_PROPERTIES:  # The broker keeps its own meta.properties.
            continue
        try:
            copied = copy_file(f"{source}/{name}", f"{new}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            raise OperationError(f"restore: {source} is damaged: {name} is missing") from None
        if mark is not None and copied != mark[name]:
            raise OperationError(f"restore: {source} is damaged: {name} is not as it was written")
    for directory in find_markers(source).values():
        os.mkdir(f"{new}/{os.path.basename(directory)}")
    if sync:
        sync_tree(new)


def _prepare_metadata(core: Core, new: str) -> None:
    """Load the metadata as on startup, and raise ids and epochs above all that clients have seen from this broker.

    Raises:
        TopicsFileError, ClusterFileError: the metadata is damaged.
        OSError: a file cannot be read or written.
    """
    metadata = ClusterMetadata(new)
    read_section(metadata)
    Features(metadata, core.features.supported)
    metadata.write_first(new)  # If a file was torn, this replaces it with a complete one.
    core.features.raise_epoch(metadata)
    core.cluster.raise_first_epoch()
    cluster = Cluster(core.cluster.first.id, config=core.config)
    for node in core.cluster.nodes.values():
        if node is not core.cluster.first:
            cluster.add_node(node.id, node.rack).is_up = True
    cluster.first_epoch = core.cluster.first_epoch
    topics = Topics(new, core.config, core.logs, cluster)
    topics.next_producer_id = max(topics.next_producer_id, core.topics.next_producer_id)
    topics.first_valid_producer_id = topics.next_producer_id
    topics.save()
    for name in _BACKUPS:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{new}/{name}")


def _list_files(directory: str, files: tuple[str, ...]) -> list[str]:
    """Return the files of a data directory with the given names, and the files of its partitions.

    Raises:
        OSError: a directory cannot be read.
    """
    names: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir() and directory_names.parse_partition_directory(entry.name) is not None:
                with os.scandir(entry.path) as within:
                    names += [f"{entry.name}/{file.name}" for file in within if _is_log_file(file)]
            elif entry.name in files:
                names.append(entry.name)
    return names


def _is_log_file(file: os.DirEntry[str]) -> bool:
    """Return whether a partition's file is part of the log, unlike files to delete and unfinished cleaned segments."""
    return file.is_file() and not file.name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX))


_VERSION: Final = 1
_CHUNK_BYTES: Final = 16_384
_ZEROS: Final = bytes(_CHUNK_BYTES)


class IncompleteSnapshotError(OperationError):
    """A snapshot is incomplete because the broker was killed while it took it."""


def write_mark(directory: str, files: Mark | None, *, sync: bool) -> None:
    """Mark a directory as a snapshot with the given files. If `files` is None, mark it as an incomplete snapshot.

    Raises:
        OSError: the mark cannot be written.
    """
    data = json.dumps({"version": _VERSION, "files": files}).encode()
    write_atomically(f"{directory}/{directory_names.SNAPSHOT_FILE}", data, sync=sync)


def read_mark(directory: str) -> Mark | None:
    """Return the mark of a snapshot, or None for a directory without one.

    Raises:
        IncompleteSnapshotError: the snapshot is incomplete.
        OperationError: the mark is damaged.
        OSError: the mark cannot be read.
    """
    path = f"{directory}/{directory_names.SNAPSHOT_FILE}"
    try:
        content = json.loads(read_file(path))
        files: Mark | None = content["files"]
        invalid = [name for name in files or () if not _is_in_snapshot(name)]
        if content["version"] != _VERSION or invalid:
            raise ValueError(f"{invalid} in version {content['version']}")  # noqa: TRY301 - said below
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise OperationError(f"restore: {path} is damaged: {type(error).__name__}: {error}") from None
    if files is None:
        reason = "the snapshot was cut short while it was taken"
        raise IncompleteSnapshotError(f"restore: {directory} is not whole: {reason}")
    return files


def _is_in_snapshot(name: str) -> bool:
    directory, _, file = name.rpartition("/")
    return file not in {"", ".", ".."} and (
        not directory or directory_names.parse_partition_directory(directory) is not None
    )


def is_incomplete(directory: str) -> bool:
    """Return whether a directory contains only an incomplete snapshot, left by a killed broker.

    Raises:
        OSError: the mark cannot be read.
    """
    if os.path.islink(directory) or not os.path.isdir(directory):
        return False
    try:
        read_mark(directory)
    except OperationError as error:
        return isinstance(error, IncompleteSnapshotError)
    return False


def copy_file(source: str, target: str, size: int | None = None) -> list[int]:
    """Copy a file without filling its holes. Create the target's directory if needed.

    Holes matter because the indexes of an active log are 10 MB of mostly zeros.

    Args:
        source: the file to copy.
        target: the new file.
        size: the size of the copy, even if the file has grown or shrunk. By default, the current size.

    Returns:
        The size and the checksum of the copy.

    Raises:
        OSError: the file cannot be copied; the error names a path.
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
                for position, data in _read_chunks(read, size):
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


def _read_chunks(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the non-zero chunks of a file with their positions, independently of where its holes are.

    Raises:
        OSError: the file cannot be read.
    """
    position = 0
    while position < size:
        try:
            position = max(position, os.lseek(fd, position, os.SEEK_DATA) // _CHUNK_BYTES * _CHUNK_BYTES)
        except OSError:  # lseek fails if only a hole remains.
            return
        length = min(_CHUNK_BYTES, size - position)
        # An index may have been trimmed in the meantime, so the data is padded with zeros.
        data = os.pread(fd, length, position).ljust(length, b"\0")
        if data != _ZEROS[: len(data)]:
            yield position, data
        position += _CHUNK_BYTES
