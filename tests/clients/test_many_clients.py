"""Clients that work at the same time: a slow one holds nobody up, and two hundred are not too many."""

import asyncio
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # no types

from minibroker_protocol.records.batch import iter_batches
from tests.broker.harness import bytes_in, fetch_request, only_partition
from tests.broker.socket_client import SocketClient, address_of
from tests.clients.broker_process import BrokerProcess
from tests.clients.contract import TIMEOUT, Client, Message

FETCH_VERSION = 4
RECORDS = 24
RECORD_SIZE = 1_000_000
REQUESTS = 4
"""Answers of 24 MB each: far more than the kernel keeps for a client that does not read."""
DESCRIPTORS = 2_048


def test_a_consumer_that_does_not_read_its_socket_holds_up_nobody_and_gets_everything_later(
    client: Client, bootstrap: str, topic: str
) -> None:
    values = [random.Random(number).randbytes(RECORD_SIZE) for number in range(RECORDS)]
    client.create_topic(topic, 1)
    client.produce(topic, [Message(value) for value in values])
    with SocketClient(address_of(bootstrap)) as slow:
        size = RECORDS * (RECORD_SIZE + 1_000)
        request = fetch_request((topic, 0, 0), max_bytes=size, partition_max_bytes=64 << 20)
        for _ in range(REQUESTS):
            slow.send(request, FETCH_VERSION)
        for number in range(5):
            other = f"{topic}-{number}"
            client.produce(other, [Message(b"meanwhile")])
            assert [record.value for record in client.consume(other, 1)] == [b"meanwhile"]
        for number in range(1, REQUESTS + 1):
            answered, response = slow.receive()
            assert answered == number
            data = bytes_in(only_partition(response))
            assert [record.value for batch in iter_batches(memoryview(data)) for record in batch] == values


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


@pytest.mark.torture
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
