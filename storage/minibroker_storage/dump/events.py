"""The events of a dump, which `text` writes for people and `json_lines` for programs."""

from typing import Final, NamedTuple

from minibroker_protocol.records.header import BatchHeader
from minibroker_protocol.records.kafka07 import Kafka07Message
from minibroker_protocol.records.record import Record
from minibroker_storage.dump.files import DumpFile
from minibroker_storage.producer_snapshot import ProducerStateEntry
from minibroker_storage.transaction_index import AbortedTxn


class FileBegins(NamedTuple):
    """The start of a file. The events up to the next `FileBegins` belong to this file."""

    file: DumpFile


class LogBegins(NamedTuple):
    """The start of a log. In Kafka 0.7's format, the base offset is a byte position in the whole log."""

    base_offset: int


class BatchFound(NamedTuple):
    """A log entry at byte `position`: a v2 batch, or a v0 or v1 message, which may be a wrapper."""

    position: int
    header: BatchHeader
    is_valid: bool


class RecordFound(NamedTuple):
    """A record of the preceding batch.

    A v0 or v1 message has its own CRC, even inside a wrapper. A v2 record does not: `crc` and `is_valid` are None.
    """

    record: Record
    header: BatchHeader
    crc: int | None
    is_valid: bool | None


class Message07Found(NamedTuple):
    """A Kafka 0.7 message as stored in the file; a compressed one is not decompressed.

    `position` here is a byte position in the file, but `message.position` is the message's address in the whole
    log.
    """

    message: Kafka07Message
    position: int
    size: int
    is_valid: bool


class Record07Found(NamedTuple):
    """A data message of Kafka 0.7: the preceding message itself, or a message compressed inside it."""

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
    """A valid index, which a broker would not rebuild at start-up."""

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
    """A producer in a producer snapshot."""

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


class Finding(NamedTuple):
    """Two numbers in a file that do not fit together. Each kind of finding has a subclass."""

    file: DumpFile
    first: int
    second: int


class OffsetMismatch(Finding):
    """An offset index entry whose offset differs from the last offset of the batch at its position."""


class TimestampMismatch(Finding):
    """A time index entry whose timestamp differs from the largest timestamp of the batch with the entry's offset."""


class TimestampOutOfOrder(Finding):
    """A time index entry whose timestamp is not larger than that of the previous entry."""


class IndexedOffsetNotFound(Finding):
    """A time index entry whose offset is not the last offset of any batch.

    The second number is the last offset of the next batch, or -1 if there is no next batch.
    """


class OffsetGap(Finding):
    """Two adjacent records with non-consecutive offsets. This is not an error, since compaction leaves gaps."""


class Problem(NamedTuple):
    """A description of unreadable content. `position` is a byte position, or None if the whole file is affected."""

    file: DumpFile
    position: int | None
    message: str


_FileEvent = FileBegins | UnknownFile | IndexEmpty | IndexSane | Finding | Problem
_LogEvent = LogBegins | BatchFound | RecordFound | Message07Found | Record07Found | TrailingBytes
_IndexEvent = OffsetEntryFound | TimeEntryFound | AbortedTxnFound
Event = _FileEvent | _LogEvent | _IndexEvent | ProducerFound | EpochFound | CheckpointFound | MetadataFound

_FAULTS: Final = frozenset(
    (TrailingBytes, OffsetMismatch, TimestampMismatch, TimestampOutOfOrder, IndexedOffsetNotFound, Problem)
)


def is_fault(event: Event) -> bool:
    """Return whether the event reports a fault in a file."""
    return getattr(event, "is_valid", None) is False or event.__class__ in _FAULTS
