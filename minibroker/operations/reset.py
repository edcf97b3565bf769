"""A broker as if it had just started: what tests need between them."""

from collections.abc import Callable
from functools import partial

from minibroker.metadata.deletion import purge_logged
from minibroker.metadata.topics import Topic
from minibroker.state import BrokerState


def reset(state: BrokerState, make_topics: Callable[[], object], *, keep_topics: bool = False) -> None:
    """Forget all records, groups, transactions, faults and the journal; all nodes are up, and time is the machine's.

    What was altered while the broker ran (configurations, ACLs, credentials, quotas) is as it was at the start.

    Topics go, too, and `make_topics` makes those that there were at the start, with new ids. With `keep_topics` they
    stay as they are, and their offsets go on where they were, so that readers with a checkpoint miss nothing.
    Producers keep their ids. `OSError`.
    """
    state.writes.commit()
    state.clock.reset()
    forget_visitors(state)
    state.metadata.reset()
    state.forget_visits()
    state.misspelt_topics.clear()
    if state.faults is not None:
        state.faults.clear()
    if state.journal is not None:
        state.journal.clear()
    if keep_topics:
        internal = [topic for topic in state.topics if topic.is_internal]
        _remove(state, [directory for topic in internal for directory in state.topics.delete(topic)])
        now_ms = state.clock.now_ms()
        for topic in state.topics:
            _empty(topic, now_ms)
    else:
        forget_topics(state)
        make_topics()


def forget_visitors(state: BrokerState) -> None:
    """Groups, transactions and fetch sessions are gone, and all nodes are up."""
    state.forget_coordinators()
    for node in state.cluster.nodes.values():
        node.forget_sessions()
        state.cluster.start_node(node.id)


def forget_topics(state: BrokerState) -> None:
    """All topics are gone, and what the checkpoints tell of them. `OSError`."""
    state.cluster.forget_leaders()
    _remove(state, state.topics.delete_all())
    state.logs.forget_all()


def _empty(topic: Topic, now_ms: int) -> None:
    for partition in topic.partitions:
        log = partition.log
        if log.log_start_offset < log.log_end_offset:
            log.truncate_fully_and_start_at(log.log_end_offset, now_ms)


def _remove(state: BrokerState, directories: list[str]) -> None:
    if directories:
        state.background(partial(purge_logged, directories))
