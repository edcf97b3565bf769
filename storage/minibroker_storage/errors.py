"""Errors of a log.

The errors have no Kafka error codes: the broker maps them to error codes in one place.
"""


class StorageError(Exception):
    """Base class of the errors raised by this package."""


class LogClosedError(StorageError):
    """The log or one of its files has already been closed or deleted."""


class LogWriteError(StorageError):
    """A write failed, for example on a full disk, and was undone (`KafkaStorageException`).

    `log_end_offset` is the end of the log after the failure. Staged batches with a base offset below it were
    written, and all others were discarded. The log stays readable and accepts further appends.
    """

    def __init__(self, message: str, log_end_offset: int) -> None:
        super().__init__(message)
        self.log_end_offset = log_end_offset


class OffsetOutOfRangeError(StorageError):
    """An offset outside `log_start_offset`..`log_end_offset` (`OffsetOutOfRangeException`)."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside {log_start_offset}..{log_end_offset}")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class RecordBatchTooLargeError(StorageError):
    """A batch is larger than `segment.bytes` and fits into no segment (`RecordBatchTooLargeException`)."""


class CorruptBatchError(StorageError):
    """A batch in a log file has an invalid length (Kafka's `CorruptRecordException`)."""


class CorruptIndexError(StorageError):
    """An index file failed its sanity check and must be rebuilt (`CorruptIndexException`)."""


class CorruptSnapshotError(StorageError):
    """A producer snapshot has a wrong version, length or checksum (`CorruptSnapshotException`)."""


class CorruptCheckpointError(StorageError):
    """A checkpoint or metadata file cannot be parsed."""


class ProducerStateError(StorageError):
    """Base class of the errors about a batch that does not continue its producer's earlier batches."""


class OutOfOrderSequenceError(ProducerStateError):
    """A batch's sequence number does not follow the producer's last one (`OutOfOrderSequenceException`)."""


class InvalidProducerEpochError(ProducerStateError):
    """A batch has an older producer epoch than the log has for its producer (`InvalidProducerEpochException`)."""


class InvalidTxnStateError(ProducerStateError):
    """A batch is not transactional although its producer's transaction is open (`InvalidTxnStateException`)."""


class TransactionCoordinatorFencedError(ProducerStateError):
    """A transaction marker's coordinator epoch is older than the log's (`TransactionCoordinatorFencedException`)."""
