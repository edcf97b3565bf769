"""Records from one byte to the last byte that `message.max.bytes` allows, and one byte more."""

import random

import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.clients.contract import Client, Message, RefusedError

MESSAGE_MAX_BYTES = 1_048_588
"""The default, and it is the whole batch that it bounds."""
OVERHEAD = 61 + 11
"""Of a batch with one record without key and headers whose lengths take 3 bytes: header 61, record 3+1+1+1+1+3+1."""
LARGEST = MESSAGE_MAX_BYTES - OVERHEAD
SIZES = [1, 55, 56, 63, 64, 1_000, 8_000, 8_191, 8_192, 16_384, 65_536, 1_000_000, LARGEST - 1, LARGEST]


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_records_of_every_size_come_back(client: Client, topic: str) -> None:
    client.create_topic(topic, 1)
    for size in SIZES:
        client.produce(topic, [Message(noise(size))])
    records = client.consume(topic, len(SIZES))
    assert [record.value for record in records] == [noise(size) for size in SIZES]


@pytest.mark.parametrize("idempotent", [False, True])
def test_one_byte_too_many_is_refused_and_nothing_is_stored(client: Client, topic: str, *, idempotent: bool) -> None:
    client.create_topic(topic, 1)
    with pytest.raises(RefusedError) as refusal:
        client.produce(topic, [Message(noise(LARGEST + 1))], idempotent=idempotent)
    assert refusal.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.watermarks(topic) == (0, 0)
    assert client.produce(topic, [Message(noise(LARGEST))], idempotent=idempotent) == [0]


def test_a_large_record_between_small_ones_is_read_with_a_small_fetch(client: Client, topic: str) -> None:
    client.create_topic(topic, 1)
    values = [b"small", noise(LARGEST), b"small again", noise(LARGEST), noise(LARGEST), b"the last"]
    client.produce(topic, [Message(value) for value in values])
    assert [record.value for record in client.consume(topic, len(values))] == values
    assert [record.value for record in client.consume(topic, 2, start=4)] == values[4:]
