"""Writing v2 record batches (KIP-98; Kafka's `MemoryRecordsBuilder`)."""

from collections.abc import Iterable, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final

from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records.compression import compress, compress_in_steps
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
from minibroker_protocol.steps import Steps

_UINT32: Final = Struct(">I")
_RECORDS_OF_A_STEP: Final = 500


class _Body:
    """The records of a batch, behind room for its header.

    Args:
        delete_horizon_ms: as that of `build_batch`.
    """

    __slots__ = ("base_timestamp", "count", "delete_horizon_ms", "joined", "max_timestamp")

    def __init__(self, delete_horizon_ms: int | None = None) -> None:
        self.joined = bytearray(RECORD_BATCH_OVERHEAD)
        self.delete_horizon_ms = delete_horizon_ms
        self.base_timestamp = self.max_timestamp = self.count = 0

    def add(self, records: Iterable[NewRecord]) -> None:
        """Encode more records. EncodeError."""
        joined, count, base_timestamp, max_timestamp = (
            self.joined,
            self.count,
            self.base_timestamp,
            self.max_timestamp,
        )
        for record in records:
            timestamp = record.timestamp
            if not count:
                max_timestamp = timestamp
                base_timestamp = timestamp if self.delete_horizon_ms is None else self.delete_horizon_ms
            elif timestamp > max_timestamp:
                max_timestamp = timestamp
            if not INT64_MIN <= timestamp <= INT64_MAX:
                raise EncodeError(f"timestamp: {timestamp} is not an int64")
            joined += encode_record(count, wrap_int64(timestamp - base_timestamp), record)
            count += 1
        self.count, self.base_timestamp, self.max_timestamp = count, base_timestamp, max_timestamp

    def finish(
        self,
        attributes: int,
        base_offset: int,
        partition_leader_epoch: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
    ) -> bytearray:
        """The batch, once its records are as its codec has them. EncodeError."""
        batch = self.joined
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
                self.count - 1,
                self.base_timestamp,
                self.max_timestamp,
                producer_id,
                producer_epoch,
                base_sequence,
                self.count,
            )
        except StructError as error:
            raise EncodeError(f"record batch header: {error}") from None
        with memoryview(batch) as view:
            _UINT32.pack_into(batch, CRC_AT, compute_crc(view))
        return batch


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
    """One whole batch with its CRC; the records get consecutive offsets from `base_offset` on.

    The base timestamp is the first record's, the max timestamp the highest of all; under LOG_APPEND_TIME readers see
    the max timestamp on every record. `delete_horizon_ms` takes the base timestamp's place in a batch that the log
    cleaner writes (KIP-534). `level` is the codec's (KIP-390).

    `EncodeError` without any record, or for a value that its field cannot hold.
    """
    body = _Body(delete_horizon_ms)
    body.add(records)
    if not body.count:
        raise EncodeError("records: a batch needs at least one")
    if codec is not CompressionCodec.NONE:
        body.joined[RECORD_BATCH_OVERHEAD:] = compress(codec, body.joined[RECORD_BATCH_OVERHEAD:], level=level)
    attributes = (
        codec
        | (TIMESTAMP_TYPE_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_FLAG if is_transactional else 0)
        | (CONTROL_FLAG if is_control else 0)
        | (0 if delete_horizon_ms is None else DELETE_HORIZON_FLAG)
    )
    return body.finish(attributes, base_offset, partition_leader_epoch, producer_id, producer_epoch, base_sequence)


def build_batch_in_steps(
    records: Sequence[NewRecord],
    *,
    codec: CompressionCodec = CompressionCodec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> Steps[bytearray]:
    """`build_batch` in steps of some milliseconds; a batch of a producer belongs to its transaction."""
    body = _Body()
    for begin in range(0, len(records), _RECORDS_OF_A_STEP):
        if begin:
            yield
        body.add(records[begin : begin + _RECORDS_OF_A_STEP])
    if not body.count:
        raise EncodeError("records: a batch needs at least one")
    if codec is not CompressionCodec.NONE:
        packed = yield from compress_in_steps(codec, body.joined[RECORD_BATCH_OVERHEAD:])
        body.joined[RECORD_BATCH_OVERHEAD:] = packed
    attributes = codec | (0 if producer_id == NO_PRODUCER_ID else TRANSACTIONAL_FLAG)
    return body.finish(attributes, 0, NO_PARTITION_LEADER_EPOCH, producer_id, producer_epoch, base_sequence)
