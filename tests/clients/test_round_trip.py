"""Records of clients come back: to themselves, to each other, in every codec, with every field."""

import struct
from itertools import groupby
from pathlib import Path
from typing import get_args

import pytest

from minibroker_protocol.records.batch import iter_batches
from tests.clients.contract import Client, Compression, Message

EVERY_FIELD = [
    Message(b"value", b"key", (("trace", b"\x00\xff"), ("trace", b"again"), ("größe", b"")), 1_700_000_000_123),
    Message(b"value", None, (), 1_700_000_000_456),
    Message(None, b"a tombstone", (), 1_700_000_000_789),
    Message(b"", b"", (("empty", b""),), 1_700_000_000_001),
    Message(bytes(range(256)), "schlüssel".encode(), (), 1),
]
COMPRESSIBLE = [Message(b"all work and no play makes a dull message " * 20 + b"%d" % index) for index in range(200)]
COMPRESSIONS: tuple[Compression, ...] = get_args(Compression)


def test_every_field_of_a_record_reaches_every_client(client: Client, every_client: list[Client], topic: str) -> None:
    client.create_topic(topic, 1)
    offsets = client.produce(topic, EVERY_FIELD)
    assert offsets == list(range(len(EVERY_FIELD)))
    for reader in every_client:
        records = reader.consume(topic, len(EVERY_FIELD))
        assert [(record.key, record.value, record.headers, record.timestamp) for record in records] == [
            (message.key, message.value, message.headers, message.timestamp) for message in EVERY_FIELD
        ]
        assert [record.offset for record in records] == offsets


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_codec_reaches_every_client(
    client: Client, every_client: list[Client], topic: str, compression: Compression
) -> None:
    client.create_topic(topic, 1)
    client.produce(topic, COMPRESSIBLE, compression=compression)
    for reader in every_client:
        records = reader.consume(topic, len(COMPRESSIBLE))
        assert [record.value for record in records] == [message.value for message in COMPRESSIBLE]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_batches_are_kept_in_the_codec_of_the_producer(
    client: Client, topic: str, data_dir: Path, compression: Compression
) -> None:
    client.create_topic(topic, 1)
    client.produce(topic, COMPRESSIBLE, compression=compression)
    log = (data_dir / f"{topic}-0" / f"{0:020}.log").read_bytes()
    batches = list(iter_batches(log))
    assert {batch.header.codec for batch in batches} == {COMPRESSIONS.index(compression)}
    plain_size = sum(len(message.value or b"") for message in COMPRESSIBLE)
    assert (len(log) < plain_size) == (compression != "none")


@pytest.mark.parametrize("idempotent", [False, True])
def test_records_of_several_partitions_come_back_in_order(client: Client, topic: str, *, idempotent: bool) -> None:
    partitions = 3
    client.create_topic(topic, partitions)
    messages = [
        Message(struct.pack(">q", number), b"%d" % number, (), 1_700_000_000_000 + number, number % partitions)
        for number in range(3_000)
    ]
    offsets = client.produce(topic, messages, idempotent=idempotent)
    assert offsets == [number // partitions for number in range(len(messages))]
    by_partition = groupby(sorted(messages, key=lambda message: message.partition), lambda message: message.partition)
    for partition, expected in by_partition:
        sent = list(expected)
        records = client.consume(topic, len(sent), partition=partition)
        assert [(record.key, record.value, record.timestamp) for record in records] == [
            (message.key, message.value, message.timestamp) for message in sent
        ]
        assert client.watermarks(topic, partition) == (0, len(sent))


def test_a_record_without_a_timestamp_gets_the_time_of_the_producer(client: Client, topic: str) -> None:
    client.create_topic(topic, 1)
    earlier = Message(b"", timestamp=1_000)
    client.produce(topic, [Message(b"now"), earlier])
    now, then = client.consume(topic, 2)
    assert then.timestamp == 1_000
    assert now.timestamp > 1_700_000_000_000
