"""The names of a partition's files (Kafka's `LogFileUtils`), and functions that create and remove its directory."""

import contextlib
from collections.abc import Iterable
from typing import Final

from minibroker_storage.checkpoints import partition_metadata
from minibroker_storage.portability import os

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
DELETE_DIRECTORY_SUFFIX: Final = "-delete"
PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

_OFFSET_DIGITS: Final = 20
_MAX_NAME_BYTES: Final = 255
_CREATE_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def file_name(offset: int, suffix: str) -> str:
    """Return a segment file's name: `offset` as 20 digits, followed by `suffix`."""
    return f"{offset:020d}{suffix}"


def offset_of(name: str) -> int | None:
    """Return the offset at the start of a file name, or None if the name does not begin with one."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == _OFFSET_DIGITS and digits.isdecimal() and digits.isascii() else None


def create_partition_directory(directory: str, topic_id: bytes) -> None:
    """Create the directory of a new partition with all files of its empty first segment, without opening a log.

    The files are `partition.metadata` with the 16-byte `topic_id`, an empty leader epoch checkpoint, the empty log
    and both indexes. The indexes have size 0, because after a clean shutdown Kafka considers an index of the
    maximum size full; opening the log preallocates them. No fsync and no temporary files are used, since 5,000
    partitions can be created in a row. A crash leaves a directory that opens as an empty log.

    Raises:
        FileExistsError: the directory exists and is not empty.
        OSError: a file cannot be created.
    """
    _make_directory(directory)
    stem = f"{directory}/{0:020d}"
    _create_file(f"{directory}/{PARTITION_METADATA}", data=partition_metadata(topic_id))
    _create_file(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    _create_file(stem + LOG_SUFFIX)
    _create_file(stem + INDEX_SUFFIX)
    _create_file(stem + TIME_INDEX_SUFFIX)


def create_unused_directory(directory: str, topic_id: bytes, *, twin: str | None = None) -> None:
    """Create the directory of a partition that has never held a record, with only its `partition.metadata`.

    The broker that loads the log, which can be Kafka, creates the other files. No fsync is used.

    Args:
        directory: the directory to create.
        topic_id: the 16-byte id of the topic.
        twin: the directory of another such partition of the topic. The new partition gets a hard link to the
            metadata file in it where the file system supports that, so each partition needs only one inode. Brokers
            replace metadata files and never write into them.

    Raises:
        FileExistsError: the directory exists.
        OSError: the directory or its file cannot be created; neither exists afterwards.
    """
    os.mkdir(directory, 0o755)
    path = f"{directory}/{PARTITION_METADATA}"
    if twin is not None:
        # The file system may not support hard links, or may limit the number of links to a file.
        with contextlib.suppress(OSError):
            os.link(f"{twin}/{PARTITION_METADATA}", path)
            return
    try:
        _create_file(path, data=partition_metadata(topic_id))
    except OSError:
        with contextlib.suppress(OSError):
            purge(directory)
        raise


def restart_partition_directory(directory: str, offset: int) -> None:
    """Empty the log in a directory and let it begin at `offset`, unless the log already begins there or later.

    Leader epochs are kept. If a call was interrupted, call the function again to complete it.

    Raises:
        OSError: a file cannot be created or removed.
    """
    names = os.listdir(directory)
    segments = [start for name in names if name.endswith(LOG_SUFFIX) and (start := offset_of(name)) is not None]
    if min(segments, default=-1) >= offset:
        return
    with contextlib.suppress(FileExistsError):
        _create_file(f"{directory}/{file_name(offset, LOG_SUFFIX)}")
    # Remove the logs last, because the next call continues this change as long as a log with a smaller offset exists.
    stale = [name for name in names if offset_of(name) != offset or name.endswith(SNAPSHOT_SUFFIX)]
    stale = [name for name in stale if offset_of(name) is not None]
    unlink_files(f"{directory}/{name}" for name in sorted(stale, key=lambda name: name.endswith(LOG_SUFFIX)))


def _make_directory(directory: str) -> None:
    """Create a directory, replacing an empty one, which a machine crash may have left."""
    try:
        os.mkdir(directory, 0o755)
    except FileExistsError:
        with contextlib.suppress(OSError):
            os.rmdir(directory)
        os.mkdir(directory, 0o755)


def _create_file(path: str, *, data: bytes = b"") -> None:
    fd = os.open(path, _CREATE_FLAGS, 0o644)
    try:
        if data:
            os.write(fd, data)
    finally:
        os.close(fd)


def delete_directory_name(directory: str) -> str:
    """Return a directory name for a deleted partition, with the topic cut so that the name fits into 255 bytes.

    The format is `<topic>-<p>.<32 hex digits>-delete`.
    """
    parent, slash, name = directory.rpartition("/")
    topic, dash, partition = name.rpartition("-")
    tail = f"{dash}{partition}.{os.urandom(16).hex()}{DELETE_DIRECTORY_SUFFIX}"
    return f"{parent}{slash}{topic[: _MAX_NAME_BYTES - len(tail)]}{tail}"


def rename_if_exists(path: str, target: str) -> bool:
    """Rename a file or directory, and return whether it existed. A partition's directory exists from its first record.

    Raises:
        OSError: the file or directory cannot be renamed.
    """
    try:
        os.rename(path, target)
    except FileNotFoundError:
        return False
    return True


def purge(directory: str) -> None:
    """Remove a directory that was renamed by `Log.delete()` or left by a killed writer (see `staged_write`).

    If the path is a symbolic link, only the link is removed. Purging is the slow part of a deletion; it can run in
    another thread because it touches no open log. A file that disappears in the meantime is not an error.

    Raises:
        OSError: a file cannot be removed.
    """
    if os.path.islink(directory):
        unlink_files([directory])
        return
    purge_contents(directory)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(directory)


def purge_contents(directory: str) -> None:
    """Remove the content of a directory without following links; see `purge`."""
    try:
        with os.scandir(directory) as entries:
            children = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except FileNotFoundError:
        return
    unlink_files(path for path, is_directory in children if not is_directory)
    for path, is_directory in children:
        if is_directory:
            purge(path)


def unlink_files(paths: Iterable[str]) -> None:
    """Remove files returned by `Log.take_deleted_files`. This is slow for large files, and can run in any thread.

    A file that disappears in the meantime is not an error.

    Raises:
        OSError: a file cannot be removed.
    """
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
