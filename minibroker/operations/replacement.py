"""The one way to put another state in the place of all that a data directory holds: all of it, or nothing.

A reset and a restore make the new state ready beside the old one, in a staging directory. If that fails, nothing has
happened. One rename then decides: a kill before leaves the old state, a kill afterwards the new one, which the next
start puts in place (`minibroker_storage.data_directory.staged_write`). Only then is the old state forgotten in memory.
"""

import contextlib
import os
from collections.abc import Collection, Generator
from functools import partial

from minibroker.cluster.deletion import purge_logged
from minibroker.cluster.topics import Topic
from minibroker.core import Core
from minibroker.errors import ConflictError
from minibroker_storage.atomic_files import fsync_directory
from minibroker_storage.data_directory.names import BACKUP_SUFFIX, CLUSTER_FILE, OFFSET_CHECKPOINTS, TOPICS_FILE
from minibroker_storage.data_directory.staged_write import NEW, UNFINISHED, StagedWrite, publish, staging_name, undo

METADATA_FILES = (TOPICS_FILE, CLUSTER_FILE)
_STATE_FILES = (*METADATA_FILES, *(name + BACKUP_SUFFIX for name in METADATA_FILES), *OFFSET_CHECKPOINTS)


@contextlib.contextmanager
def staging(core: Core) -> Generator[str]:
    """Return a directory for the new state, to be filled in the block and handed to `replace`. OSError.

    It has the files of a data directory, but for those of the broker's run. Without a call of `replace` it is removed.
    """
    path = staging_name(core.topics.data_dir)
    try:
        os.makedirs(f"{path}/{NEW}")
        yield f"{path}/{NEW}"
    finally:
        if os.path.isdir(path):
            purge_logged([path])


def replace(core: Core, new: str, gone: Collection[Topic]) -> None:
    """Put a state in place, and take away topics and all files that are not partitions; then load the metadata.

    ConflictError where a directory is in the way, OSError; then nothing has changed.
    """
    data_dir, is_durable = core.topics.data_dir, core.durability.is_needed
    with os.scandir(new) as entries:
        is_directory = {entry.name: entry.is_dir() for entry in entries}
    old = {os.path.basename(part.directory) for topic in gone for part in topic.partitions}
    directories = [name for name, it_is in is_directory.items() if it_is]
    for name in directories:
        if name not in old and os.path.lexists(f"{data_dir}/{name}"):
            raise ConflictError(f"{data_dir}/{name} is in the way: it belongs to no topic of the broker")
    files = [name for name, it_is in is_directory.items() if not it_is]
    old = {name for name in old.union(_STATE_FILES, files) if os.path.lexists(f"{data_dir}/{name}")}
    if is_durable:
        sync_tree(new)
    left: list[str] = []
    with core.logs.replaced(brings_logs=bool(directories)):
        try:
            publish(
                data_dir,
                os.path.dirname(new),
                StagedWrite(set_aside=sorted(old), directories=directories, files=files),
                sync=is_durable,
                remove=left.append,
            )
        except OSError:
            undo(data_dir)
            raise
        core.topics.replaced(gone, f"{data_dir}/{UNFINISHED}")
    core.metadata.load()
    # It holds all that was set aside. To remove it takes the file system long, so nobody waits for it.
    core.background(partial(purge_logged, left))


def sync_tree(directory: str) -> None:
    """Force a directory and its subdirectories to disk, with all files in them. OSError."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir():
                sync_tree(entry.path)
            else:
                fsync_directory(entry.path)
    fsync_directory(directory)
