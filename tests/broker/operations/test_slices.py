"""Large topics are read in slices, between which clients are served."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from minibroker import AsyncBroker, WaitTimeoutError
from minibroker.cluster.errors import NotFoundError
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.harness import frame_of
from tests.broker.socket_client import framed

SIZE = 20_000
Operation = Callable[[AsyncBroker], Awaitable[object]]


async def records(broker: AsyncBroker) -> None:
    assert [record.json() for record in await broker.records("large")] == [*range(SIZE // 2)] * 2


async def wait_for(broker: AsyncBroker) -> None:
    assert len(await broker.wait_for("large", SIZE, timeout=0)) == SIZE


async def expect(broker: AsyncBroker) -> None:
    assert (await broker.expect("large", SIZE // 2 - 1, partition=1, timeout=0)).partition == 1


async def in_vain(broker: AsyncBroker) -> None:
    with pytest.raises(WaitTimeoutError, match=f"found {SIZE}"):
        await broker.wait_for("large", SIZE + 1, timeout=0)


OPERATIONS: list[Operation] = [records, wait_for, expect, in_vain]


@pytest.fixture
async def large() -> AsyncIterator[AsyncBroker]:
    """Start a broker with a topic of two partitions that takes many slices."""
    async with AsyncBroker(topics=["large:2"]) as broker:
        for partition in range(2):
            await broker.produce("large", *range(SIZE // 2), partition=partition)
        yield broker


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_client_is_served_while_a_large_topic_is_read(large: AsyncBroker, operation: Operation) -> None:
    reader, writer = await asyncio.open_connection(*large.address)
    ended: list[str] = []

    async def read_topic() -> None:
        await operation(large)
        ended.append("operation")

    async def ask() -> None:
        frame = frame_of(ApiVersionsRequest(), 0)
        writer.write(framed(frame))
        await reader.readexactly(4)
        ended.append("client")

    await asyncio.gather(read_topic(), ask())
    writer.close()
    assert ended == ["client", "operation"]


async def test_what_is_produced_meanwhile_is_not_among_the_records(large: AsyncBroker) -> None:
    reading = asyncio.ensure_future(large.records("large"))
    await asyncio.sleep(0)
    await large.produce("large", "late", partition=1)
    assert len(await reading) == SIZE
    assert len(await large.records("large")) == SIZE + 1


async def test_a_topic_that_is_deleted_while_it_is_read_is_named(large: AsyncBroker) -> None:
    reading = asyncio.ensure_future(large.records("large"))
    await asyncio.sleep(0)
    await large.delete_topic("large")
    with pytest.raises(NotFoundError, match="topic 'large' was deleted while it was read"):
        await reading


async def test_a_topic_that_is_made_anew_while_it_is_waited_for_is_read_from_its_start(large: AsyncBroker) -> None:
    waiting = asyncio.ensure_future(large.wait_for("large", SIZE + 1))
    await asyncio.sleep(0)
    await large.delete_topic("large")
    await large.create_topic("large")
    await large.produce("large", *range(SIZE + 1))
    assert [each.json() for each in await waiting] == [*range(SIZE + 1)]


async def test_a_topic_that_is_restored_while_it_is_waited_for_is_read_again(large: AsyncBroker) -> None:
    with await large.snapshot() as snapshot:
        waiting = asyncio.ensure_future(large.wait_for("large", SIZE + 1))
        await asyncio.sleep(0)
        await large.restore(snapshot)
        await large.produce("large", "more", partition=0)
        assert len(await waiting) == SIZE + 1


async def test_records_that_are_deleted_while_they_are_read_are_passed_over(large: AsyncBroker) -> None:
    reading = asyncio.ensure_future(large.records("large", partition=0))
    await asyncio.sleep(0)
    await large.reset(keep_topics=True)
    await large.produce("large", "after", partition=0)
    offsets = [record.offset for record in await reading]
    assert offsets == sorted(set(offsets))
    assert all(offset < SIZE // 2 for offset in offsets)
