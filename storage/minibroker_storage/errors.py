"""Errors of a log.

None of these carries a wire code: the broker maps them to Kafka's error codes in one place.
"""


class StorageError(Exception):
    """Base of everything this package raises on purpose."""


class LogClosedError(StorageError):
    """The log, or one of its files, was closed or deleted before this call."""


class LogWriteError(StorageError):
    """A write failed (a full disk, an I/O error) and was undone (`KafkaStorageException`).

    `log_end_offset` is where the log ended when it failed: staged batches with a smaller base offset were written
    before the failure, all others are gone. The log stays readable and takes appends again.
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
    """A batch larger than `segment.bytes`, which no segment can hold (`RecordBatchTooLargeException`)."""


class CorruptBatchError(StorageError):
    """A batch in a log file whose length cannot be right (Kafka's `CorruptRecordException`)."""


class CorruptIndexError(StorageError):
    """An index file fails its sanity check and has to be rebuilt (`CorruptIndexException`)."""


class CorruptSnapshotError(StorageError):
    """A producer snapshot with a wrong version, length or checksum (`CorruptSnapshotException`)."""


class CorruptCheckpointError(StorageError):
    """A checkpoint or metadata file that does not read as one."""


class ProducerStateError(StorageError):
    """Base of the three ways in which a producer's batch does not continue what the log has from it."""


class OutOfOrderSequenceError(ProducerStateError):
    """A sequence number that does not follow the producer's last one (`OutOfOrderSequenceException`)."""


class InvalidProducerEpochError(ProducerStateError):
    """A batch from an older epoch of its producer than the log has seen (`InvalidProducerEpochException`)."""


class InvalidTxnStateError(ProducerStateError):
    """A batch outside a transaction while its producer's transaction is open (`InvalidTxnStateException`)."""


class TransactionCoordinatorFencedError(ProducerStateError):
    """A transaction marker from an older coordinator epoch (`TransactionCoordinatorFencedException`)."""
