"""Events of a dump. `text` writes them for people and `json_lines` for programs."""

from typing import Final, NamedTuple

from minibroker_protocol.records.header import BatchHeader
from minibroker_protocol.records.kafka07 import Kafka07Message
from minibroker_protocol.records.record import Record
from minibroker_storage.dump.files import DumpFile
from minibroker_storage.producer_snapshot import ProducerStateEntry
from minibroker_storage.transaction_index import AbortedTxn


class FileBegins(NamedTuple):
    """The start of a file, to which the following events belong."""

    file: DumpFile


class LogBegins(NamedTuple):
    """The start of a log in format v0 to v2, or of Kafka 0.7, where offsets are byte positions in the whole log."""

    base_offset: int


class BatchFound(NamedTuple):
    """An entry of a log at byte `position`: a v2 batch, or a v0 or v1 message, which may be a wrapper."""

    position: int
    header: BatchHeader
    is_valid: bool


class RecordFound(NamedTuple):
    """A record of the preceding batch.

    A v0 or v1 message has its own CRC, even inside a wrapper. For v2, both `crc` and `is_valid` are None.
    """

    record: Record
    header: BatchHeader
    crc: int | None
    is_valid: bool | None


class Message07Found(NamedTuple):
    """A message of Kafka 0.7 as stored in the file, without decompressing it.

    `position` is a byte position in the file, but the message's own position is its address in the whole log.
    """

    message: Kafka07Message
    position: int
    size: int
    is_valid: bool


class Record07Found(NamedTuple):
    """A data message of Kafka 0.7: the preceding message, or one compressed inside it."""

    message: Kafka07Message
    is_valid: bool


class TrailingBytes(NamedTuple):
    """Bytes at the end of a log that are not a complete batch."""

    file: DumpFile
    size: int


class IndexEmpty(NamedTuple):
    """An offset index without entries."""

    file: DumpFile


class IndexSane(NamedTuple):
    """An index that a broker would not rebuild at start-up."""

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
    """A producer in a snapshot."""

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
    """The content of `partition.metadata`, with the topic id in URL-safe base 64, as Kafka writes it."""

    version: int
    topic_id: str


class UnknownFile(NamedTuple):
    """A file with an unknown name."""

    file: DumpFile


class OffsetMismatch(NamedTuple):
    """An entry of an offset index that differs from the last offset of its batch."""

    file: DumpFile
    index_offset: int
    log_offset: int


class TimestampMismatch(NamedTuple):
    """An entry of a time index that differs from the largest timestamp of the batch with its offset."""

    file: DumpFile
    index_timestamp: int
    log_timestamp: int


class TimestampOutOfOrder(NamedTuple):
    """An entry of a time index whose timestamp is not larger than the previous one."""

    file: DumpFile
    index_timestamp: int
    previous_timestamp: int


class IndexedOffsetNotFound(NamedTuple):
    """An entry of a time index whose offset is not the last one of a batch.

    `log_offset` is the last offset of the next batch, or -1 if there is none.
    """

    file: DumpFile
    index_offset: int
    log_offset: int


class OffsetGap(NamedTuple):
    """Two adjacent records with non-consecutive offsets. This is not an error, since compaction leaves gaps."""

    file: DumpFile
    first: int
    second: int


class Problem(NamedTuple):
    """Unreadable content, described in plain words. `position` is a byte position, or None for the whole file."""

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
"""An event that reports two numbers, the second of which contradicts the first."""

_FAULTS: Final = frozenset(
    (TrailingBytes, OffsetMismatch, TimestampMismatch, TimestampOutOfOrder, IndexedOffsetNotFound, Problem)
)


def is_fault(event: Event) -> bool:
    """Return whether the event reports a fault in a file."""
    return getattr(event, "is_valid", None) is False or event.__class__ in _FAULTS
