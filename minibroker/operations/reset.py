"""A broker as if it had just started: what tests need between them."""

from collections.abc import Callable
from functools import partial

from minibroker.cluster.deletion import purge_logged
from minibroker.cluster.topics import Topic
from minibroker.faults.observed import installed_faults, journal_of
from minibroker.services import Services


def reset(services: Services, make_topics: Callable[[], object], *, keep_topics: bool = False) -> None:
    """Forget all records, groups, transactions, faults and the journal; all nodes are up, and time is the machine's.

    What was altered while the broker ran (configurations, ACLs, credentials, quotas) is as it was at the start.

    Topics go, too, and `make_topics` makes those that there were at the start, with new ids. With `keep_topics` they
    stay as they are, and their offsets go on where they were, so that readers with a checkpoint miss nothing.
    Producers keep their ids. `OSError`.
    """
    services.core.writes.commit()
    services.core.clock.reset()
    forget_visitors(services)
    services.core.metadata.reset()
    services.forget_visits()
    services.misspelt_topics.clear()
    services.core.advised.forget_security_hints()
    faults, journal = installed_faults(services), journal_of(services)
    if faults is not None:
        faults.clear()
    if journal is not None:
        journal.clear()
    if keep_topics:
        internal = [topic for topic in services.core.topics if topic.is_internal]
        _remove(services, [directory for topic in internal for directory in services.core.topics.delete(topic)])
        now_ms = services.core.clock.now_ms()
        for topic in services.core.topics:
            _empty(topic, now_ms)
    else:
        forget_topics(services)
        make_topics()


def forget_visitors(services: Services) -> None:
    """Groups, transactions and fetch sessions are gone, and all nodes are up."""
    services.forget_coordinators()
    for node in services.core.cluster.nodes.values():
        node.forget_sessions()
        services.core.cluster.start_node(node.id)


def forget_topics(services: Services) -> None:
    """All topics are gone, and what the checkpoints tell of them. `OSError`."""
    services.core.cluster.forget_leaders()
    _remove(services, services.core.topics.delete_all())
    services.core.logs.forget_all()


def _empty(topic: Topic, now_ms: int) -> None:
    for partition in topic.partitions:
        if partition.opened_log is None and not partition.has_files:
            continue
        log = partition.log
        if log.log_start_offset < log.log_end_offset:
            log.truncate_fully_and_start_at(log.log_end_offset, now_ms)


def _remove(services: Services, directories: list[str]) -> None:
    if directories:
        # They were renamed before. To remove them takes the file system long, so no test waits for it.
        services.core.background(partial(purge_logged, directories))
