"""The names of a partition's files (Kafka's `LogFileUtils`), and the making and removing of its directory."""

import contextlib
import os
from collections.abc import Iterable
from typing import Final

from minibroker_storage.checkpoints import partition_metadata

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
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def file_name(offset: int, suffix: str) -> str:
    """`offset` as the 20 digits that name a segment's files, then `suffix`."""
    return f"{offset:020d}{suffix}"


def offset_of(name: str) -> int | None:
    """The offset that a file name begins with, or None for a name of another kind."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == _OFFSET_DIGITS and digits.isdecimal() and digits.isascii() else None


def create_partition_directory(directory: str, topic_id: bytes) -> None:
    """Make the directory of a new partition with all files of its empty first segment, without opening a log.

    Writes `partition.metadata` with the 16 bytes of `topic_id`, an empty leader epoch checkpoint, the empty log and
    both indexes. The indexes have no room for entries yet, since Kafka takes an index of its full size for a full one
    after a clean stop; a log gives them room when it is opened. No fsync, no temporary files: this is done 5,000 times
    at once. A crash in between leaves a directory that opens as an empty log. `FileExistsError` when the directory is
    there and holds something, `OSError`.
    """
    _make_directory(directory)
    stem = f"{directory}/{0:020d}"
    _create(f"{directory}/{PARTITION_METADATA}", data=partition_metadata(topic_id))
    _create(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    _create(stem + LOG_SUFFIX)
    _create(stem + INDEX_SUFFIX)
    _create(stem + TIME_INDEX_SUFFIX)


def create_unused_directory(directory: str, topic_id: bytes, *, twin: str | None = None) -> None:
    """Make the directory of a partition that has held no record, with its `partition.metadata` alone.

    A broker that loads the log, also Kafka, makes the other files. `twin` is the directory of another such partition of
    the topic. The file gets a second name where the file system allows it, so that each partition takes one inode: a
    broker replaces this file, and never writes into it. No fsync. `OSError`, and the directory is not there, or not
    ours (`FileExistsError`).
    """
    os.mkdir(directory, 0o755)
    path = f"{directory}/{PARTITION_METADATA}"
    if twin is not None:
        with contextlib.suppress(OSError):  # no hard links here, or no more of this file
            os.link(f"{twin}/{PARTITION_METADATA}", path)
            return
    try:
        _create(path, data=partition_metadata(topic_id))
    except OSError:
        with contextlib.suppress(OSError):
            purge(directory)
        raise


def restart_partition_directory(directory: str, offset: int) -> None:
    """Have the log in a directory begin at `offset` and be empty, if it begins before that. `OSError`.

    Leader epochs stay. A second call finishes what a kill has interrupted.
    """
    names = os.listdir(directory)
    segments = [start for name in names if name.endswith(LOG_SUFFIX) and (start := offset_of(name)) is not None]
    if min(segments, default=-1) >= offset:
        return
    with contextlib.suppress(FileExistsError):
        _create(f"{directory}/{file_name(offset, LOG_SUFFIX)}")
    # The logs last: the first one says that this is not done yet.
    stale = [name for name in names if offset_of(name) != offset or name.endswith(SNAPSHOT_SUFFIX)]
    stale = [name for name in stale if offset_of(name) is not None]
    unlink_files(f"{directory}/{name}" for name in sorted(stale, key=lambda name: name.endswith(LOG_SUFFIX)))


def _make_directory(directory: str) -> None:
    """Make a directory. An empty one is taken over: a crash of the machine leaves it, with the names in it lost."""
    try:
        os.mkdir(directory, 0o755)
    except FileExistsError:
        try:
            os.rmdir(directory)
        except OSError:
            pass
        else:
            os.mkdir(directory, 0o755)
            return
        raise


def _create(path: str, *, data: bytes = b"") -> None:
    fd = os.open(path, _NEW, 0o644)
    try:
        if data:
            os.write(fd, data)
    finally:
        os.close(fd)


def delete_directory_name(directory: str) -> str:
    """The name of a deleted partition: `<topic>-<p>.<32 hex digits>-delete`, its topic cut to make 255 bytes."""
    parent, slash, name = directory.rpartition("/")
    topic, dash, partition = name.rpartition("-")
    tail = f"{dash}{partition}.{os.urandom(16).hex()}{DELETE_DIRECTORY_SUFFIX}"
    return f"{parent}{slash}{topic[: _MAX_NAME_BYTES - len(tail)]}{tail}"


def rename_if_there(directory: str, target: str) -> bool:
    """Rename a partition's directory; whether it is there, which it is from the first record on. `OSError`."""
    try:
        os.rename(directory, target)
    except FileNotFoundError:
        return False
    return True


def purge(directory: str) -> None:
    """Remove a directory that `Log.delete()` renamed, or a leftover one (see `staged_write`), with all that is in it.

    Of a symbolic link only the link goes. The slow part of a deletion; touches nothing of an open log, so that it can
    run in another thread. A file that vanishes meanwhile is not an error; `OSError` otherwise.
    """
    if os.path.islink(directory):
        unlink_files([directory])
        return
    purge_contents(directory)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(directory)


def purge_contents(directory: str) -> None:
    """Remove all that is in a directory, and nothing that a link in it leads to; see `purge`."""
    try:
        with os.scandir(directory) as entries:
            found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except FileNotFoundError:
        return
    unlink_files(path for path, is_directory in found if not is_directory)
    for path, is_directory in found:
        if is_directory:
            purge(path)


def unlink_files(paths: Iterable[str]) -> None:
    """Remove files, as `Log.take_deleted_files` hands them over. Slow for large ones; for any thread.

    What vanished meanwhile is not an error; `OSError` otherwise.
    """
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
