"""Rules that no Kafka cluster breaks, checked against logs and facts. A violation is a bug of this broker.

The rules have the names of the research on Kafka's behavior, such as I1.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from minibroker.coordinators.groups.classic.group import Group
from minibroker.server.services import Services
from minibroker_chaos.check.fact_types import Append, Assignment, Commit, Cut, Fact, Forgotten, Read, shown
from minibroker_chaos.check.facts import Facts, facts_of
from minibroker_chaos.check.logs import PartitionLog, iterate_batches, open_log
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_storage.data_directory.names import TopicPartition

_ALL_REPLICAS: Final = -1
_LEFT: Final = -1


def find_broker_violations(services: Services) -> list[str]:
    """Return a sentence for each violation by a broker since facts are kept."""
    facts = facts_of(services)
    services.core.writes.commit()
    logs: list[PartitionLog] = []
    topics = [topic for topic in services.core.topics if not topic.is_internal]
    for partition in (partition for topic in topics for partition in topic.partitions):
        log = open_log(partition, facts.starts)
        log.batches = [batch for batches in iterate_batches(partition, log.end) for batch in batches]
        logs.append(log)
    return [*find_violations(logs, facts), *_find_lost_commits(services, facts)]


def find_violations(logs: Iterable[PartitionLog], facts: Facts) -> Iterator[str]:
    """Yield a sentence for each violation: of a log, or of an answer that a client got."""
    yield from facts.violations
    by_partition = {log.partition: log for log in logs}
    for log in by_partition.values():
        yield from _find_in_log(log, facts)
    topics = {name for name, _ in by_partition}
    cuts = list(facts.of_topics(Cut, topics))

    def end_after(fact: Fact, partition: TopicPartition) -> int:
        """Return the lowest end of a log since a fact."""
        later = (cut.offset for cut in cuts if cut.partition == partition and cut.tick > fact.tick)
        return min([by_partition[partition].end, *later])

    for append in facts.of_topics(Append, topics):
        end = end_after(append, append.partition)
        if append.acks == _ALL_REPLICAS and append.base_offset >= end:
            yield f"I1: request {append.number}: {append}, which was confirmed with acks=all; the log ended at {end}"
    for read in facts.of_topics(Read, topics):
        end = end_after(read, read.partition)
        if read.offset >= end:
            yield f"I2: request {read.number}: {read}; the log ended at {end}"
    yield from _find_old_commits(facts)


def _find_in_log(log: PartitionLog, facts: Facts) -> Iterator[str]:
    """Yield the violations that the batches of a log show."""
    place = shown(log.partition)
    if log.start > log.high_watermark:
        yield f"I22: {place} starts at {log.start}, above its high watermark {log.high_watermark}"
    if log.start < (promised := facts.deleted_to.get(log.partition, 0)):
        yield f"I22: {place} starts at {log.start}, although DeleteRecords has answered {promised}"
    yield from _find_passed_transaction(log)
    leader_epoch = -1
    next_offset = log.start
    producers: dict[int, tuple[int, int, int]] = {}
    for batch in log.batches:
        where = f"{place}@{batch.base_offset}"
        if batch.base_offset > next_offset and batch.is_v2 and not log.is_compacted:
            yield f"I3: {where} follows {next_offset - 1}, and there is nothing between them"
        next_offset = batch.last_offset + 1
        if not batch.is_v2:
            continue
        if batch.leader_epoch < leader_epoch:
            yield f"I13: {where} has leader epoch {batch.leader_epoch}, after {leader_epoch}"
        leader_epoch = max(leader_epoch, batch.leader_epoch)
        if batch.producer_id < 0:
            continue
        epoch, sequence, written_ms = producers.get(batch.producer_id, (-1, -1, 0))
        if batch.producer_epoch < epoch:
            yield f"I18: {where} has epoch {batch.producer_epoch} of producer {batch.producer_id}, after {epoch}"
        is_repeated = batch.producer_epoch == epoch and 0 <= batch.sequence <= sequence
        # Sequences begin again after 2^31 - 1, and the broker may forget a producer with old records (KIP-360).
        if is_repeated and sequence - batch.sequence < 1 << 30 and written_ms > facts.producers_expire_before_ms:
            yield f"I5, I6: {where} has sequence {batch.sequence} of producer {batch.producer_id}, after {sequence}"
        if not batch.is_control or batch.producer_epoch > epoch:
            last = sequence if batch.is_control and batch.producer_epoch == epoch else batch.sequence
            producers[batch.producer_id] = batch.producer_epoch, last, batch.max_timestamp


def _find_passed_transaction(log: PartitionLog) -> Iterator[str]:
    """Yield the violation that read_committed consumers have read into an open transaction."""
    transactions: dict[int, int] = {}
    for batch in log.batches:
        if batch.is_control:
            transactions.pop(batch.producer_id, None)
        elif batch.is_transactional:
            transactions.setdefault(batch.producer_id, batch.base_offset)
    first = min(transactions.values(), default=log.high_watermark)
    if first < log.high_watermark and not log.is_open:
        yield f"I17: the last stable offset of {shown(log.partition)} has passed the transaction at {first}"


def _find_old_commits(facts: Facts) -> Iterator[str]:
    """Yield the commits that were accepted from members of classic groups after their generation or membership."""
    generations: dict[str, int] = {}
    left: set[tuple[str, str]] = set()
    for fact in facts:
        if isinstance(fact, Forgotten) and fact.group is not None:
            generations.pop(fact.group, None)
        elif isinstance(fact, Assignment) and fact.is_classic:
            member = fact.group, fact.member
            if fact.generation == _LEFT:
                left.add(member)
            else:
                left.discard(member)
                generations[fact.group] = fact.generation
        elif isinstance(fact, Commit) and fact.generation >= 0 and not fact.is_transactional:
            newest = generations.get(fact.group, fact.generation)
            if fact.generation < newest or (fact.group, fact.member) in left:
                yield f"I9: request {fact.number}: {fact} in generation {fact.generation}, after {newest}"


def _find_lost_commits(services: Services, facts: Facts) -> Iterator[str]:
    """Yield the committed offsets of classic groups that are not those of the last commits."""
    if services.core.topics.get(CONSUMER_OFFSETS) is None:
        return
    last: dict[tuple[str, TopicPartition], Commit] = {}
    for fact in () if facts.dropped else facts:
        if isinstance(fact, Commit):
            last[fact.group, fact.partition] = fact
        elif isinstance(fact, Forgotten):
            for key in [key for key in last if fact.group in {None, key[0]} and fact.topic in {None, key[1][0]}]:
                del last[key]
    for (name, (topic, index)), commit in last.items():
        group = None if services.groups.status(name) else services.groups.store.find(name)
        # An offset that is gone may have expired. One of a transaction counts from the time at which it was sent.
        stored = group.offsets.committed.get(topic, {}).get(index) if isinstance(group, Group) else None
        if stored is not None and stored.offset != commit.offset and not commit.is_transactional:
            yield f"I8: request {commit.number}: {commit}; the group has {stored.offset}"
