"""Produce, Fetch and ListOffsets: the same requests to this broker and to Kafka 3.9.

The batches are made byte by byte, so that they can say what no client of today would.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from minibroker import Broker
from minibroker_protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.records import NewRecord, build_batch, build_message_set
from tests.broker.socket_client import SocketClient, address_of
from tests.clients.contract import eventually
from tests.kafka.real_kafka import RealKafka

NOW: Final = 1_700_000_000_000
PARTITIONS: Final = 4


class Side(NamedTuple):
    """A connection to one of the two brokers."""

    client: SocketClient

    def create(self, name: str, **configs: str) -> None:
        """Make a topic, and wait until the broker leads it."""
        wanted = CreatableTopic(
            name=name,
            num_partitions=PARTITIONS,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        (made,) = self.client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=20_000), 5).topics
        assert made.error_code == 0, made.error_message
        eventually(lambda: self._leads(name))

    def _leads(self, name: str) -> bool:
        """Whether the broker itself knows; a Kafka's metadata tell of it earlier."""
        return {code for code, _, _ in self.fetched(name, 4, part=1, whole=1)} == {0}

    def produce(self, name: str, batch: bytes | bytearray, partition: int = 0, version: int = 9) -> tuple[int, int]:
        """The error code and the base offset."""
        data = PartitionProduceData(index=partition, records=memoryview(bytes(batch)))
        request = ProduceRequest(
            acks=-1, timeout_ms=20_000, topic_data=[TopicProduceData(name=name, partition_data=[data])]
        )
        (outcome,) = self.client.ask(request, version).responses[0].partition_responses
        return outcome.error_code, outcome.base_offset

    def fetched(
        self, name: str, version: int, *, part: int, whole: int, isolation: int = 0
    ) -> list[tuple[int, int, int | None]]:
        """Error, bytes and aborted transactions of each partition, read from its start."""
        wanted = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=part) for index in range(PARTITIONS)
        ]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=whole,
            isolation_level=isolation,
            topics=[FetchTopic(topic=name, partitions=wanted)],
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


class Both(NamedTuple):
    """The two brokers."""

    ours: Side
    kafka: Side

    def create(self, name: str, **configs: str) -> None:
        """Make a topic on both."""
        for side in self:
            side.create(name, **configs)

    def produce(self, name: str, batch: bytes | bytearray, partition: int = 0, version: int = 9) -> tuple[int, int]:
        """What both answer to the same batch."""
        answered, expected = (side.produce(name, batch, partition, version) for side in self)
        assert answered == expected
        return answered


@pytest.fixture(scope="module")
def both(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with closing(RealKafka(tmp_path_factory.mktemp("kafka"), kafka_libs)) as kafka, Broker() as broker:
        kafka.start()
        with (
            SocketClient(address_of(broker.bootstrap_servers)) as ours,
            SocketClient(address_of(kafka.bootstrap)) as theirs,
        ):
            yield Both(Side(ours), Side(theirs))


def one(value: bytes, **fields: Any) -> bytearray:
    return build_batch([NewRecord(None, value, NOW)], **fields)


# Which partitions get bytes when there is room for some of them only.


@pytest.mark.parametrize("version", [4, 7, 11, 12])
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
