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
)
from minibroker_storage.files import FileHandle, FilePool
from minibroker_storage.flush import LogFlush
from minibroker_storage.layout import create_partition_directory, purge, unlink_files
from minibroker_storage.log import Log
from minibroker_storage.log_slice import LogSlice
from minibroker_storage.lookup import TimestampOffset
from minibroker_storage.recovery import LastStop
from minibroker_storage.segment import LogSegment
from minibroker_storage.transaction_index import AbortedTxn

__all__ = [
    "AbortedTxn",
    "CorruptCheckpointError",
    "CorruptIndexError",
    "CorruptSnapshotError",
    "FileHandle",
    "FilePool",
    "InvalidProducerEpochError",
    "InvalidTxnStateError",
    "LastStop",
    "Log",
    "LogClosedError",
    "LogConfig",
    "LogFlush",
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
    "create_partition_directory",
    "purge",
    "unlink_files",
]
