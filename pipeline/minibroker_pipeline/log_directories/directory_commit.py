"""Publishes the logs of a job in a data directory, without a broker and in one change.

    with DataDirectoryCommit(target) as commit:
        directory = commit.partition_directory("orders", 0)
        ...                                                  # `segment_writer`, in this process or in others
        commit.publish({("orders", 0): PublishedLog(end_offset)})

A job prepares its logs in a staging directory. If a job is killed, the next job that writes to the same place removes
the staging directory of the killed job. The owner of a staging directory is a process that lives as long as the job:
Spark's JVM, which uses separate processes for commits and aborts, or else the process itself. Without /proc, and for
owners on other machines, the state of the owner is unknown and nothing is removed.

A new data directory appears complete, with one rename. An existing one is changed as
`minibroker_storage.data_directory.staged_write` describes: a job killed at any moment has changed everything or
nothing.
"""

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Self

from minibroker_pipeline.filesystem import LocalFileSystem, filesystem_of, read_if_there, strip_file_scheme
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


class DirectoryInUseError(OSError):
    """The directory is in use by a broker or by another job."""


class DirectoryStateError(ValueError):
    """The directory is unsuitable for the job: not closed cleanly, not empty, or not local.

    The message suggests a remedy.
    """


class PublishedLog(NamedTuple):
    """The checkpointed offsets of a log.

    `start_offset` is needed only if no segment begins at the log start offset. `cleaned_offset` is the log's offset
    in cleaner-offset-checkpoint.
    """

    end_offset: int
    start_offset: int = 0
    cleaned_offset: int | None = None


def local_path(path: str) -> str:
    """Return the absolute path of a local directory, with symbolic links resolved.

    Raises:
        DirectoryStateError: the path is an address that is not local.
    """
    path = strip_file_scheme(path)
    if not path or _SCHEME in path:
        raise DirectoryStateError(
            f"{path!r} is not a directory of a local or mounted file system; logs are written there"
        )
    return os.path.realpath(path)


@contextmanager
def lock_directory(data_dir: str) -> Generator[None]:
    """Lock a directory like a broker does. The lock also excludes brokers in this process.

    If a killed writer left an unfinished change, the change is completed first.

    Raises:
        DirectoryInUseError: a broker or another job holds the lock.
        StagedWriteError: the unfinished change cannot be completed.
        OSError: the directory cannot be changed.
    """
    try:
        lock = DirectoryLock(data_dir)
    except DirectoryLockedError:
        raise DirectoryInUseError(f"{data_dir} is in use: stop the broker that runs there first") from None
    try:
        # Complete another job's interrupted commit before this job builds on it, as a starting broker does.
        staged_write.finish(data_dir)
        yield
    finally:
        lock.release()


def check_closed(data_dir: str) -> None:
    """Check that the directory was closed cleanly or has no logs.

    Raises:
        DirectoryStateError: the directory has logs and was not closed cleanly.
    """
    # If the broker was killed, a log can end with an incomplete entry, and only the recovery of a starting broker finds
    # the true end.
    if is_marked_clean(data_dir):
        return
    with os.scandir(data_dir) as entries:
        for entry in entries:
            if entry.is_dir() and any(name.endswith(LOG_SUFFIX) for name in os.listdir(entry.path)):
                raise DirectoryStateError(
                    f"{data_dir} was not closed cleanly: start a broker on it and stop it, then write again"
                )


def check_target_apart(paths: Iterable[str], target: str) -> None:
    """Check that the target is not within a directory that is read, because brokers refuse such a directory.

    Raises:
        DirectoryStateError: the target is within one of the paths.
    """
    new = local_path(target)
    for path in paths:
        filesystem, directory = filesystem_of(path)
        if isinstance(filesystem, LocalFileSystem) and f"{new}/".startswith(f"{os.path.realpath(directory)}/"):
            raise DirectoryStateError(f"{new} lies within {path}, which is read: name a directory elsewhere")


def is_empty_target(target: str) -> bool:
    """Return whether a directory is missing, or contains only remains of interrupted jobs."""
    if not os.path.lexists(target):
        return True
    return os.path.isdir(target) and all(name == LOCK_FILE or is_staging(name) for name in os.listdir(target))


def check_writable(target: str) -> None:
    """Check that a job can publish in a directory. A job calls this before it does any work.

    Raises:
        DirectoryInUseError: a broker or another job holds the lock.
        DirectoryStateError: the target was not closed cleanly, or is not a directory.
        StagedWriteError: an unfinished change of a killed writer cannot be completed.
    """
    if os.path.isdir(target):
        with lock_directory(target):
            check_closed(target)
    elif os.path.lexists(target):
        raise DirectoryStateError(f"{target} is not a directory")


def publish_new_directory(target: str, staging: str, logs: Mapping[TopicPartition, PublishedLog]) -> None:
    """Publish the staged files as a data directory that does not exist yet, or is empty.

    Args:
        target: the data directory.
        staging: the staging directory. All its files must be on disk already.
        logs: the offsets to write to the checkpoints for each written partition.

    Raises:
        OSError: a file cannot be changed. With ENOTEMPTY, another process has written to the target.
    """
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
    extra_files: Collection[str] = (),
) -> None:
    """Publish the staged files: new partitions, and new files of existing partitions.

    Args:
        target: a data directory that was closed cleanly and that the caller has locked.
        staging: the staging directory. All its files must be on disk already.
        logs: the offsets to write to the checkpoints for each written partition.
        replaced: topics whose existing partitions are removed first.
        extra_files: the names of staged files to publish next to the partitions.

    Raises:
        DirectoryStateError: a partition is on another file system.
        OSError: a file cannot be changed.
    """
    # The target did not exist when the job began, so the staging directory is not inside the target.
    if os.path.dirname(staging) != target:
        within = staged_write.staging_name(target)
        os.rename(staging, within)
        staging = within
    new = f"{staging}/{NEW}"
    removed = [name for name, topic in _partitions_in(target) if topic in replaced]
    staged = [f"{topic}-{partition}" for topic, partition in logs]
    added = [name for name in staged if name in removed or not os.path.isdir(f"{target}/{name}")]
    files: list[str] = []
    for name in (name for name in staged if name not in added):
        if os.stat(f"{target}/{name}").st_dev != os.stat(new).st_dev:
            raise DirectoryStateError(f"{target}/{name} is on another file system than {target}")
        # List the log file last, because the other files are ignored until it exists.
        names = sorted(os.listdir(f"{new}/{name}"), key=lambda file: (file.endswith(LOG_SUFFIX), file))
        files += [f"{name}/{file}" for file in names]
    files += [*extra_files, *_write_checkpoints(target, new, logs, replaced)]
    if not is_marked_clean(target):
        mark_clean(new)
        files.append(CLEAN_SHUTDOWN)
    for name in staged:
        fsync_directory(f"{new}/{name}")
    fsync_directory(new)
    staged_write.publish(target, staging, StagedWrite(set_aside=removed, directories=added, files=files))


def _partitions_in(data_dir: str) -> list[tuple[str, str]]:
    """Return the name and the topic of each partition directory."""
    return sorted(
        (name, key[0])
        for name in os.listdir(data_dir)
        if (key := parse_partition_directory(name)) and os.path.isdir(f"{data_dir}/{name}")
    )


def _write_checkpoints(
    source: str, directory: str, logs: Mapping[TopicPartition, PublishedLog], replaced: Collection[str]
) -> list[str]:
    """Write the new checkpoints, based on those in `source`, and return their names."""
    ends = {key: log.end_offset for key, log in logs.items()}
    changes: dict[str, dict[TopicPartition, int]] = {
        RECOVERY_POINTS: ends,
        HIGH_WATERMARKS: ends,
        LOG_START_OFFSETS: {key: log.start_offset for key, log in logs.items() if log.start_offset},
        CLEANER_OFFSETS: {key: log.cleaned_offset for key, log in logs.items() if log.cleaned_offset is not None},
    }
    for name, changed in changes.items():
        offsets = read_offset_checkpoint(f"{source}/{name}")
        kept_offsets = {key: offset for key, offset in offsets.items() if key[0] not in replaced}
        write_offset_checkpoint(f"{directory}/{name}", {**kept_offsets, **changed}, sync=True)
    return list(changes)


class DataDirectoryCommit:
    """A commit of a new data directory, as a context manager for a job that runs within one `with` block.

    The directory appears complete or not at all. At the end of the block, all staged files are removed.

    Raises:
        DirectoryStateError: the target is not empty.
    """

    def __init__(self, target: str) -> None:
        self.target = local_path(target)
        self._check_vacant()
        #: The staging directory. Processes of the job can write below it.
        self.staging = new_staging(self.target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        remove_staging(self.staging)

    def _check_vacant(self) -> None:
        if not is_empty_target(self.target):
            raise DirectoryStateError(f"{self.target} is there already and not empty: name a new directory")

    def partition_directory(self, topic: str, partition: int) -> str:
        """Create the staging directory of a partition and return its path.

        Raises:
            OSError: the directory cannot be created.
        """
        return staged_partition(self.staging, topic, partition)

    def publish(
        self, logs: Mapping[TopicPartition, PublishedLog], extra_files: Mapping[str, bytes] | None = None
    ) -> None:
        """Publish the staged logs as the target, with `extra_files` next to the partitions.

        Raises:
            DirectoryStateError: the target is no longer empty, because another process wrote there.
        """
        extra_files = extra_files or {}
        for name, content in extra_files.items():
            write_atomically(f"{self.staging}/{NEW}/{name}", content, sync=True)
        if not os.path.isdir(self.target):
            publish_new_directory(self.target, self.staging, logs)
            return
        with lock_directory(self.target):
            self._check_vacant()
            publish_locked(self.target, self.staging, logs, extra_files=tuple(extra_files))


def files_for_copy(logs: Sequence[PartitionLog]) -> dict[str, bytes]:
    """Return the small files, by name, for a copy of a data directory that has only these logs.

    If the logs come from several data directories, the files are those of the first.

    Raises:
        OSError: a file cannot be read.
    """
    contents: dict[str, bytes] = {}
    for data in [log.data for log in logs[:1]]:
        for name in (META_PROPERTIES, TOPICS_FILE):
            if (content := read_if_there(data.filesystem, f"{data.path}/{name}")) is not None:
                contents[name] = content
    if TOPICS_FILE in contents:
        contents[TOPICS_FILE] = _reduce_topics_file(contents[TOPICS_FILE], {log.topic for log in logs})
    return contents


def _reduce_topics_file(content: bytes, topics: set[str]) -> bytes:
    """Return the topics file reduced to these topics.

    An unreadable file is returned unchanged, for the broker to report.
    """
    try:
        document: Any = json.loads(content)
        document["topics"] = {name: entry for name, entry in document["topics"].items() if name in topics}
    except (ValueError, KeyError, TypeError, AttributeError):
        return content
    return json.dumps(document, indent=1).encode()


OWNER: Final = "owner.json"
_STAGING_SUFFIX: Final = ".minibroker-write"
_TASKS: Final = "tasks"
_START_TIME_FIELD: Final = 19
_PARENT_FIELD: Final = 1
_JVM: Final = "java"


def new_staging(target: str) -> str:
    """Create a staging directory for a job and return its path. Remove staging directories that killed jobs left there.

    The directory is created within the target if the target exists, because the target may be a separate file
    system. Otherwise it is created next to the target.

    Raises:
        OSError: the directory cannot be created.
    """
    parent, name = os.path.split(target)
    begins = f".{name[:200]}."
    _remove_abandoned_staging(parent, begins=begins, ends=_STAGING_SUFFIX)
    if os.path.isdir(target):
        staging = staged_write.staging_name(target)
        _remove_abandoned_staging(target, begins=staged_write.STAGING_PREFIX, ends=DELETE_DIRECTORY_SUFFIX)
    else:
        os.makedirs(parent, exist_ok=True)
        staging = f"{parent}/{begins}{os.urandom(8).hex()}{_STAGING_SUFFIX}"
    os.mkdir(staging)
    _write_owner(staging)
    os.mkdir(f"{staging}/{NEW}")
    os.mkdir(f"{staging}/{_TASKS}")
    return staging


def remove_staging(staging: str) -> None:
    """Remove a staging directory if it exists. If the removal fails, a broker removes the directory later.

    The directory is renamed first, so that tasks that are still running can no longer write to it.
    """
    head, _, tail = staging.rpartition(".")
    renamed = f"{head}.gone.{tail}"
    with contextlib.suppress(OSError):
        os.rename(staging, renamed)
    shutil.rmtree(renamed, ignore_errors=True)


def staged_partition(staging: str, topic: str, partition: int) -> str:
    """Return the path of the staging directory of a partition. The directory is created if necessary."""
    directory = f"{staging}/{NEW}/{topic}-{partition}"
    os.makedirs(directory, exist_ok=True)
    return directory


def staged_task(staging: str) -> str:
    """Create a directory for one attempt of a task, within the staging directory, and return its path.

    Raises:
        FileNotFoundError: the staging directory was removed.
    """
    directory = f"{staging}/{_TASKS}/{os.urandom(12).hex()}"
    os.mkdir(directory)
    return directory


def is_staging(name: str) -> bool:
    """Return whether a name in a data directory is that of a staging directory."""
    return name.startswith(staged_write.STAGING_PREFIX) and name.endswith(DELETE_DIRECTORY_SUFFIX)


def _write_owner(staging: str) -> None:
    """Record the owner of a staging directory.

    Raises:
        OSError: the record cannot be written.
    """
    owner = parent = os.getpid()
    while (process := _read_process(parent)) is not None:
        if process[0] == _JVM:
            owner = parent
            break
        parent = int(process[1][_PARENT_FIELD])
    with open(f"{staging}/{OWNER}", "w", encoding="utf-8") as file:
        json.dump(_identify_process(owner), file)


def _remove_abandoned_staging(directory: str, *, begins: str, ends: str) -> None:
    """Remove the staging directories with matching names whose owners have ended. Errors are ignored."""
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
        # Containers can share the host's name but not its process ids, so process ids are compared only within the same
        # PID namespace.
        return bool(owner["namespace"] == _namespace() and owner != _identify_process(owner["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _identify_process(pid: int) -> dict[str, Any]:
    """Return an identity that distinguishes a process from all others, including those on other machines.

    `started` is None if the process does not exist or nothing is known about it.
    """
    process = _read_process(pid)
    started = process[1][_START_TIME_FIELD] if process is not None else None
    return {"host": socket.gethostname(), "boot": boot_id(), "namespace": _namespace(), "pid": pid, "started": started}


def _read_process(pid: int) -> tuple[str, list[str]] | None:
    """Return the name of a process, and the fields after the name in /proc/PID/stat."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            line = file.read()
    except OSError:
        return None
    head, _, tail = line.rpartition(")")
    return head.partition("(")[2], tail.split()


def _namespace() -> str | None:
    """Return the PID namespace of this process, or None if unknown."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
