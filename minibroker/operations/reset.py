"""A broker as if it had just started: what tests need between them."""

import contextlib
import os
from collections.abc import Callable, Collection, Generator
from functools import partial

from minibroker.cluster.core import Core
from minibroker.cluster.directories import purge_logged
from minibroker.cluster.errors import ConflictError
from minibroker.cluster.topics import Topic
from minibroker.server.inspection.recording import journal_of
from minibroker.server.services import Services
from minibroker_storage.data_directory.names import BACKUP_SUFFIX, CLUSTER_FILE, OFFSET_CHECKPOINTS, TOPICS_FILE
from minibroker_storage.data_directory.staged_write import NEW, UNFINISHED, StagedWrite, publish, staging_name, undo
from minibroker_storage.files import fsync_directory


def reset(services: Services, make_topics: Callable[[], object], *, keep_topics: bool = False) -> None:
    """Forget all records, groups, transactions, faults and the journal; all nodes are up, and time is the machine's.

    What was altered while the broker ran (configurations, ACLs, credentials, quotas) is as it was at the start.

    Topics go, too, and `make_topics` makes those that there were at the start, with new ids. With `keep_topics` they
    stay as they are, and their offsets go on where they were, so that readers with a checkpoint miss nothing.
    Producers keep their ids. `OSError`, and nothing has changed; after a kill nothing has, or all.
    """
    core = services.core
    core.writes.commit()
    core.cluster.forget_leaders()
    gone = [topic for topic in core.topics if topic.is_internal or not keep_topics]
    ends = {topic: _ends(topic) for topic in core.topics if topic not in gone}
    try:
        with staging(core) as new:
            core.features.outlast(core.metadata.write_first(new))
            core.topics.note({topic: {"begins_at": offsets} for topic, offsets in ends.items() if any(offsets)})
            core.topics.write_into(new, ends)
            replace(core, new, gone)
        now_ms = core.clock.now_ms()
        for topic, offsets in ends.items():
            _empty(topic, offsets, now_ms)
    finally:
        core.topics.note({})
    if any(map(any, ends.values())):
        core.topics.save()
    core.clock.reset()
    forget_visitors(services)
    services.forget_visits()
    services.misspelt_topics.clear()
    core.advised.forget_security_hints()
    journal = journal_of(services)
    if services.faults is not None:
        services.faults.clear()
    if journal is not None:
        journal.clear()
    if not keep_topics:
        make_topics()


def forget_visitors(services: Services) -> None:
    """Groups, transactions and fetch sessions are gone, and all nodes are up."""
    services.forget_coordinators()
    for node in services.core.cluster.nodes.values():
        node.forget_sessions()
        services.core.cluster.start_node(node.id)


def _ends(topic: Topic) -> list[int]:
    """The offset at which each partition's log ends."""
    return [
        each.log.log_end_offset if each.opened_log is not None or each.has_files else 0 for each in topic.partitions
    ]


def _empty(topic: Topic, offsets: list[int], now_ms: int) -> None:
    for partition, offset in zip(topic.partitions, offsets, strict=True):
        log = partition.opened_log
        # Producers stay known after DeleteRecords, and their transactions open.
        if log is not None and (log.log_start_offset < offset or log.producers.active):
            log.truncate_fully_and_start_at(offset, now_ms)


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
