"""Commit of a job's logs to a data directory, without a broker: all of them count at once.

    with DataDirectoryCommit(target) as commit:
        directory = commit.partition_directory("orders", 0)
        ...                                                  # `segment_writer`, in this process or in others
        commit.publish({("orders", 0): PublishedLog(end_offset)})

A job prepares its logs in a staging directory. Where a killed job has left one, the next job that writes there removes
it: the owner is the process that the job ends with, Spark's JVM, whose commits and aborts have processes of their own,
or the process itself. Without /proc, and on other machines, nothing is known and nothing is removed.

A directory that was not there appears with one rename, complete. One that is there is changed as
`minibroker_storage.data_directory.staged_write` describes: killed at any moment, the job has done nothing or all.
"""

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from minibroker_pipeline.filesystem import LocalFileSystem, filesystem_of, read_if_there
from minibroker_pipeline.log_directories.partition_logs import PartitionLog
from minibroker_storage.data_directory import staged_write
from minibroker_storage.data_directory.clean_shutdown import boot_id, is_marked_clean, mark_clean
from minibroker_storage.data_directory.lock import DirectoryLock, DirectoryLockedError
from minibroker_storage.data_directory.names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOCK_FILE,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    TOPICS_FILE,
    TopicPartition,
    parse_partition_directory,
)
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint, write_offset_checkpoint
from minibroker_storage.data_directory.staged_write import NEW, StagedWrite
from minibroker_storage.files import fsync_directory, write_atomically
from minibroker_storage.layout import DELETE_DIRECTORY_SUFFIX, LOG_SUFFIX

_SCHEME: Final = "://"
_LOCAL: Final = "file:"


class DirectoryInUseError(OSError):
    """A broker runs on the directory, or another job changes it."""


class DirectoryStateError(ValueError):
    """The directory is not as the job needs it: not closed cleanly, not empty, not local. Says what to do."""


class PublishedLog(NamedTuple):
    """A log's entries in the checkpoints: its end, its start unless a segment begins there, its cleaned offset."""

    end_offset: int
    start_offset: int = 0
    cleaned_offset: int | None = None


def local_path(path: str) -> str:
    """The absolute path of a directory on this machine, links followed. `DirectoryStateError` for another address."""
    if path.startswith(_LOCAL):
        path = path.removeprefix(_LOCAL).removeprefix("//")
    if not path or _SCHEME in path:
        raise DirectoryStateError(
            f"{path!r} is not a directory of a local or mounted file system; logs are written there"
        )
    return os.path.realpath(path)


@contextmanager
def locked(data_dir: str) -> Generator[None]:
    """Hold a directory as brokers do, of this process, too.

    What a killed writer had begun is finished first. `DirectoryInUseError`, `OSError`, `StagedWriteError`.
    """
    try:
        lock = DirectoryLock(data_dir)
    except DirectoryLockedError:
        raise DirectoryInUseError(f"{data_dir} is in use: stop the broker that runs there first") from None
    try:
        # As a starting broker does: half of another job's commit must not be built upon.
        staged_write.finish(data_dir)
        yield
    finally:
        lock.release()


def check_closed(data_dir: str) -> None:
    """`DirectoryStateError` unless every log in the directory was closed well, or there is none."""
    # Without the mark an end may be torn, and only a broker's recovery can say where the log ends.
    if is_marked_clean(data_dir):
        return
    with os.scandir(data_dir) as entries:
        for entry in entries:
            if entry.is_dir() and any(name.endswith(LOG_SUFFIX) for name in os.listdir(entry.path)):
                raise DirectoryStateError(
                    f"{data_dir} was not closed cleanly: start a broker on it and stop it, then write again"
                )


def check_apart(paths: Iterable[str], target: str) -> None:
    """`DirectoryStateError` for a target within a directory that is read: brokers refuse what they find there."""
    new = local_path(target)
    for path in paths:
        filesystem, directory = filesystem_of(path)
        if isinstance(filesystem, LocalFileSystem) and f"{new}/".startswith(f"{os.path.realpath(directory)}/"):
            raise DirectoryStateError(f"{new} lies within {path}, which is read: name a directory elsewhere")


def is_vacant(target: str) -> bool:
    """Whether a directory is not there, or has nothing in it but what jobs leave that did not come to their end."""
    if not os.path.lexists(target):
        return True
    return os.path.isdir(target) and all(name == LOCK_FILE or is_staging(name) for name in os.listdir(target))


def check_writable(target: str) -> None:
    """Raises what `publish` would, so that a job need not run first to learn it."""
    if os.path.isdir(target):
        with locked(target):
            check_closed(target)
    elif os.path.lexists(target):
        raise DirectoryStateError(f"{target} is not a directory")


def publish(
    target: str, staging: str, logs: Mapping[TopicPartition, PublishedLog], *, replaced: Collection[str] = ()
) -> None:
    """Put what is under `staging` in place: partitions that are not there, new files of those that are.

    The partitions of topics in `replaced` go first. `logs` says what the checkpoints will say of each partition that
    is written. All files are on disk already. Locks the target. Raises as `locked` and `check_closed`; `OSError`.
    """
    if os.path.isdir(target):
        with locked(target):
            check_closed(target)
            publish_locked(target, staging, logs, replaced=replaced)
        return
    _appear(target, staging, logs)


def _appear(target: str, staging: str, logs: Mapping[TopicPartition, PublishedLog]) -> None:
    new = f"{staging}/{NEW}"
    _write_checkpoints(new, new, logs, ())
    mark_clean(new)
    fsync_directory(new)
    os.rename(new, target)
    fsync_directory(os.path.dirname(target))
    remove_staging(staging)


def publish_locked(
    target: str,
    staging: str,
    logs: Mapping[TopicPartition, PublishedLog],
    *,
    replaced: Collection[str] = (),
    beside: Collection[str] = (),
) -> None:
    """The same for a target that is there, is closed, and is locked by the caller.

    `beside` are files that stand beside the partitions and are made ready as well.
    """
    if os.path.dirname(staging) != target:  # which was not there when the job began
        within = staged_write.staging_name(target)
        os.rename(staging, within)
        staging = within
    new = f"{staging}/{NEW}"
    gone = [name for name, topic in _partitions_in(target) if topic in replaced]
    staged = [f"{topic}-{partition}" for topic, partition in logs]
    added = [name for name in staged if name in gone or not os.path.isdir(f"{target}/{name}")]
    files: list[str] = []
    for name in staged:
        if name in added:
            continue
        if os.stat(f"{target}/{name}").st_dev != os.stat(new).st_dev:
            raise DirectoryStateError(f"{target}/{name} is on another file system than {target}")
        # The log file last: it makes the other files count.
        names = sorted(os.listdir(f"{new}/{name}"), key=lambda one: (one.endswith(LOG_SUFFIX), one))
        files += [f"{name}/{one}" for one in names]
    files += [*beside, *_write_checkpoints(target, new, logs, replaced)]
    if not is_marked_clean(target):
        mark_clean(new)
        files.append(CLEAN_SHUTDOWN)
    for name in staged:
        fsync_directory(f"{new}/{name}")
    fsync_directory(new)
    staged_write.publish(target, staging, StagedWrite(set_aside=gone, directories=added, files=files))


def _partitions_in(data_dir: str) -> list[tuple[str, str]]:
    """Names of the partitions' directories, and their topics."""
    found: list[tuple[str, str]] = []
    for name in os.listdir(data_dir):
        named = parse_partition_directory(name)
        if named is not None and os.path.isdir(f"{data_dir}/{name}"):
            found.append((name, named[0]))
    return sorted(found)


def _write_checkpoints(
    before: str, directory: str, logs: Mapping[TopicPartition, PublishedLog], replaced: Collection[str]
) -> list[str]:
    """Write the checkpoints as they will be, by what they are in `before`; returns their names."""
    ends = {key: log.end_offset for key, log in logs.items()}
    changes: dict[str, dict[TopicPartition, int]] = {
        RECOVERY_POINTS: ends,
        HIGH_WATERMARKS: ends,
        LOG_START_OFFSETS: {key: log.start_offset for key, log in logs.items() if log.start_offset},
        CLEANER_OFFSETS: {key: log.cleaned_offset for key, log in logs.items() if log.cleaned_offset is not None},
    }
    for name, changed in changes.items():
        known = read_offset_checkpoint(f"{before}/{name}")
        kept = {key: offset for key, offset in known.items() if key[0] not in replaced}
        write_offset_checkpoint(f"{directory}/{name}", {**kept, **changed}, sync=True)
    return list(changes)


class DataDirectoryCommit:
    """A new data directory, for jobs that run within one block: it is complete and there, or has never been.

    `DirectoryStateError` when the target holds something already. What was made ready goes with the block.
    """

    def __init__(self, target: str) -> None:
        self.target = local_path(target)
        self._check_vacant()
        #: Where it is made ready. Processes of the job may write below it.
        self.staging = new_staging(self.target)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remove_staging(self.staging)

    def _check_vacant(self) -> None:
        if not is_vacant(self.target):
            raise DirectoryStateError(f"{self.target} is there already and not empty: name a new directory")

    def partition_directory(self, topic: str, partition: int) -> str:
        """Where the files of a partition go, made now; a path. `OSError`."""
        return staged_partition(self.staging, topic, partition)

    def publish(self, logs: Mapping[TopicPartition, PublishedLog], beside: Mapping[str, bytes] | None = None) -> None:
        """Let the target be what was made ready, with the files `beside` the partitions. See `publish`.

        `DirectoryStateError` when others have put something there meanwhile.
        """
        beside = beside or {}
        for name, content in beside.items():
            write_atomically(f"{self.staging}/{NEW}/{name}", content, sync=True)
        if not os.path.isdir(self.target):
            _appear(self.target, self.staging, logs)
            return
        with locked(self.target):
            self._check_vacant()
            publish_locked(self.target, self.staging, logs, beside=tuple(beside))


def carried_files(logs: Sequence[PartitionLog]) -> dict[str, bytes]:
    """The small files of these logs' data directory for a copy that has them only, by name. `OSError`.

    Of the first one, where there are several directories.
    """
    found: dict[str, bytes] = {}
    if not logs:
        return found
    data = logs[0].data
    topics = {log.topic for log in logs}
    for name in (META_PROPERTIES, TOPICS_FILE):
        content = read_if_there(data.filesystem, f"{data.path}/{name}")
        if content is not None:
            found[name] = content if name == META_PROPERTIES else _only(content, topics)
    return found


def _only(content: bytes, topics: set[str]) -> bytes:
    """The file of topics without others; as it is where it cannot be read, for the broker to say so."""
    try:
        document: Any = json.loads(content)
        document["topics"] = {name: entry for name, entry in document["topics"].items() if name in topics}
    except (ValueError, KeyError, TypeError, AttributeError):
        return content
    return json.dumps(document, indent=1).encode()


OWNER: Final = "owner.json"
_STAGING_SUFFIX: Final = ".minibroker-write"
_TASKS: Final = "tasks"
_STARTED: Final = 19
_PARENT: Final = 1
_JVM: Final = "java"


def new_staging(target: str) -> str:
    """Make the directory in which a job makes ready what it will publish; returns its path. `OSError`.

    Within the target if that is there, which may be a file system of its own, else beside it. What jobs have left there
    that were killed goes.
    """
    parent, name = os.path.split(target)
    begins = f".{name[:200]}."
    _remove_abandoned(parent, begins=begins, ends=_STAGING_SUFFIX)
    if os.path.isdir(target):
        staging = staged_write.staging_name(target)
        _remove_abandoned(target, begins=staged_write.STAGING_PREFIX, ends=DELETE_DIRECTORY_SUFFIX)
    else:
        os.makedirs(parent, exist_ok=True)
        staging = f"{parent}/{begins}{os.urandom(8).hex()}{_STAGING_SUFFIX}"
    os.mkdir(staging)
    _claim(staging)
    os.mkdir(f"{staging}/{NEW}")
    os.mkdir(f"{staging}/{_TASKS}")
    return staging


def remove_staging(staging: str) -> None:
    """Remove what a job has made ready, if it is there. A folder that resists stays; a broker removes it later.

    Under another name, so that tasks that still run have nothing to write to any more.
    """
    head, dot, tail = staging.rpartition(".")
    gone = f"{head}{dot}gone.{tail}"
    with contextlib.suppress(OSError):
        os.rename(staging, gone)
    shutil.rmtree(gone, ignore_errors=True)


def staged_partition(staging: str, topic: str, partition: int) -> str:
    """The directory, made now if need be, whose content will be the partition's; a path."""
    directory = f"{staging}/{NEW}/{topic}-{partition}"
    os.makedirs(directory, exist_ok=True)
    return directory


def staged_task(staging: str) -> str:
    """A new directory for what an attempt of a task writes, which goes with the staging; a path.

    `FileNotFoundError` when it is gone already.
    """
    directory = f"{staging}/{_TASKS}/{os.urandom(12).hex()}"
    os.mkdir(directory)
    return directory


def is_staging(name: str) -> bool:
    """Whether a name in a data directory is a staging directory's."""
    return name.startswith(staged_write.STAGING_PREFIX) and name.endswith(DELETE_DIRECTORY_SUFFIX)


def _claim(staging: str) -> None:
    """Write down whose the directory is. `OSError`."""
    pid = os.getpid()
    parent = pid
    while (process := _process(parent)) is not None:
        if process[0] == _JVM:
            pid = parent
            break
        parent = int(process[1][_PARENT])
    with open(f"{staging}/{OWNER}", "w", encoding="utf-8") as file:
        json.dump(_identity(pid), file)


def _remove_abandoned(directory: str, *, begins: str, ends: str) -> None:
    """Remove the staging directories with such names whose owner has died. A folder that resists stays."""
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(begins) and name.endswith(ends) and _is_abandoned(f"{directory}/{name}"):
                shutil.rmtree(f"{directory}/{name}", ignore_errors=True)


def _is_abandoned(staging: str) -> bool:
    try:
        with open(f"{staging}/{OWNER}", encoding="utf-8") as file:
            owner: Any = json.load(file)
        if owner["host"] != socket.gethostname() or owner["started"] is None:
            return False
        if owner["boot"] != boot_id():
            return True
        # Containers may share a host's name, but see no processes of each other.
        return bool(owner["namespace"] == _namespace() and owner != _identity(owner["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _identity(pid: int) -> dict[str, Any]:
    """The identity of a process among all others; `started` is None when there is none, or none is known of."""
    process = _process(pid)
    started = process[1][_STARTED] if process is not None else None
    return {
        "host": socket.gethostname(),
        "boot": boot_id(),
        "namespace": _namespace(),
        "pid": pid,
        "started": started,
    }


def _process(pid: int) -> tuple[str, list[str]] | None:
    """A process's name, and the fields of its line in /proc that follow."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            line = file.read()
    except OSError:
        return None
    head, _, tail = line.rpartition(")")
    return head.partition("(")[2], tail.split()


def _namespace() -> str | None:
    """Within which pids mean something."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
