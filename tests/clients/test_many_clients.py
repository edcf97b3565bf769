"""Clients that work at the same time: a slow one holds nobody up, and two hundred are not too many."""

import asyncio
import random
import resource
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest

from minibroker_protocol.codec import decode, encode
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from minibroker_protocol.records.batch import iter_batches
from tests.clients.aiokafka_client import AIOKafkaProducer
from tests.clients.broker_process import BrokerProcess
from tests.clients.contract import TIMEOUT, Client, Message

FETCH_VERSION = 4
RECORDS = 24
RECORD_SIZE = 1_000_000
REQUESTS = 4
"""Answers of 24 MB each: far more than the kernel keeps for a client that does not read."""
DESCRIPTORS = 2_048


def fetch_request(correlation_id: int, topic: str) -> bytes:
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=RECORDS * (RECORD_SIZE + 1_000),
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=64 << 20)],
            )
        ],
    )
    frame = bytearray(struct.pack(">hhih", 1, FETCH_VERSION, correlation_id, -1))
    encode(request, FETCH_VERSION, frame, [])
    return struct.pack(">i", len(frame)) + frame


def read_exactly(connection: socket.socket, size: int) -> memoryview:
    data = memoryview(bytearray(size))
    done = 0
    while done < size:
        count = connection.recv_into(data[done:])
        assert count, f"the broker closed the connection {size - done} bytes too early"
        done += count
    return data


def test_a_consumer_that_does_not_read_its_socket_holds_up_nobody_and_gets_everything_later(
    client: Client, bootstrap: str, topic: str
) -> None:
    values = [random.Random(number).randbytes(RECORD_SIZE) for number in range(RECORDS)]
    client.create_topic(topic, 1)
    client.produce(topic, [Message(value) for value in values])
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT) as slow:
        for correlation_id in range(REQUESTS):
            slow.sendall(fetch_request(correlation_id, topic))
        for number in range(5):
            other = f"{topic}-{number}"
            client.produce(other, [Message(b"meanwhile")])
            assert [record.value for record in client.consume(other, 1)] == [b"meanwhile"]
        for correlation_id in range(REQUESTS):
            size, answered = struct.unpack(">ii", read_exactly(slow, 8))
            assert answered == correlation_id
            response, _ = decode(FetchResponse, read_exactly(slow, size - 4), FETCH_VERSION)
            (partition,) = response.responses[0].partitions
            assert isinstance(partition.records, memoryview)
            records = [record for batch in iter_batches(partition.records) for record in batch]
            assert [record.value for record in records] == values


@contextmanager
def file_descriptors(count: int) -> Iterator[None]:
    """Allow that many in this process and in those that it starts; macOS gives 256 unless asked."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("idempotent", [False, True])
def test_two_hundred_producers_at_once_store_each_record_once(
    broker_process: Callable[..., BrokerProcess], *, idempotent: bool
) -> None:
    producers, rounds = 200, 5

    async def run(bootstrap: str) -> list[int]:
        async with AsyncExitStack() as stack:
            group = [
                AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=idempotent) for _ in range(producers)
            ]
            await asyncio.gather(*(stack.enter_async_context(producer) for producer in group))
            offsets: list[int] = []
            for number in range(rounds):
                sent = (
                    producer.send_and_wait("crowd", b"%d of %d" % (number, index), partition=0)
                    for index, producer in enumerate(group)
                )
                offsets += [metadata.offset for metadata in await asyncio.gather(*sent)]
            return offsets

    with file_descriptors(DESCRIPTORS):
        broker = broker_process("--topic", "crowd")
        offsets = asyncio.run(asyncio.wait_for(run(broker.bootstrap), TIMEOUT))
    assert sorted(offsets) == list(range(producers * rounds))
    broker.terminate()
