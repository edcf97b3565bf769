"""Record sets in Kafka's message formats v0, v1 and v2, their varints, and the codecs that Kafka names.

- `batch` and `record` read format v2, `builder` writes it, `header` has the fields before the records. `legacy` has
  formats v0 and v1.
- `log_validator` checks what producers send, by the rules of an `append_policy`: `produced_batch` where bytes are
  appended as they come, `produced_set` where they are opened. `offsets` and `restamp` change bytes in place.
- `compression` finds a codec of `codecs`; `conversion` makes other formats of the same records.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minibroker_protocol.records.batch import Batch, RecordBatch, iter_batches
    from minibroker_protocol.records.builder import build_batch
    from minibroker_protocol.records.compression import (
        COMPRESSION_LEVELS,
        DEFAULT_COMPRESSION_LEVELS,
        MAX_DECOMPRESSED_SIZE,
        compress,
        decompress,
    )
    from minibroker_protocol.records.header import (
        DELETE_HORIZON_FLAG,
        HEADER,
        LOG_OVERHEAD,
        MAGIC_V0,
        MAGIC_V1,
        MAGIC_V2,
        NO_PARTITION_LEADER_EPOCH,
        NO_PRODUCER_EPOCH,
        NO_PRODUCER_ID,
        NO_SEQUENCE,
        NO_TIMESTAMP,
        RECORD_BATCH_OVERHEAD,
        UNKNOWN_RECORD_COUNT,
        BatchHeader,
        CompressionCodec,
        TimestampType,
        compute_crc,
        increment_sequence,
        read_entry_header,
        read_header,
        stamp,
    )
    from minibroker_protocol.records.legacy import (
        LegacyRecordBatch,
        build_message_set,
        check_inner_crcs,
        encode_message,
        read_wrapped,
    )
    from minibroker_protocol.records.produced_batch import check_produced_batch
    from minibroker_protocol.records.record import NewRecord, Record

__all__ = [
    "COMPRESSION_LEVELS",
    "DEFAULT_COMPRESSION_LEVELS",
    "DELETE_HORIZON_FLAG",
    "HEADER",
    "LOG_OVERHEAD",
    "MAGIC_V0",
    "MAGIC_V1",
    "MAGIC_V2",
    "MAX_DECOMPRESSED_SIZE",
    "NO_PARTITION_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "RECORD_BATCH_OVERHEAD",
    "UNKNOWN_RECORD_COUNT",
    "Batch",
    "BatchHeader",
    "CompressionCodec",
    "LegacyRecordBatch",
    "NewRecord",
    "Record",
    "RecordBatch",
    "TimestampType",
    "build_batch",
    "build_message_set",
    "check_inner_crcs",
    "check_produced_batch",
    "compress",
    "compute_crc",
    "decompress",
    "encode_message",
    "increment_sequence",
    "iter_batches",
    "read_entry_header",
    "read_header",
    "read_wrapped",
    "stamp",
]
_MODULES = {
    "COMPRESSION_LEVELS": "compression",
    "DEFAULT_COMPRESSION_LEVELS": "compression",
    "DELETE_HORIZON_FLAG": "header",
    "HEADER": "header",
    "LOG_OVERHEAD": "header",
    "MAGIC_V0": "header",
    "MAGIC_V1": "header",
    "MAGIC_V2": "header",
    "MAX_DECOMPRESSED_SIZE": "compression",
    "NO_PARTITION_LEADER_EPOCH": "header",
    "NO_PRODUCER_EPOCH": "header",
    "NO_PRODUCER_ID": "header",
    "NO_SEQUENCE": "header",
    "NO_TIMESTAMP": "header",
    "RECORD_BATCH_OVERHEAD": "header",
    "UNKNOWN_RECORD_COUNT": "header",
    "Batch": "batch",
    "BatchHeader": "header",
    "CompressionCodec": "header",
    "LegacyRecordBatch": "legacy",
    "NewRecord": "record",
    "Record": "record",
    "RecordBatch": "batch",
    "TimestampType": "header",
    "build_batch": "builder",
    "build_message_set": "legacy",
    "check_inner_crcs": "legacy",
    "check_produced_batch": "produced_batch",
    "compress": "compression",
    "compute_crc": "header",
    "decompress": "compression",
    "encode_message": "legacy",
    "increment_sequence": "header",
    "iter_batches": "batch",
    "read_entry_header": "header",
    "read_header": "header",
    "read_wrapped": "legacy",
    "stamp": "header",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: few need all formats and codecs."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
