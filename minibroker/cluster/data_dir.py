"""The data directory: its lock, its identity, and the record of how the last run ended.

This module keeps three small files in the directory, all with Kafka's names:

- `.lock` keeps other brokers out (`minibroker_storage.data_directory.lock`). Kafka leaves the file empty. Here it
  contains the machine's boot id. If the id has changed by the next start, the machine may have crashed and lost
  writes. If it has not changed, only the process was killed, and no writes are lost.
- `meta.properties` names the cluster and the node that the directory belongs to.
- `.kafka_cleanshutdown` marks that every log was closed cleanly. It only exists between two runs.
"""

import contextlib
import errno
import logging
from collections.abc import Mapping
from typing import Final

from minibroker.cluster.temporary import is_temporary
from minibroker.config.properties import parse_properties
from minibroker_protocol.primitives import new_uuid, uuid_text
from minibroker_storage.data_directory.clean_shutdown import (
    MAX_BOOT_ID,
    LastStop,
    boot_id,
    is_marked_clean,
    mark_clean,
    unmark_clean,
)
from minibroker_storage.data_directory.lock import DirectoryLock, DirectoryLockedError
from minibroker_storage.data_directory.names import BACKUP_SUFFIX, META_PROPERTIES, SNAPSHOT_FILE
from minibroker_storage.data_directory.staged_write import finish
from minibroker_storage.files import read_file, write_atomically
from minibroker_storage.portability import os

DEFAULT_NODE_ID: Final = 1

_META_VERSION: Final = 1
_META_KEYS: Final = frozenset({"version", "cluster.id", "node.id", "broker.id"})
_UNRECOVERED: Final = "unrecovered"
_logger = logging.getLogger(__name__)


class DataDirInUseError(OSError):
    """Another broker, in this process or another one, is using the directory.

    Two brokers would overwrite each other's records.
    """


class MetaPropertiesError(ValueError):
    """`meta.properties` is damaged or belongs to another node or cluster, or the directory is incomplete.

    The message names the file or directory and gives the reason.
    """


class DataDir:
    """A data directory, created if necessary and locked until `release` or the end of the process.

    Args:
        path: The path of the directory.
        node_id: The configured node id. -1 stands for the id in the directory, or 1 if the directory has none.
        cluster_id: The configured cluster id. None stands for the id in the directory, or a new one.

    Attributes:
        cluster_id: The id of the cluster that the directory belongs to.
        last_stop: How the last run ended, for logs that this run has not opened yet.
        was_killed: Whether the last run did not stop cleanly.
        is_temporary: Whether the directory is removed when the broker stops, and need not survive a crash of the
            machine.

    Raises:
        DataDirInUseError: Another broker holds the lock.
        MetaPropertiesError: The identity is missing, damaged or unexpected.
        StagedWriteError: A write that a killed pipeline job had started cannot be completed.
        OSError: The directory cannot be created or written.
    """

    def __init__(self, path: str, node_id: int = -1, cluster_id: str | None = None) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
        self.path = path
        self.is_temporary = is_temporary(path)
        self._lock = _lock_directory(path)
        try:
            _check_complete(path)
            if finish(path):
                _logger.info("%s: finished what a killed writer had begun", path)
            self.cluster_id, self.node_id = _read_ids(path, node_id, cluster_id, is_durable=not self.is_temporary)
            self.last_stop = self._read_last_stop()
            self.was_killed = self.last_stop is not LastStop.CLEAN
        except BaseException:
            self.release()
            raise

    def take_over(self) -> None:
        """Record that a broker uses the directory, so that the next one notices if this broker does not stop cleanly.

        Raises:
            OSError: A file cannot be written or removed.
        """
        unmark_clean(self.path)
        with contextlib.suppress(FileNotFoundError):
            # The broker will change the directory, so it is no longer a snapshot.
            os.unlink(f"{self.path}/{SNAPSHOT_FILE}")
        # Keep the record of a crash across runs. If this broker is killed before it has opened every log, the unopened
        # logs still need recovery.
        self._write_lock(_UNRECOVERED if self.last_stop is LastStop.CRASHED else "")

    def mark_recovered(self) -> None:
        """Record that every log was opened. The end of the previous run no longer matters."""
        if self.last_stop is LastStop.CRASHED:
            self._write_lock("")
        self.last_stop = LastStop.CLEAN

    def mark_killed(self) -> None:
        """Record that the directory contains new logs that no broker has closed."""
        if self.last_stop is LastStop.CLEAN:
            self.last_stop = LastStop.KILLED

    def mark_clean(self) -> None:
        """Mark the stop as clean. All logs must be closed and on disk.

        The mark is omitted if some logs have not been recovered since the last unclean stop.

        Raises:
            OSError: The file cannot be written.
        """
        if self.last_stop is LastStop.CLEAN:
            mark_clean(self.path)

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        self._lock.release()

    def _read_last_stop(self) -> LastStop:
        if is_marked_clean(self.path) or not _holds_directories(self.path):
            return LastStop.CLEAN
        lock_words = os.pread(self._lock.fd, MAX_BOOT_ID, 0).decode(errors="replace").split()
        return LastStop.KILLED if lock_words and lock_words == [boot_id()] else LastStop.CRASHED

    def _write_lock(self, note: str) -> None:
        os.ftruncate(self._lock.fd, 0)
        os.pwrite(self._lock.fd, f"{boot_id() or ''}\n{note}".encode(), 0)


def _lock_directory(directory: str) -> DirectoryLock:
    try:
        return DirectoryLock(directory)
    except DirectoryLockedError as error:
        if error.is_locked_by_java:
            raise DataDirInUseError(
                f"{directory} is in use by an Apache Kafka ({error.path} is locked as Java does it): stop it first, or "
                "serve a copy of the directory"
            ) from None
        raise DataDirInUseError(f"{directory} is in use by another broker ({error.path} is locked)") from None


def _check_complete(path: str) -> None:
    """Check that the directory is not an incomplete snapshot (see `minibroker.operations.snapshots`).

    Raises:
        MetaPropertiesError: The snapshot was interrupted while it was taken.
    """
    with contextlib.suppress(FileNotFoundError):
        if b'"files": null' in read_file(f"{path}/{SNAPSHOT_FILE}"):
            raise MetaPropertiesError(f"{path} is a snapshot that was cut short while it was taken: remove it")


def _holds_directories(path: str) -> bool:
    """Return whether the directory has subdirectories, which can be logs."""
    with os.scandir(path) as entries:
        return any(entry.is_dir() for entry in entries)


def _read_ids(directory: str, configured: int, configured_cluster: str | None, *, is_durable: bool) -> tuple[str, int]:
    """Return the cluster id and the node id of a directory. Ids missing from `meta.properties` are added to it.

    The file follows Kafka's `MetaProperties`. Version 1 has `node.id`. Version 0, written by a broker with
    ZooKeeper, has `broker.id`, and both this id and the cluster id may be missing. A file torn by a crash of the
    machine is restored from its copy.
    """
    path = os.path.join(directory, META_PROPERTIES)
    properties = _read_meta(path)
    if properties is None and (foreign_file := _first_foreign_file(directory)):
        _logger.warning("%s has other files, such as %s: is it the directory that you mean?", directory, foreign_file)
    is_torn = properties is not None and not properties
    if is_torn:
        properties = _read_meta(path + BACKUP_SUFFIX)
        if not properties:
            raise MetaPropertiesError(
                f"{path} is empty or no file of properties: put back its lines (version, cluster.id, node.id), "
                "or remove it, and the directory begins a cluster of its own"
            )
        _logger.warning("%s is damaged; it is made again from %s", path, path + BACKUP_SUFFIX)
    properties = properties or {}
    version = properties.get("version", "0")
    if version not in {"0", str(_META_VERSION)}:
        raise MetaPropertiesError(f"{path}: unknown version {version!r}")
    key = "node.id" if properties and version != "0" else "broker.id"
    text, cluster_id = properties.get(key), properties.get("cluster.id")
    _check_identity(path, key, properties, configured, configured_cluster)
    if text is not None and cluster_id is not None and not is_torn:
        return cluster_id, int(text)
    node_id = int(text) if text is not None else configured if configured >= 0 else DEFAULT_NODE_ID
    cluster_id = cluster_id or configured_cluster or uuid_text(new_uuid())
    directory_id = properties.get("directory.id") or uuid_text(new_uuid())
    lines = f"version={_META_VERSION}\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n"
    if is_durable:
        write_atomically(path + BACKUP_SUFFIX, lines.encode(), sync=True)
    write_atomically(path, lines.encode(), sync=is_durable)
    return cluster_id, node_id


def _first_foreign_file(directory: str) -> str | None:
    """Return the first visible file, by name, that no broker writes, or None.

    Such a file suggests that the directory has another purpose, such as a project.
    """
    with os.scandir(directory) as entries:
        return min(
            (
                entry.name
                for entry in entries
                if entry.is_file()
                and not entry.name.startswith((".", "minibroker-", META_PROPERTIES))
                and not entry.name.endswith("-checkpoint")
            ),
            default=None,
        )


def _read_meta(path: str) -> dict[str, str] | None:
    """Return the known properties of a file, {} if it has none of them, or None if the file does not exist.

    Raises:
        MetaPropertiesError: The file cannot be parsed.
        OSError: The file cannot be read.
    """
    try:
        properties = parse_properties(read_file(path).decode("latin-1"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise MetaPropertiesError(f"{path}: {error}") from None
    return properties if properties.keys() & _META_KEYS else {}


def _check_identity(
    path: str, key: str, properties: Mapping[str, str], configured: int, configured_cluster: str | None
) -> None:
    """Check the node id, which is stored under `key`, and the cluster id.

    Raises:
        MetaPropertiesError: An id is missing, invalid or not the configured one.
    """
    text, cluster_id = properties.get(key), properties.get("cluster.id")
    if key == "node.id" and (text is None or cluster_id is None):
        raise MetaPropertiesError(f"{path}: {key if text is None else 'cluster.id'} is missing")
    if text is not None and not (text.isascii() and text.isdigit()):
        raise MetaPropertiesError(f"{path}: {key} is not a number: {text!r}")
    if text is not None and configured not in {-1, int(text)}:
        raise MetaPropertiesError(
            f"{path} belongs to node {text}, but node.id is configured as {configured}: "
            "set it to that number, or give the broker a directory of its own"
        )
    if cluster_id is not None and configured_cluster not in {None, cluster_id}:
        raise MetaPropertiesError(
            f"{path} belongs to cluster {cluster_id}, but the cluster's id is configured as {configured_cluster} "
            "(minibroker.cluster.id, or CLUSTER_ID of a container): "
            "set it to that id, or give the broker a directory of its own"
        )
