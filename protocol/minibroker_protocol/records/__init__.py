"""Record batches: message format v2 (KIP-98), its varints, and the codecs that Kafka names."""

from minibroker_protocol.records.batch import MAX_DECOMPRESSED_SIZE, RecordBatch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import compress, decompress
from minibroker_protocol.records.header import (
    HEADER,
    LOG_OVERHEAD,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionCodec,
    TimestampType,
    compute_crc,
    increment_sequence,
    read_header,
    stamp,
)
from minibroker_protocol.records.record import NewRecord, Record
from minibroker_protocol.records.validation import check_produced_batch

__all__ = [
    "HEADER",
    "LOG_OVERHEAD",
    "MAX_DECOMPRESSED_SIZE",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "RECORD_BATCH_OVERHEAD",
    "BatchHeader",
    "CompressionCodec",
    "NewRecord",
    "Record",
    "RecordBatch",
    "TimestampType",
    "build_batch",
    "check_produced_batch",
    "compress",
    "compute_crc",
    "decompress",
    "increment_sequence",
    "iter_batches",
    "read_header",
    "stamp",
]
