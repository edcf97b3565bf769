"""The partitions that a check looks at: their batches and the records that consumers can read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from minibroker.cluster.partition import Partition
from minibroker_protocol.records.batch import iter_batches
from minibroker_storage.data_directory.names import TopicPartition

_READ_BYTES: Final = 1 << 20


Record = Any
"""A record as the functions of users get it: a `ConsumerRecord`."""


class Batch(NamedTuple):
    """A batch of a log; `sequence` is -1 for a producer that is not idempotent."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    sequence: int
    leader_epoch: int
    is_transactional: bool
    is_control: bool
    is_v2: bool
    max_timestamp: int


@dataclass
class PartitionLog:
    """The log of one partition when a check was made.

    Attributes:
        records: The records that a read_committed consumer gets.
        batches: All batches below the log end offset.
        is_open: Whether a transaction is open in it.
        is_compacted: Whether compaction may remove records.
        first_start: The start of the log when facts were first kept.
    """

    partition: TopicPartition
    start: int
    high_watermark: int
    end: int
    is_open: bool
    is_compacted: bool
    first_start: int
    records: list[Record] = field(default_factory=list[Record])
    batches: list[Batch] = field(default_factory=list[Batch])

    @property
    def is_whole(self) -> bool:
        """Whether nothing was removed from the log: not from its start, and not by compaction."""
        return self.start <= self.first_start and not (self.is_compacted and self._has_gaps())

    def _has_gaps(self) -> bool:
        expected = self.start
        for batch in self.batches:
            if batch.base_offset > expected:
                return True
            expected = batch.last_offset + 1
        readable = {record.offset for record in self.records}
        return any(
            not batch.is_transactional and not batch.is_control and offset < self.high_watermark
            for batch in self.batches
            for offset in range(batch.base_offset, batch.last_offset + 1)
            if offset not in readable
        )


def open_log(partition: Partition, starts: Mapping[TopicPartition, int]) -> PartitionLog:
    """Return the log of a partition, without its records and batches. Logs not in `starts` began at 0."""
    log = partition.log
    name = partition.topic.name, partition.index
    return PartitionLog(
        name,
        log.log_start_offset,
        log.high_watermark,
        log.log_end_offset,
        log.last_stable_offset < log.high_watermark,
        partition.topic.is_compacted,
        starts.get(name, 0),
    )


def iterate_batches(partition: Partition, end: int) -> Iterator[list[Batch]]:
    """Yield the batches of a log up to offset `end`, those of a megabyte at a time.

    Raises:
        DecodeError, OSError: A file cannot be read.
    """
    log = partition.log
    offset = log.log_start_offset
    while offset < end:
        data = log.read(offset, _READ_BYTES, end_offset=end).read()
        batches = [
            Batch(
                header.base_offset,
                header.last_offset,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.partition_leader_epoch,
                header.is_transactional,
                header.is_control,
                header.magic > 1,
                header.max_timestamp,
            )
            for header in (batch.header for batch in iter_batches(data))
        ]
        if not batches:
            return
        yield batches
        offset = batches[-1].last_offset + 1
