"""Our writes and reads, in the terms in which Kafka is asked about them."""

from minibroker_protocol.errors import CorruptRecordError
from minibroker_protocol.records.batch import Batch, RecordBatch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, TimestampType
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.kafka.oracle import BatchLine, Description, RecordLine, Refusal, T


def written(case: Description) -> bytes:
    """The batch, or message set, that we make of it."""
    records = [NewRecord(record.key, record.value, record.timestamp, record.headers) for record in case.records]
    codec = CompressionCodec(case.codec)
    if case.magic < 2:
        return bytes(
            build_message_set(
                records,
                magic=case.magic,
                base_offset=case.base_offset,
                offsets=[record.offset for record in case.records],
                codec=codec,
                timestamp_type=TimestampType(max(case.timestamp_type, 0)),
            )
        )
    return bytes(
        build_batch(
            records,
            base_offset=case.base_offset,
            codec=codec,
            timestamp_type=TimestampType(case.timestamp_type),
            producer_id=case.producer_id,
            producer_epoch=case.producer_epoch,
            base_sequence=case.base_sequence,
            partition_leader_epoch=case.partition_leader_epoch,
            is_transactional=case.is_transactional,
            is_control=case.is_control,
            delete_horizon_ms=None if case.delete_horizon_ms < 0 else case.delete_horizon_ms,
        )
    )


def has_right_crc(batch: Batch) -> bool:
    """Whether the checksum is that of the bytes."""
    try:
        batch.check_crc()
    except CorruptRecordError:
        return False
    return True


def lines(data: bytes | bytearray | memoryview) -> list[BatchLine]:
    """Our result, in the form of Kafka's response."""
    found: list[BatchLine] = []
    for batch in iter_batches(data):
        header = batch.header
        is_valid = has_right_crc(batch)
        records = list(batch) if is_valid else []
        assert {record.timestamp_type for record in records} <= {header.timestamp_type}
        base_offset = header.base_offset if isinstance(batch, RecordBatch) or not is_valid else records[0].offset
        found.append(
            BatchLine(
                magic=header.magic,
                codec=header.codec,
                timestamp_type=header.timestamp_type,
                is_valid=is_valid,
                checksum=header.crc,
                size_in_bytes=header.size_in_bytes,
                base_offset=base_offset if is_valid else -1,
                last_offset=header.last_offset,
                max_timestamp=header.max_timestamp,
                partition_leader_epoch=header.partition_leader_epoch,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                is_transactional=header.is_transactional,
                is_control=header.is_control,
                delete_horizon_ms=-1 if header.delete_horizon_ms is None else header.delete_horizon_ms,
                records=tuple(RecordLine(each.offset, each.timestamp, *each[3:]) for each in records),
            )
        )
    return found


def accepted(answer: T | Refusal) -> T:
    """Kafka's answer. AssertionError when it refused."""
    assert not isinstance(answer, Refusal), answer.text
    return answer
