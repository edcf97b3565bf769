"""One partition's log and its files, in Apache Kafka's own formats. No network, no asyncio."""

from minibroker_storage.config import LogConfig
from minibroker_storage.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    CorruptSnapshotError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    LogClosedError,
    LogWriteError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    ProducerStateError,
    RecordBatchTooLargeError,
    StorageError,
    TransactionCoordinatorFencedError,
    UnsupportedLogFormatError,
)
from minibroker_storage.files import FileHandle, FilePool
from minibroker_storage.layout import create_partition_directory, purge
from minibroker_storage.log import Log
from minibroker_storage.lookup import TimestampOffset
from minibroker_storage.segment import LogSegment, LogSlice

__all__ = [
    "CorruptCheckpointError",
    "CorruptIndexError",
    "CorruptSnapshotError",
    "FileHandle",
    "FilePool",
    "InvalidProducerEpochError",
    "InvalidTxnStateError",
    "Log",
    "LogClosedError",
    "LogConfig",
    "LogSegment",
    "LogSlice",
    "LogWriteError",
    "OffsetOutOfRangeError",
    "OutOfOrderSequenceError",
    "ProducerStateError",
    "RecordBatchTooLargeError",
    "StorageError",
    "TimestampOffset",
    "TransactionCoordinatorFencedError",
    "UnsupportedLogFormatError",
    "create_partition_directory",
    "purge",
]
