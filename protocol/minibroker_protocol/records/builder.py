"""Writing v2 record batches (KIP-98; Kafka's `MemoryRecordsBuilder`)."""

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final

from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.header import (
    CONTROL_FLAG,
    CRC_AT,
    DELETE_HORIZON_FLAG,
    HEADER,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    CompressionCodec,
    TimestampType,
    compute_crc,
)
from minibroker_protocol.records.record import NewRecord, encode_record
from minibroker_protocol.records.varint import INT64_MAX, INT64_MIN, wrap_int64

_UINT32: Final = Struct(">I")


def build_batch(  # noqa: PLR0913 - one argument for each field of the header that the caller decides
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    codec: CompressionCodec = CompressionCodec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    level: int | None = None,
) -> bytearray:
    """Return a complete batch with its CRC. The records get consecutive offsets, beginning with `base_offset`.

    The base timestamp is the timestamp of the first record, and the max timestamp is the highest of all records.
    Under LOG_APPEND_TIME, readers use the max timestamp for every record. In a batch written by the log cleaner,
    `delete_horizon_ms` replaces the base timestamp (KIP-534). `level` is the compression level (KIP-390).

    Raises:
        EncodeError: there are no records, or a value does not fit its field.
    """
    batch = bytearray(RECORD_BATCH_OVERHEAD)
    base_timestamp = max_timestamp = count = 0
    for record in records:
        timestamp = record.timestamp
        if not count:
            max_timestamp = timestamp
            base_timestamp = timestamp if delete_horizon_ms is None else delete_horizon_ms
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        if not INT64_MIN <= timestamp <= INT64_MAX:
            raise EncodeError(f"timestamp: {timestamp} is not an int64")
        batch += encode_record(count, wrap_int64(timestamp - base_timestamp), record)
        count += 1
    if not count:
        raise EncodeError("records: a batch needs at least one")
    if codec is not CompressionCodec.NONE:
        batch[RECORD_BATCH_OVERHEAD:] = compress(codec, batch[RECORD_BATCH_OVERHEAD:], level=level)
    attributes = (
        codec
        | (TIMESTAMP_TYPE_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_FLAG if is_transactional else 0)
        | (CONTROL_FLAG if is_control else 0)
        | (0 if delete_horizon_ms is None else DELETE_HORIZON_FLAG)
    )
    try:
        HEADER.pack_into(
            batch,
            0,
            base_offset,
            len(batch) - LOG_OVERHEAD,
            partition_leader_epoch,
            MAGIC_V2,
            0,
            attributes,
            count - 1,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        )
    except StructError as error:
        raise EncodeError(f"record batch header: {error}") from None
    with memoryview(batch) as view:
        _UINT32.pack_into(batch, CRC_AT, compute_crc(view))
    return batch
