"""Other implementations of message formats v0 and v1, in both directions: kafka-python and aiokafka."""

import warnings
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import CompressionCodec, TimestampType
from minibroker_protocol.records.legacy import build_message_set, check_inner_crcs
from minibroker_protocol.records.record import NewRecord
from tests.sweeps import one_in

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python loads its schemas in a way that 3.11 deprecates
    kafka_python_sets: Any = import_module("kafka.record.memory_records")
    kafka_python: Any = import_module("kafka.record.legacy_records")
aiokafka: Any = import_module("aiokafka.record.legacy_records")
aiokafka_sets: Any = import_module("aiokafka.record.memory_records")

NONE, GZIP, SNAPPY, LZ4 = list(CompressionCodec)[:4]
BYTES = st.none() | st.binary(max_size=60)
RECORDS = st.lists(st.builds(NewRecord, BYTES, BYTES, st.integers(0, 2**63 - 1), st.just(())), min_size=1, max_size=40)
# Neither has the lz4 of v0: aiokafka never had, kafka-python needs one more library for it.
FORMATS = [(magic, codec) for magic in (0, 1) for codec in (NONE, GZIP, SNAPPY, LZ4) if (magic, codec) != (0, LZ4)]
Fields = tuple[int, int | None, bytes | None, bytes | None]


def expected(records: list[NewRecord], magic: int, base_offset: int = 0) -> list[Fields]:
    """A client's view of the records; a v0 record has no timestamp there."""
    return [
        (base_offset + index, record.timestamp if magic else None, record.key, record.value)
        for index, record in enumerate(records)
    ]


def read_by_a_client(library: Any, data: bytes) -> list[Fields]:
    """The records of a message set as the library reads them, after its own check of every entry's checksum."""
    memory_records = library.MemoryRecords(data)
    found: list[Fields] = []
    while memory_records.has_next():
        batch = memory_records.next_batch()
        assert batch.validate_crc()
        found += [(record.offset, record.timestamp, record.key, record.value) for record in batch]
    return found


def written_by_a_client(library: Any, records: list[NewRecord], magic: int, codec: CompressionCodec) -> bytes:
    """The message set as the library's producer sends it: offsets count from 0, and a wrapper's is 0."""
    builder = library.LegacyRecordBatchBuilder(magic, codec.value, 1 << 30)
    for offset, record in enumerate(records):
        assert builder.append(offset, record.timestamp, record.key, record.value) is not None
    return bytes(builder.build())


@pytest.mark.parametrize(("magic", "codec"), one_in(3, FORMATS))
@pytest.mark.parametrize("library", [kafka_python_sets, aiokafka_sets], ids=["kafka-python", "aiokafka"])
@given(records=RECORDS, base_offset=st.integers(0, 2**62))
@settings(deadline=None, max_examples=40)
def test_a_client_reads_our_message_sets(
    library: Any, magic: int, codec: CompressionCodec, records: list[NewRecord], base_offset: int
) -> None:
    data = bytes(build_message_set(records, magic=magic, codec=codec, base_offset=base_offset))
    assert read_by_a_client(library, data) == expected(records, magic, base_offset)


@pytest.mark.parametrize(("magic", "codec"), one_in(3, FORMATS))
@pytest.mark.parametrize("library", [kafka_python, aiokafka], ids=["kafka-python", "aiokafka"])
@given(records=RECORDS)
@settings(deadline=None, max_examples=40)
def test_we_read_a_clients_message_sets_and_write_the_same_bytes(
    library: Any, magic: int, codec: CompressionCodec, records: list[NewRecord]
) -> None:
    data = written_by_a_client(library, records, magic, codec)
    batches = list(iter_batches(data))
    for batch in batches:
        batch.check_crc()
        assert batch.header.codec is codec
    assert [
        (record.offset, record.timestamp if magic else None, record.key, record.value)
        for batch in batches
        for record in batch
    ] == expected(records, magic)
    plain = build_message_set(records, magic=magic)
    if codec is NONE:
        assert data == plain
    else:
        (wrapper,) = batches
        assert wrapper.records_data() == plain
        check_inner_crcs(wrapper.records_data(), magic)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("library", [kafka_python_sets, aiokafka_sets], ids=["kafka-python", "aiokafka"])
def test_a_client_sees_the_brokers_time_under_log_append_time(library: Any, codec: CompressionCodec) -> None:
    records = [NewRecord(b"key", b"value", timestamp) for timestamp in (5, 9, 7)]
    data = build_message_set(
        records, magic=1, codec=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=777
    )
    assert [timestamp for _, timestamp, _, _ in read_by_a_client(library, bytes(data))] == [777] * 3
