"""Other implementations of the format, in both directions: kafka-python, aiokafka and kio."""

import warnings
from importlib import import_module
from io import BytesIO
from typing import Any

import pytest

from minibroker_protocol.records.batch import RecordBatch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, TimestampType
from minibroker_protocol.records.produced_batch import check_produced_batch
from minibroker_protocol.records.record import NewRecord, Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python loads its schemas in a way that 3.11 deprecates
    kafka_python: Any = import_module("kafka.record.memory_records")
aiokafka: Any = import_module("aiokafka.record.default_records")
kio_readers: Any = import_module("kio.records.readers")
kio_writers: Any = import_module("kio.records.writers")

RECORDS = [
    NewRecord(
        None if index % 5 == 0 else b"key%d" % index,
        None if index % 7 == 0 else b"value " * (index * 3),
        1_700_000_000_000 + 1000 * index,
        (("name", b"content"), ("größe", None), ("", b"")) if index % 3 == 0 else (),
    )
    for index in range(300)
]


def fields(record: Any) -> tuple[Any, ...]:
    """A record of any of the libraries, as ours would be."""
    return (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))


EXPECTED = [
    (offset, record.timestamp, record.key, record.value, record.headers) for offset, record in enumerate(RECORDS)
]


@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_kafka_python_reads_our_batches(codec: CompressionCodec) -> None:
    data = bytes(build_batch(RECORDS, codec=codec, producer_id=9, producer_epoch=2, base_sequence=5))
    records = kafka_python.MemoryRecords(data)
    batch = records.next_batch()
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, 5)
    assert (batch.compression_type, batch.size_in_bytes) == (codec.value, len(data))
    assert [fields(record) for record in batch] == EXPECTED
    assert not records.has_next()


@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_we_read_kafka_pythons_batches(codec: CompressionCodec) -> None:
    builder = kafka_python.MemoryRecordsBuilder(
        2, codec.value, 1 << 20, transactional=True, producer_id=9, producer_epoch=2, base_sequence=5
    )
    for record in RECORDS:
        builder.append(record.timestamp, record.key, record.value, list(record.headers))
    builder.close()
    data = bytes(builder.buffer())
    (batch,) = iter_batches(data)
    batch.check_crc()
    assert batch.header.codec is codec
    assert batch.header.is_transactional
    assert (batch.header.producer_id, batch.header.producer_epoch, batch.header.last_sequence) == (9, 2, 304)
    assert [fields(record) for record in batch] == EXPECTED
    check_produced_batch(memoryview(data), opened_records=-1)
    if codec is CompressionCodec.NONE:
        ours = build_batch(RECORDS, producer_id=9, producer_epoch=2, base_sequence=5, is_transactional=True)
        # kafka-python leaves the leader epoch to the broker as 0, Kafka and we as -1.
        assert data[:12] + data[16:] == ours[:12] + ours[16:]


@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_aiokafka_reads_our_batches(codec: CompressionCodec) -> None:
    batch = aiokafka.DefaultRecordBatch(bytes(build_batch(RECORDS, codec=codec)))
    assert batch.validate_crc()
    assert [fields(record) for record in batch] == EXPECTED


@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_we_read_aiokafkas_batches(codec: CompressionCodec) -> None:
    builder = aiokafka.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec.value,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset, record in enumerate(RECORDS):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    (batch,) = iter_batches(bytes(builder.build()))
    batch.check_crc()
    assert batch.header.codec is codec
    assert [fields(record) for record in batch] == EXPECTED


def test_kio_reads_our_uncompressed_batches_and_we_read_its() -> None:
    whole_seconds = [record for record in RECORDS if record.timestamp % 1000 == 0]
    data = build_batch(whole_seconds, producer_id=9, producer_epoch=2, base_sequence=5, partition_leader_epoch=4)
    theirs, size = kio_readers.read_batch(bytes(data), 0)
    assert size == len(data)
    ours = RecordBatch(memoryview(data)).header
    assert [theirs.base_offset, theirs.batch_length, theirs.partition_leader_epoch, theirs.crc, theirs.attributes] == [
        ours.base_offset,
        ours.batch_length,
        ours.partition_leader_epoch,
        ours.crc,
        ours.attributes,
    ]
    assert [theirs.last_offset_delta, theirs.base_timestamp, theirs.max_timestamp, theirs.base_sequence] == [
        ours.last_offset_delta,
        ours.base_timestamp,
        ours.max_timestamp,
        ours.base_sequence,
    ]
    rewritten = BytesIO()
    kio_writers.write_batch(rewritten, theirs)
    (batch,) = iter_batches(rewritten.getvalue())
    batch.check_crc()
    assert list(batch) == [
        Record(offset, record.timestamp, TimestampType.CREATE_TIME, record.key, record.value, record.headers)
        for offset, record in enumerate(whole_seconds)
    ]
