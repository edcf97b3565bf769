"""F7's sizes, and batches whose bytes came from Kafka's and librdkafka's own writers."""

import pytest

from minibroker_protocol.records.batch import RecordBatch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import BatchHeader, CompressionCodec, TimestampType
from minibroker_protocol.records.produced_batch import check_produced_batch
from minibroker_protocol.records.record import NewRecord, Record

# Kafka 3.9.1's MemoryRecordsBuilder: producer id 4000, epoch 3, base sequence 7, transactional.
FROM_JAVA = {
    CompressionCodec.NONE: (
        "00000000000000000000012dffffffff02b50f7e980010000000030000018bcfe568000000018bcfe58f0f0000000000"
        "000fa00003000000070000000430000000066b65790a76616c7565040668c3a9040102026e010e00f601020100000c00"
        "0104000100a403009e9c0106026b90030000000000000000000000000000000000000000000000000000000000000000"
        "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000"
    ),
    CompressionCodec.GZIP: (
        "00000000000000000000007cffffffff02f038af500011000000030000018bcfe568000000018bcfe58f0f0000000000"
        "000fa0000300000007000000041f8b08000000000000ff3360606060cb4eade42a4bcc294d6561cb38bc92859189298f"
        "918fe11b23132303030f03230b0323c3126686797318d998b22730330c170000f94b7f68fc000000"
    ),
    CompressionCodec.SNAPPY: (
        "000000000000000000000088ffffffff02a15ce84c0012000000030000018bcfe568000000018bcfe58f0f0000000000"
        "000fa00003000000070000000482534e4150505900000000010000000100000043fc01d030000000066b65790a76616c"
        "7565040668c3a9040102026e010e00f601020100000c000104000100a403009e9c0106026b90030000fe0200fe0200fe"
        "02000d02"
    ),
    CompressionCodec.LZ4: (
        "00000000000000000000007fffffffff0262bb69c50013000000030000018bcfe568000000018bcfe58f0f0000000000"
        "000fa00003000000070000000404224d186040823f000000ff2530000000066b65790a76616c7565040668c3a9040102"
        "026e010e00f601020100000c000104000100a403009e9c0106026b9003000100b050000000000000000000"
    ),
    CompressionCodec.ZSTD: (
        "000000000000000000000079ffffffff02e11c381b0014000000030000018bcfe568000000018bcfe58f0f0000000000"
        "000fa00003000000070000000428b52ffd0058e40100440330000000066b65790a76616c7565040668c3a9040102026e"
        "010e00f601020100000c000104000100a403009e9c0106026b900300010054a40014010000"
    ),
}
JAVA_RECORDS = [
    NewRecord(b"key", b"value", 1700000000000, (("h\u00e9", b"\x01\x02"), ("n", None))),
    NewRecord(None, b"", 1700000000123),
    NewRecord(b"", None, 1699999999999),
    NewRecord(b"k", bytes(200), 1700000009999),
]
# librdkafka 2.16 with each compression.type, as its own mock broker received them.
FROM_LIBRDKAFKA = {
    CompressionCodec.NONE: (
        "0000000000000000000001650000000002cd87ef5e0000000000030000018bcfe568000000018bcfe56803ffffffffff"
        "ffffffffffffffffff000000049601000000046b30787676767676767676767676767676767676767676767676767676"
        "767676767676767676767676767676767676767676767676767676767676767676760402680278026e01960100020204"
        "6b3178767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676"
        "7676767676767676767676767676760402680278026e019601000404046b327876767676767676767676767676767676"
        "767676767676767676767676767676767676767676767676767676767676767676767676767676767676767604026802"
        "78026e019601000606046b33787676767676767676767676767676767676767676767676767676767676767676767676"
        "767676767676767676767676767676767676767676767676760402680278026e01"
    ),
    CompressionCodec.GZIP: (
        "0000000000000000000000730000000002c4f6c70b0001000000030000018bcfe568000000018bcfe56803ffffffffff"
        "ffffffffffffffffff000000041f8b08000000000000039bc6c8c0c0c0926d505146016061ca60aa60ca639cc6c8c0c4"
        "c4926d482dc3585858b28da865181b1b4bb631550c03008927a96b34010000"
    ),
    CompressionCodec.SNAPPY: (
        "00000000000000000000006d0000000002b7e414110002000000030000018bcfe568000000018bcfe56803ffffffffff"
        "ffffffffffffffffff00000004b402249601000000046b307876ea01003c0402680278026e019601000202046b31fe4d"
        "00114d100404046b32fe4d00114d100606046b33fe4d00054d"
    ),
    CompressionCodec.LZ4: (
        "00000000000000000000007b0000000002b53596b50003000000030000018bcfe568000000018bcfe56803ffffffffff"
        "ffffffffffffffffff0000000404224d186040823b000000af9601000000046b307876010028ff010402680278026e01"
        "9601000202046b314d00355f0404046b324d00355f0606046b334d002d500278026e0100000000"
    ),
    CompressionCodec.ZSTD: (
        "00000000000000000000006d0000000002f948ec580004000000030000018bcfe568000000018bcfe56803ffffffffff"
        "ffffffffffffffffff0000000428b52ffd00589d010044029601000000046b3078760402680278026e01960100020204"
        "6b310404046b320606046b33040002505d806a050574410248"
    ),
}
LIBRDKAFKA_RECORDS = [
    NewRecord(b"k%d" % index, b"v" * 60, 1700000000000 + index, (("h", b"x"), ("n", None))) for index in range(4)
]


def as_read(records: list[NewRecord]) -> list[Record]:
    return [
        Record(offset, record.timestamp, TimestampType.CREATE_TIME, record.key, record.value, record.headers)
        for offset, record in enumerate(records)
    ]


@pytest.mark.parametrize(
    ("records", "size"),
    [
        ([NewRecord(b"key", b"value", 1)], 76),
        ([NewRecord(None, b"value", 1)], 73),
        ([NewRecord(None, b"value%d" % index, 1) for index in range(10)], 191),
        ([NewRecord(None, bytes(16384), 1)], 61 + 11 + 16384),
    ],
)
def test_batches_take_the_documented_sizes_on_disk(records: list[NewRecord], size: int) -> None:
    batch = build_batch(records)
    assert len(batch) == size
    assert list(RecordBatch(memoryview(batch))) == as_read(records)


@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_a_batch_that_java_wrote_is_read(codec: CompressionCodec) -> None:
    data = bytes.fromhex(FROM_JAVA[codec])
    (batch,) = iter_batches(data)
    batch.check_crc()
    header = batch.header
    assert header.codec is codec
    assert header.is_transactional
    assert not header.is_control
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (4000, 3, 7, 10)
    assert (header.base_timestamp, header.max_timestamp) == (1700000000000, 1700000009999)
    assert header.partition_leader_epoch == -1
    assert list(batch) == as_read(JAVA_RECORDS)
    assert check_produced_batch(memoryview(data), opened_records=-1) == header


def test_an_uncompressed_batch_is_byte_for_byte_javas() -> None:
    batch = build_batch(JAVA_RECORDS, producer_id=4000, producer_epoch=3, base_sequence=7, is_transactional=True)
    assert batch.hex() == FROM_JAVA[CompressionCodec.NONE]


@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_a_batch_that_librdkafka_wrote_is_read(codec: CompressionCodec) -> None:
    data = bytes.fromhex(FROM_LIBRDKAFKA[codec])
    (batch,) = iter_batches(data)
    batch.check_crc()
    assert batch.header.codec is codec
    assert not batch.header.has_producer_id
    assert list(batch) == as_read(LIBRDKAFKA_RECORDS)
    assert check_produced_batch(memoryview(data), opened_records=-1) == batch.header


def test_an_uncompressed_batch_is_byte_for_byte_librdkafkas() -> None:
    batch = build_batch(LIBRDKAFKA_RECORDS, partition_leader_epoch=0)
    assert batch.hex() == FROM_LIBRDKAFKA[CompressionCodec.NONE]


def test_the_crc_of_a_known_batch_is_known() -> None:
    (batch,) = iter_batches(bytes.fromhex(FROM_JAVA[CompressionCodec.NONE]))
    assert batch.header == BatchHeader(
        base_offset=0,
        batch_length=301,
        partition_leader_epoch=-1,
        magic=2,
        crc=0xB50F7E98,
        attributes=0x10,
        last_offset_delta=3,
        base_timestamp=1700000000000,
        max_timestamp=1700000009999,
        producer_id=4000,
        producer_epoch=3,
        base_sequence=7,
        record_count=4,
    )
