"""What no Kafka cluster would do to its clients, held against logs and facts. A violation is a bug of this broker."""

from collections.abc import Iterable, Iterator
from typing import Final

from minibroker.check.fact_types import Append, shown
from minibroker.check.facts import Facts
from minibroker.check.logs import PartitionLog

_ALL_REPLICAS: Final = -1


def find_violations(logs: Iterable[PartitionLog], facts: Facts) -> Iterator[str]:
    """Yield a sentence for each violation: of a log, or of an answer that a client got."""
    yield from facts.violations
    by_partition = {log.partition: log for log in logs}
    for log in by_partition.values():
        yield from _find_in_log(log)
    topics = {name for name, _ in by_partition}
    for append in facts.of_topics(Append, topics):
        end = by_partition[append.partition].end
        if append.acks == _ALL_REPLICAS and append.base_offset >= end:
            yield f"I1: request {append.number}: {append}, which was confirmed with acks=all; the log ends at {end}"


def _find_in_log(log: PartitionLog) -> Iterator[str]:
    """Yield the violations that the batches of a log show."""
    place = shown(log.partition)
    if log.start > log.high_watermark:
        yield f"I22: {place} starts at {log.start}, above its high watermark {log.high_watermark}"
    leader_epoch = -1
    producers: dict[int, tuple[int, int]] = {}
    for batch in log.batches:
        if not batch.is_v2:
            continue
        where = f"{place}@{batch.base_offset}"
        if batch.leader_epoch < leader_epoch:
            yield f"I13: {where} has leader epoch {batch.leader_epoch}, after {leader_epoch}"
        leader_epoch = max(leader_epoch, batch.leader_epoch)
        if batch.producer_id < 0:
            continue
        epoch, sequence = producers.get(batch.producer_id, (-1, -1))
        if batch.producer_epoch < epoch:
            yield f"I18: {where} has epoch {batch.producer_epoch} of producer {batch.producer_id}, after {epoch}"
        is_repeated = batch.producer_epoch == epoch and 0 <= batch.sequence <= sequence
        if is_repeated and sequence - batch.sequence < 1 << 30:  # Sequences begin again after 2^31 - 1.
            yield f"I5, I6: {where} has sequence {batch.sequence} of producer {batch.producer_id}, after {sequence}"
        if not batch.is_control or batch.producer_epoch > epoch:
            last = sequence if batch.is_control and batch.producer_epoch == epoch else batch.sequence
            producers[batch.producer_id] = batch.producer_epoch, last
