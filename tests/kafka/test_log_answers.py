"""Produce, Fetch and ListOffsets: the same requests to this broker and to Kafka 3.9.

The batches are made byte by byte, so that they can say what no client of today would.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from minibroker import Broker
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.header import CompressionCodec, compute_crc
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.broker.harness import bytes_in, fetch_request, only_partition, produce_request
from tests.broker.socket_client import SocketClient, address_of
from tests.kafka.cluster_requests import offsets
from tests.kafka.real_kafka import KEEPS_RECORDS, RealKafka
from tests.kafka.topics import create_topic
from tests.sweeps import one_in

NOW: Final = 1_700_000_000_000
PARTITIONS: Final = 4
MAX_TIMESTAMP: Final = -3


class Side(NamedTuple):
    """A connection to one of the two brokers."""

    client: SocketClient

    def create(self, name: str, **configs: str) -> None:
        """Make a topic, and wait until the broker leads it."""
        create_topic(self.client, name, PARTITIONS, **configs)

    def produce(self, name: str, batch: bytes | bytearray, partition: int = 0, version: int = 9) -> tuple[int, int]:
        """The error code and the base offset."""
        request = produce_request(bytes(batch), name, partition)
        (outcome,) = self.client.ask(request, version).responses[0].partition_responses
        return outcome.error_code, outcome.base_offset

    def fetched(
        self, name: str, version: int, *, part: int, whole: int, isolation: int = 0
    ) -> list[tuple[int, int, int | None]]:
        """Error, bytes and aborted transactions of each partition, read from its start."""
        places = [(name, index, 0) for index in range(PARTITIONS)]
        request = fetch_request(
            *places, max_wait_ms=0, min_bytes=0, max_bytes=whole, partition_max_bytes=part, isolation_level=isolation
        )
        (topic,) = self.client.ask(request, version).responses
        found = sorted(topic.partitions, key=lambda each: each.partition_index)
        return [
            (
                each.error_code,
                len(each.records or b""),
                None if each.aborted_transactions is None else len(each.aborted_transactions),
            )
            for each in found
        ]

    def looked_up(self, name: str, time: int, version: int = 7) -> tuple[int, int, int, int]:
        """Error, offset, timestamp and leader epoch."""
        (found,) = self.client.ask(offsets(name, 0, time=time), version).topics[0].partitions
        return found.error_code, found.offset, found.timestamp, found.leader_epoch

    def records(self, name: str) -> bytes:
        """The first bytes of partition 0."""
        return bytes_in(only_partition(self.client.ask(fetch_request((name, 0, 0), max_wait_ms=0, min_bytes=0), 4)))


class Both(NamedTuple):
    """The two brokers."""

    ours: Side
    kafka: Side

    def create(self, name: str, **configs: str) -> None:
        """Make a topic on both."""
        for side in self:
            side.create(name, **configs)

    def produce(self, name: str, batch: bytes | bytearray, partition: int = 0, version: int = 9) -> tuple[int, int]:
        """The responses of both to the same batch."""
        answered, expected = (side.produce(name, batch, partition, version) for side in self)
        assert answered == expected
        return answered


@pytest.fixture(scope="module")
def both(real_kafka: RealKafka) -> Iterator[Both]:
    with (
        Broker(config=KEEPS_RECORDS) as broker,
        SocketClient(address_of(broker.bootstrap_servers)) as ours,
        SocketClient(address_of(real_kafka.bootstrap)) as theirs,
    ):
        yield Both(Side(ours), Side(theirs))


def one(value: bytes, **fields: Any) -> bytearray:
    return build_batch([NewRecord(None, value, NOW)], **fields)


# Which partitions get bytes when there is room for some of them only.


@pytest.mark.parametrize("version", one_in(2, [4, 7, 11, 12]))
@pytest.mark.parametrize("isolation", [0, 1])
def test_the_same_partitions_get_bytes(both: Both, version: int, isolation: int) -> None:
    name = f"room-{version}-{isolation}"
    both.create(name)
    for partition, count in enumerate((1, 3, 0, 2)):
        for _ in range(count):
            both.produce(name, one(bytes(100)), partition)
    size = len(one(bytes(100)))
    for part in (1, size - 1, size, size + 3, 2 * size, 1 << 20):
        for whole in (0, 1, size, size + 5, 2 * size, 2 * size + 70, 3 * size, 1 << 20):
            answered, expected = (
                side.fetched(name, version, part=part, whole=whole, isolation=isolation) for side in both
            )
            assert answered == expected, (part, whole)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_the_same_partitions_get_bytes_of_old_messages(both: Both, version: int) -> None:
    name = f"old-room-{version}"
    both.create(name)
    for partition, count in enumerate((1, 3, 0, 2)):
        for _ in range(count):
            both.produce(name, one(bytes(100)), partition)
    message = len(build_message_set([NewRecord(None, bytes(100), NOW)], magic=1 if version > 1 else 0))
    batch = len(one(bytes(100)))
    for part in (batch, batch + 3, 2 * batch, 1 << 20):
        for whole in (batch, batch + 5, 3 * batch, 1 << 20):
            answered, expected = (
                [bool(size // message) for _, size, _ in side.fetched(name, version, part=part, whole=whole)]
                for side in both
            )
            assert answered == expected, (part, whole)


# Headers that are not what their records are.


def claiming(batch: bytearray, *, max_timestamp: int | None = None, count: int | None = None) -> bytearray:
    """The batch with another header, and the checksum for it."""
    if max_timestamp is not None:
        struct.pack_into(">q", batch, 35, max_timestamp)
    if count is not None:
        struct.pack_into(">i", batch, 23, count - 1)
        struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, compute_crc(memoryview(batch)))
    return batch


@pytest.mark.parametrize("codec", CompressionCodec)
@pytest.mark.parametrize("records", one_in(2, [3, 150]))  # 150 are too many to be checked one by one here
@pytest.mark.parametrize("claimed", [-1, NOW - 1, 2**62])
def test_a_wrong_max_timestamp_is_put_right(both: Both, codec: CompressionCodec, records: int, claimed: int) -> None:
    name = f"times-{codec.name.lower()}-{records}-{claimed}"
    both.create(name)
    sent = [NewRecord(None, b"v", NOW + (number * 7) % records) for number in range(records)]
    assert both.produce(name, claiming(build_batch(sent, codec=codec), max_timestamp=claimed)) == (0, 0)
    for time in (NOW, NOW + 1, NOW + records - 1, NOW + records, MAX_TIMESTAMP):
        answered, expected = (side.looked_up(name, time) for side in both)
        assert answered == expected, time
    stored = [side.records(name) for side in both]
    assert bytes(stored[0]) == bytes(stored[1])


def test_a_batch_without_a_time_of_an_idempotent_producer_is_recognized(both: Both) -> None:
    both.create("again")
    batch = build_batch([NewRecord(None, b"v", NOW)], producer_id=4711, producer_epoch=0, base_sequence=0)
    for _ in range(2):
        assert both.produce("again", claiming(batch, max_timestamp=-1)) == (0, 0)


@pytest.mark.parametrize("codec", [codec for codec in CompressionCodec if codec is not CompressionCodec.NONE])
@pytest.mark.parametrize("count", [101, 1_000_000, 2**31 - 1])
def test_a_batch_of_next_to_nothing_cannot_declare_many_records(
    both: Both, codec: CompressionCodec, count: int
) -> None:
    name = f"counts-{codec.name.lower()}-{count}"
    both.create(name)
    for content in (b"", bytes(50)):
        batch = build_batch([NewRecord(None, b"v", NOW)], codec=codec)[:61] + compress(codec, content)
        if count * 7 > 256 * (len(batch) - 61):
            assert both.produce(name, claiming(batch, count=count)) == (87, -1)
