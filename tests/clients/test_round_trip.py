"""Records of clients come back: to themselves, to each other, in every codec, with every field."""

from typing import get_args

import pytest

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
