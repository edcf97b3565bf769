"""One partition's log and its files, in Apache Kafka's own formats. No network, no asyncio.

- `log` is a partition's log as clients see it; `local_log` has its bytes, `segments` and `segment` its files.
- `segment` writes batches before their index entries: this is what makes an entry true. `index_writer` chooses the
  batches, and `offset_index`, `time_index` and `transaction_index` are the files.
- `recovery` makes a log of the files that a start finds.
- `producer_state` recognizes batches that a producer repeats; `producer_snapshot` is its file.
- `retention` chooses segments to delete, `cleaner` compacts, `replacement` swaps segments for cleaned ones.
- `flush` brings a log to disk; `checkpoints` and `data_directory` have the small files.
- `dump`, `explain` and `views` show all this to people.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minibroker_storage.config import LogConfig
    from minibroker_storage.data_directory.clean_shutdown import LastStop
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
    from minibroker_storage.files import FileHandle, FilePool, LogSlice
    from minibroker_storage.flush import LogFlush
    from minibroker_storage.layout import create_partition_directory, purge, unlink_files
    from minibroker_storage.log import Log
    from minibroker_storage.lookup import TimestampOffset
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
_MODULES = {
    "AbortedTxn": "transaction_index",
    "CorruptCheckpointError": "errors",
    "CorruptIndexError": "errors",
    "CorruptSnapshotError": "errors",
    "FileHandle": "files",
    "FilePool": "files",
    "InvalidProducerEpochError": "errors",
    "InvalidTxnStateError": "errors",
    "LastStop": "recovery",
    "Log": "log",
    "LogClosedError": "errors",
    "LogConfig": "config",
    "LogFlush": "flush",
    "LogSegment": "segment",
    "LogSlice": "files",
    "LogWriteError": "errors",
    "OffsetOutOfRangeError": "errors",
    "OutOfOrderSequenceError": "errors",
    "ProducerStateError": "errors",
    "RecordBatchTooLargeError": "errors",
    "StorageError": "errors",
    "TimestampOffset": "lookup",
    "TransactionCoordinatorFencedError": "errors",
    "create_partition_directory": "layout",
    "purge": "layout",
    "unlink_files": "layout",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: a broker that starts has no log to open yet."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
