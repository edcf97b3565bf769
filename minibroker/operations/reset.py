"""A broker as if it had just started: what tests need between them."""

from collections.abc import Callable

from minibroker.cluster.topics import Topic
from minibroker.faults.observed import installed_faults, journal_of
from minibroker.operations.replacement import replace, staging
from minibroker.services import Services


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
    faults, journal = installed_faults(services), journal_of(services)
    if faults is not None:
        faults.clear()
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
