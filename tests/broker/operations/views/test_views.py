"""Views of a broker that serves real clients, compared with the broker's other results."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from minibroker import AsyncBroker, Broker
from minibroker.cluster.errors import NotFoundError
from minibroker.operations.views import groups, state
from minibroker_lab.page.lessons.evidence import collect_facts
from minibroker_protocol.coordinator_records import ConsumerProtocolSubscription, encode_versioned
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.groups import FindCoordinatorRequest, JoinGroupRequest, JoinGroupRequestProtocol
from minibroker_storage.log import Log
from minibroker_storage.views import snapshot
from tests.broker.harness import frame_of
from tests.broker.operations.members import member
from tests.broker.socket_client import framed
from tests.patience import NO_RETENTION, PATIENCE_S

CONFIG = {
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "50",
    "log.index.interval.bytes": "100",
    **NO_RETENTION,
}


@pytest.fixture
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[AsyncBroker]:
    config: dict[str, str] = getattr(request, "param", {})
    async with AsyncBroker(topics=["orders:2"], config={**CONFIG, **config}, timeout=PATIENCE_S) as running:
        yield running


async def aside(work: Callable[[], Any]) -> Any:
    """Run a client's call in a thread, since the broker runs on this one."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def members_of(broker: AsyncBroker, stack: ExitStack, **config: str) -> None:
    stack.enter_context(member(cast("Broker", broker), "a", **config))


async def left(stack: ExitStack) -> None:
    await aside(stack.close)


@pytest.mark.parametrize(("protocol", "kind"), [("classic", "classic"), ("consumer", "consumer")])
async def test_a_group_has_its_state_members_offsets_and_lag(broker: AsyncBroker, protocol: str, kind: str) -> None:
    services = broker.services
    assert (await groups.group_page(services)).groups == ()
    with pytest.raises(NotFoundError):
        await groups.group_view(services, "g")
    await broker.produce("orders", "a", "b", partition=1)
    stack = ExitStack()
    await aside(lambda: members_of(broker, stack, **({"group_protocol": "consumer"} if kind == "consumer" else {})))
    try:
        group = broker.group("g")
        await group.wait_until_stable(members=1)
        await group.wait_until_caught_up()
        await broker.produce("orders", "c", partition=0)
        view = await groups.group_view(services, "g")
        described = await group.describe()
        assert (view.type, view.state, view.generation) == (kind, "Stable", described.generation)
        assert view.state in view.states
        assert (view.member_count, view.protocol) == (1, described.protocol)
        (member,) = view.members
        assert (member.member_id, member.client_id) == (described.members[0].member_id, "a")
        assert member.subscribed_topics == ("orders",)
        assert member.partitions is not None
        assert set(member.partitions) == {("orders", 0), ("orders", 1)}
        assert (member.is_leader, member.epoch is None) == ((True, True) if kind == "classic" else (False, False))
        committed = await group.committed()
        lag = await group.lag()
        assert {(offset.topic, offset.partition): offset.committed for offset in view.offsets} == committed
        for offset in view.offsets:
            assert offset.lag is not None
            assert offset.lag <= lag[offset.topic, offset.partition] + 1  # The member continues to read.
        assert json.loads(json.dumps(asdict(view)))["members"][0]["client_id"] == "a"
        (row,) = (await groups.group_page(services)).groups
        assert (row.group_id, row.type, row.members) == ("g", kind, 1)
    finally:
        await left(stack)


async def test_transactions_have_their_states_and_partitions(broker: AsyncBroker) -> None:
    services = broker.services
    assert (await state.transaction_page(services)).transactions == ()

    def begin() -> Producer:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "copier"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce("orders", b"x", partition=1)
        producer.flush(PATIENCE_S)
        return producer

    producer = await aside(begin)
    (transaction,) = (await state.transaction_page(services)).transactions
    assert (transaction.transactional_id, transaction.state) == ("copier", "Ongoing")
    assert list(transaction.partitions) == [("orders", 1)]
    (writer,) = snapshot.producers(log_of(broker, 1), limit=100)
    assert (writer.producer_id, writer.producer_epoch) == (transaction.producer_id, transaction.producer_epoch)
    assert writer.transaction_begins == 0
    assert (writer.batches[0].first_sequence, writer.batches[0].last_sequence) == (0, 0)
    view = snapshot.log_view(log_of(broker, 1), 0)
    assert (view.last_stable_offset, view.high_watermark) == (0, 1)
    await aside(lambda: producer.abort_transaction(PATIENCE_S))
    page = await state.transaction_page(services)
    assert page.transactions[0].state == "CompleteAbort"
    assert page.transactions[0].state in page.states
    (aborted,) = snapshot.aborted_transactions(log_of(broker, 1), limit=100)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (transaction.producer_id, 0, 1)


async def test_a_delayed_fetch_and_its_session_are_shown(broker: AsyncBroker) -> None:
    """A plain socket fetches one partition and waits."""
    services = broker.services
    await broker.produce("orders", "a", partition=1)
    host, port = broker.bootstrap_servers.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    partition = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=4096)
    first = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=0,
        session_epoch=0,
        topics=[FetchTopic(topic="orders", partitions=[partition])],
    )
    session_id = struct.unpack_from(">i", await asked(reader, writer, first, 11), 4 + 4 + 4 + 2 - 4)[0]
    (session,) = await state.fetch_sessions(services)
    assert (session.id, session.epoch, session.partition_count) == (session_id, 1, 1)
    (cached,) = session.partitions
    assert (cached.topic, cached.partition, cached.fetch_offset) == ("orders", 1, 0)
    partition.fetch_offset = 1
    second = FetchRequest(
        max_wait_ms=2**31 - 1,
        min_bytes=1,
        session_id=session_id,
        session_epoch=1,
        topics=[FetchTopic(topic="orders", partitions=[partition])],
    )
    frame = frame_of(second, 11, correlation_id=77)
    writer.write(framed(frame))
    while not (delayed := await state.delayed_requests(services)):  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)  # The request has not arrived yet.
    (request,) = delayed
    assert (request.correlation_id, request.version, request.node) == (77, 11, 1)
    assert request.client == "{}:{}".format(*writer.get_extra_info("sockname"))
    assert request.waits_for == "appends to orders-1: at least 1 byte, at most 2147483647 ms"
    assert (await state.fetch_sessions(services))[0].epoch == 2
    await broker.produce("orders", "b", partition=1)
    assert (await answer(reader))[:4] == struct.pack(">i", 77)
    assert await state.delayed_requests(services) == ()
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("broker", [{"group.initial.rebalance.delay.ms": "3600000"}], indirect=True)
async def test_a_member_that_waits_to_join_is_shown(broker: AsyncBroker) -> None:
    """The first member of a group waits for others because of `group.initial.rebalance.delay.ms`."""
    services = broker.services
    await groups.group_page(services)
    host, port = broker.bootstrap_servers.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    subscription = encode_versioned(ConsumerProtocolSubscription(topics=["orders"]), 1)
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    find = FindCoordinatorRequest(key="g")
    while (await asked(reader, writer, find, 0))[4:6] != b"\0\0":  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)  # The groups' topic is still being created.
    frame = frame_of(join, 3, correlation_id=5)
    writer.write(framed(frame))
    while not (delayed := await state.delayed_requests(services)):  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)  # The request has not arrived yet.
    assert delayed[0].waits_for == "the other members of its group"
    view = await groups.group_view(services, "g")
    assert (view.state, view.waiting_to_join) == ("PreparingRebalance", 1)
    (member,) = view.members
    assert (member.waits_in, member.subscribed_topics) == ("JoinGroup", ("orders",))
    writer.close()
    await writer.wait_closed()


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Any, version: int) -> bytes:
    frame = frame_of(request, version)
    writer.write(framed(frame))
    return await answer(reader)


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Read a response, and return it without its length."""
    return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


async def test_a_lesson_leaves_out_a_log_that_cannot_be_read(broker: AsyncBroker) -> None:
    await broker.produce("orders", "a", "b", partition=0)
    assert [log.partition for log in (await collect_facts(broker, {})).logs] == [0, 1]
    damage(log_of(broker, 0).segments[0].log.path)
    assert [log.partition for log in (await collect_facts(broker, {})).logs] == [1]


def log_of(broker: AsyncBroker, partition: int) -> Log:
    topic = broker.services.core.topics.get("orders")
    assert topic is not None
    return topic.partitions[partition].log


def damage(path: str) -> None:
    with open(path, "r+b") as file:
        file.write(b"\xff" * 61)
