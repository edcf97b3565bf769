"""Resets a broker to the state after its start, as needed between tests."""

import contextlib
import os
from collections.abc import Callable, Collection, Generator
from functools import partial

from minibroker.cluster.core import Core
from minibroker.cluster.directories import find_markers, purge_and_log_errors
from minibroker.cluster.errors import ConflictError
from minibroker.cluster.topics import Topic
from minibroker.server.inspection.recording import journal_of
from minibroker.server.services import Services
from minibroker_storage.data_directory.names import BACKUP_SUFFIX, CLUSTER_FILE, OFFSET_CHECKPOINTS, TOPICS_FILE
from minibroker_storage.data_directory.staged_write import NEW, UNFINISHED, StagedWrite, publish, staging_name, undo
from minibroker_storage.files import fsync_directory


def reset(
    services: Services, make_topics: Callable[[], object], *, keep_topics: bool = False, untouched: Collection[str] = ()
) -> None:
    """Remove all records, groups, transactions, faults and journal entries.

    All nodes are started, and the clock is set to the machine's time. Changes made at run time (configurations,
    ACLs, credentials, quotas) are reverted to the state at the start. Producer ids continue.

    Topics are removed as well, and `make_topics` creates the initial ones with new ids. With `keep_topics` they
    stay, and their offsets continue, so readers with a checkpoint miss nothing. Topics named in `untouched` also keep
    their records.

    Raises:
        OSError: nothing has changed. A kill leaves either the old state or the new one.
    """
    core = services.core
    if services.chaos is not None:
        services.chaos.restart()
    core.writes.commit()
    core.cluster.raise_first_epoch()
    gone = [topic for topic in core.topics if topic.is_internal or not (keep_topics or topic.name in untouched)]
    kept = [topic for topic in core.topics if topic not in gone]
    ends = {topic: _read_end_offsets(topic) for topic in kept if topic.name not in untouched}
    try:
        with create_staging_directory(core) as new:
            core.features.raise_epoch(core.metadata.write_first(new))
            core.topics.note({topic: {"begins_at": offsets} for topic, offsets in ends.items() if any(offsets)})
            core.topics.write_into(new, kept)
            replace(core, new, gone)
        now_ms = core.clock.now_ms()
        for topic, offsets in ends.items():
            for partition, offset in zip(topic.partitions, offsets, strict=True):
                log = partition.opened_log
                # The log is truncated fully, because DeleteRecords would keep producers and their open transactions.
                if log is not None and (log.log_start_offset < offset or log.producers.active):
                    log.truncate_fully_and_start_at(offset, now_ms)
    finally:
        core.topics.note({})
    if any(map(any, ends.values())):
        core.topics.save()
    core.clock.reset()
    reset_clients(services)
    services.forget_visits()
    services.misspelt_topics.clear()
    core.advice.forget_security_hints()
    journal = journal_of(services)
    if services.faults is not None:
        services.faults.clear()
        services.faults.late.clear()
    if journal is not None:
        journal.clear()
    if services.facts is not None:
        services.facts.forget()
    if not keep_topics:
        make_topics()


def reset_clients(services: Services) -> None:
    """Remove groups, transactions and fetch sessions, and start all nodes."""
    services.forget_coordinators()
    for node in services.core.cluster.nodes.values():
        node.fetch_sessions.clear()
        services.core.cluster.start_node(node.id)


def _read_end_offsets(topic: Topic) -> list[int]:
    """Return the log end offset of each partition."""
    return [
        partition.log.log_end_offset if partition.opened_log is not None or partition.has_files else 0
        for partition in topic.partitions
    ]


METADATA_FILES = (TOPICS_FILE, CLUSTER_FILE)
_STATE_FILES = (*METADATA_FILES, *(name + BACKUP_SUFFIX for name in METADATA_FILES), *OFFSET_CHECKPOINTS)


@contextlib.contextmanager
def create_staging_directory(core: Core) -> Generator[str]:
    """Create a directory in which the `with` block builds a new state to pass to `replace`.

    The block writes the files of a data directory, but none that belong to the running broker's process. The
    directory is removed unless `replace` is called.

    Raises:
        OSError: the directory cannot be created.
    """
    path = staging_name(core.topics.data_dir)
    try:
        os.makedirs(f"{path}/{NEW}")
        yield f"{path}/{NEW}"
    finally:
        if os.path.isdir(path):
            purge_and_log_errors([path])


def replace(core: Core, new: str, gone: Collection[Topic]) -> None:
    """Install a new state, and load its metadata.

    The given topics are removed, as are all files that are not partitions.

    Raises:
        ConflictError: a directory is in the way; nothing has changed.
        OSError: a file cannot be replaced; nothing has changed.
    """
    data_dir, is_durable = core.topics.data_dir, core.durability.is_needed
    with os.scandir(new) as entries:
        is_directory = {entry.name: entry.is_dir() for entry in entries}
    old = {os.path.basename(partition.directory) for topic in gone for partition in topic.partitions}
    directories = [name for name, is_folder in is_directory.items() if is_folder]
    for name in directories:
        if name not in old and os.path.lexists(f"{data_dir}/{name}"):
            raise ConflictError(f"{data_dir}/{name} is in the way: it belongs to no topic of the broker")
    files = [name for name, is_folder in is_directory.items() if not is_folder]
    # A restored topic must not meet the mark of its deletion, whose directory is perhaps still being removed.
    markers = map(os.path.basename, find_markers(data_dir).values())
    old = {name for name in old.union(_STATE_FILES, files, markers) if os.path.lexists(f"{data_dir}/{name}")}
    if is_durable:
        sync_tree(new)
    leftovers: list[str] = []
    with core.logs.replaced(brings_logs=bool(directories)):
        try:
            publish(
                data_dir,
                os.path.dirname(new),
                StagedWrite(set_aside=sorted(old), directories=directories, files=files),
                sync=is_durable,
                remove=leftovers.append,
            )
        except OSError:
            undo(data_dir)
            raise
        core.topics.close_replaced(gone, f"{data_dir}/{UNFINISHED}")
    core.metadata.load()
    # Removing the directory with all replaced files is slow, so it happens in the background.
    core.background(partial(purge_and_log_errors, leftovers))


def sync_tree(directory: str) -> None:
    """Sync a directory to disk, with all files and subdirectories.

    Raises:
        OSError: the sync failed.
    """
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir():
                sync_tree(entry.path)
            else:
                fsync_directory(entry.path)
    fsync_directory(directory)
