"""Events of a dump, one after the other. `text` and `json_lines` write them for people and for programs."""

from typing import Final, NamedTuple

from minibroker_protocol.records.header import BatchHeader
from minibroker_protocol.records.kafka07 import Kafka07Message
from minibroker_protocol.records.record import Record
from minibroker_storage.dump.files import DumpFile
from minibroker_storage.producer_snapshot import ProducerStateEntry
from minibroker_storage.transaction_index import AbortedTxn


class FileBegins(NamedTuple):
    """The begin of a file; the events that follow are of it."""

    file: DumpFile


class LogBegins(NamedTuple):
    """A log of formats v0 to v2 begins (or of 0.7, where the offset is a byte of the whole log)."""

    base_offset: int


class BatchFound(NamedTuple):
    """An entry of a log: a v2 batch, or a message of v0 or v1, which may be a wrapper. `position` is its first byte."""

    position: int
    header: BatchHeader
    is_valid: bool


class RecordFound(NamedTuple):
    """A record of the batch before it.

    A message of v0 or v1 has a CRC of its own, also within a wrapper; in v2 both are None.
    """

    record: Record
    header: BatchHeader
    crc: int | None
    is_valid: bool | None


class Message07Found(NamedTuple):
    """A message of Kafka 0.7 as it lies in the file, a compressed one unopened.

    `position` is a byte of the file; the message's own, its address, a byte of the whole log.
    """

    message: Kafka07Message
    position: int
    size: int
    is_valid: bool


class Record07Found(NamedTuple):
    """A message of Kafka 0.7 that carries data: the one before it, or one that was compressed in it."""

    message: Kafka07Message
    is_valid: bool


class TrailingBytes(NamedTuple):
    """A log ends with this many bytes that are not a whole batch."""

    file: DumpFile
    size: int


class IndexEmpty(NamedTuple):
    """An offset index without entries."""

    file: DumpFile


class IndexSane(NamedTuple):
    """An index that a broker would not rebuild when it starts."""

    file: DumpFile


class OffsetEntryFound(NamedTuple):
    """An entry of an offset index."""

    offset: int
    position: int


class TimeEntryFound(NamedTuple):
    """An entry of a time index."""

    timestamp: int
    offset: int


class AbortedTxnFound(NamedTuple):
    """An entry of a transaction index."""

    transaction: AbortedTxn


class ProducerFound(NamedTuple):
    """A producer of a snapshot."""

    producer_id: int
    entry: ProducerStateEntry


class EpochFound(NamedTuple):
    """An entry of a leader epoch checkpoint."""

    epoch: int
    start_offset: int


class CheckpointFound(NamedTuple):
    """An entry of an offset checkpoint."""

    topic: str
    partition: int
    offset: int


class MetadataFound(NamedTuple):
    """The contents of `partition.metadata`; the topic id as Kafka writes it, in URL-safe base 64."""

    version: int
    topic_id: str


class UnknownFile(NamedTuple):
    """A file with an unknown name."""

    file: DumpFile


class OffsetMismatch(NamedTuple):
    """An entry of an offset index, and the last offset of the batch that it points to."""

    file: DumpFile
    index_offset: int
    log_offset: int


class TimestampMismatch(NamedTuple):
    """An entry of a time index, and the largest timestamp of the batch with its offset."""

    file: DumpFile
    index_timestamp: int
    log_timestamp: int


class TimestampOutOfOrder(NamedTuple):
    """An entry of a time index that is not larger than the one before it."""

    file: DumpFile
    index_timestamp: int
    previous_timestamp: int


class IndexedOffsetNotFound(NamedTuple):
    """An entry of a time index whose offset is not a batch's last one; `log_offset` is the next such, -1 for none."""

    file: DumpFile
    index_offset: int
    log_offset: int


class OffsetGap(NamedTuple):
    """Two records after one another whose offsets are not. Compaction does that too, so it is nothing wrong."""

    file: DumpFile
    first: int
    second: int


class Problem(NamedTuple):
    """Something that cannot be read, in plain words; `position` is the byte of the file, None for the whole file."""

    file: DumpFile
    position: int | None
    message: str


Event = (
    FileBegins
    | LogBegins
    | BatchFound
    | RecordFound
    | Message07Found
    | Record07Found
    | TrailingBytes
    | IndexEmpty
    | IndexSane
    | OffsetEntryFound
    | TimeEntryFound
    | AbortedTxnFound
    | ProducerFound
    | EpochFound
    | CheckpointFound
    | MetadataFound
    | UnknownFile
    | OffsetMismatch
    | TimestampMismatch
    | TimestampOutOfOrder
    | IndexedOffsetNotFound
    | OffsetGap
    | Problem
)

Finding = OffsetMismatch | TimestampMismatch | TimestampOutOfOrder | IndexedOffsetNotFound
"""An event with two numbers, of which the second is not as it should be."""

_FAULTS: Final = frozenset(
    (TrailingBytes, OffsetMismatch, TimestampMismatch, TimestampOutOfOrder, IndexedOffsetNotFound, Problem)
)


def is_fault(event: Event) -> bool:
    """Whether the event says that something is wrong with a file."""
    return getattr(event, "is_valid", None) is False or event.__class__ in _FAULTS
