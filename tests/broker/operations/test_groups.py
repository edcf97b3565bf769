"""Operations on consumer groups."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from minibroker import Broker, MinibrokerWarning
from minibroker.cluster.errors import OperationError, WaitTimeoutError
from minibroker.cluster.partition import Partition
from minibroker.operations import waiting
from minibroker.operations.catching_up import _Progress
from minibroker.operations.records import ConsumerRecord
from tests.broker.operations.members import member
from tests.patience import PATIENCE_S

CONFIG = {"group.consumer.min.heartbeat.interval.ms": "50", "group.consumer.heartbeat.interval.ms": "50"}
PROTOCOLS = [({}, "classic", "range"), ({"group_protocol": "consumer"}, "consumer", "uniform")]
"""The configuration of a member, and the type and assignor of its group."""
ALL = [("orders", index) for index in range(4)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders:4"], config=CONFIG, timeout=PATIENCE_S) as running:
        yield running


@pytest.mark.parametrize(("config", "kind", "assignor"), PROTOCOLS)
def test_waiting_until_a_group_is_stable(broker: Broker, config: dict[str, str], kind: str, assignor: str) -> None:
    group = broker.group("g")
    assert (group.describe().state, group.describe().members) == ("Dead", ())
    with member(broker, "a", **config), member(broker, "b", **config):
        description = group.wait_until_stable(members=2)
        assert (description.type, description.state, description.protocol) == (kind, "Stable", assignor)
        assert description.is_stable
        assert sorted((joined.client_id, joined.client_host) for joined in description.members) == [
            ("a", "127.0.0.1"),
            ("b", "127.0.0.1"),
        ]
        assert sorted(key for joined in description.members for key in joined.partitions or ()) == ALL
        assert kind == "classic" or group.lag() == dict.fromkeys(ALL, 0)
        assert broker.groups() == ["g"]
    assert group.wait_until_stable(members=0).state == "Empty"


def test_members_come_back_after_a_reset_and_a_restored_snapshot(broker: Broker) -> None:
    group = broker.group("g")
    with member(broker, "a", group_protocol="consumer"):
        group.wait_until_stable(members=1)
        with broker.snapshot() as snapshot:
            broker.reset(keep_topics=True)
            group.wait_until_stable(members=1)
            broker.restore(snapshot)
            group.wait_until_stable(members=1)


def test_what_a_group_has_committed_and_how_far_it_is_behind(broker: Broker) -> None:
    broker.produce("orders", "a", "b", "c", partition=1)
    group = broker.group("g")
    assert group.committed() == {}
    with member(broker, "a"):
        group.wait_until_stable(members=1)
        while group.committed() != {("orders", 1): 3}:
            threading.Event().wait(0.01)
        assert group.lag() == dict.fromkeys(ALL, 0)
    broker.produce("orders", "d", partition=1)
    assert group.lag() == {("orders", 1): 1}


def test_a_wait_for_records_ends_with_the_append(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_PAUSE_BETWEEN_APPENDS_S", 2 * PATIENCE_S)
    looked = threading.Event()

    def is_awaited(record: ConsumerRecord) -> bool:
        looked.set()
        return record.value == b"b"

    broker.produce("orders", "a", partition=1)
    with ThreadPoolExecutor() as pool:
        record = pool.submit(broker.wait_for, "orders", matching=is_awaited, timeout=2 * PATIENCE_S)
        assert looked.wait(PATIENCE_S)
        broker.produce("orders", "b", partition=2)
        assert [each.partition for each in record.result(PATIENCE_S)] == [2]


def test_a_wait_for_a_group_that_reads_ends_with_its_commit(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_PAUSE_BETWEEN_APPENDS_S", 2 * PATIENCE_S)
    looked = threading.Event()
    has_read = _Progress.has_read

    async def watched(progress: _Progress, partition: Partition) -> bool:
        looked.set()
        return await has_read(progress, partition)

    monkeypatch.setattr(_Progress, "has_read", watched)
    broker.produce("orders", "a", "b", partition=1)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("orders", 1, 1)], asynchronous=False)
    with ThreadPoolExecutor() as pool:
        offsets = pool.submit(broker.group("g").wait_until_caught_up, timeout=2 * PATIENCE_S)
        assert looked.wait(PATIENCE_S)
        consumer.commit(offsets=[TopicPartition("orders", 1, 2)], asynchronous=False)
        assert offsets.result(PATIENCE_S) == {("orders", 1): 2}
    consumer.close()


def test_a_wait_leaves_no_listener_at_a_log(broker: Broker) -> None:
    broker.produce("orders", "a", partition=1)
    with pytest.raises(WaitTimeoutError):
        broker.wait_for("orders", 2, timeout=0.01)
    topic = broker.services.core.topics.get("orders")
    assert topic is not None
    assert [partition.log._listeners for partition in topic.partitions] == [{}] * 4


@pytest.mark.parametrize(("config", "kind"), [protocol[:2] for protocol in PROTOCOLS])
def test_a_rebalance_can_be_forced(broker: Broker, config: dict[str, str], kind: str) -> None:
    group = broker.group("g")
    with member(broker, "a", **config):
        before = group.wait_until_stable(members=1).generation
        group.rebalance()
        while group.wait_until_stable(members=1).generation == before:
            pass
        assert kind == "classic" or group.describe().generation == before + 1
    with pytest.raises(OperationError, match="group 'nobody' has no members"):
        broker.group("nobody").rebalance()


def test_a_group_that_is_not_stable_is_described(broker: Broker) -> None:
    with pytest.raises(WaitTimeoutError, match="group 'g' was not stable with members within 0 s: Dead, generation 0"):
        broker.group("g").wait_until_stable(timeout=0)
    with member(broker, "a"):
        broker.group("g").wait_until_stable()
        with pytest.raises(WaitTimeoutError) as caught:
            broker.group("g").wait_until_stable(members=2, timeout=0)
    assert "not stable with 2 members within 0 s: Stable, generation 1, 1 member" in str(caught.value)
    assert "orders-0, orders-1, orders-2, orders-3" in str(caught.value)
    with pytest.raises(OperationError, match="INVALID_GROUP_ID"):
        broker.group("").describe()
    with pytest.raises(OperationError, match="members: -1"):
        broker.group("g").wait_until_stable(members=-1)


def test_a_cluster_that_has_had_no_group_tells_of_none() -> None:
    with Broker(brokers=2) as broker:
        assert broker.group("g").describe().state == "Dead"
        with pytest.warns(MinibrokerWarning, match="there is no group 'g'; groups: none"):
            assert broker.group("g").lag() == {}
        assert broker.groups() == []


def test_waiting_until_a_group_has_read_everything(broker: Broker) -> None:
    group = broker.group("g")
    broker.produce("orders", "a", "b", "c", partition=1)
    with member(broker, "a"):
        assert group.wait_until_caught_up() == {("orders", 1): 3}
        broker.produce("orders", "d", "e", partition=2)
        assert group.wait_until_caught_up("orders") == {("orders", 1): 3, ("orders", 2): 2}
    assert group.wait_until_caught_up(timeout=0) == {("orders", 1): 3, ("orders", 2): 2}  # The group is empty now.
    broker.produce("orders", "f", partition=1)
    broker.produce("orders", "g", "h", partition=3)
    with pytest.raises(WaitTimeoutError) as caught:
        group.wait_until_caught_up(timeout=0)
    assert str(caught.value).splitlines() == [
        "group 'g' had not read everything within 0 s: Empty, 0 members",
        "  orders-1: committed 3, end 4, 1 behind",
    ]
    with pytest.raises(WaitTimeoutError) as caught:
        group.wait_until_caught_up("orders", timeout=0)
    assert str(caught.value).splitlines() == [
        "group 'g' had not read everything in 'orders' within 0 s: Empty, 0 members",
        "  orders-1: committed 3, end 4, 1 behind",
        "  orders-3: nothing committed, end 2, 2 behind",
    ]
    with pytest.raises(WaitTimeoutError, match=r"there is no topic 'ordres'; topics: .*; did you mean orders\?"):
        group.wait_until_caught_up("ordres", timeout=0)


def test_a_group_has_read_everything_although_a_marker_lies_behind_its_offset(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions()
    for ending in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("orders", b"x", partition=0)
        producer.flush()
        ending()
    group = broker.group("g")
    with member(broker, "a"):
        assert group.wait_until_caught_up()["orders", 0] == 1
    assert group.lag() == {("orders", 0): 3}


def test_a_group_that_does_not_exist_is_named_beside_those_that_do(broker: Broker) -> None:
    with member(broker, "a", "billing"):
        broker.group("billing").wait_until_stable()
        for wait in (broker.group("biling").wait_until_stable, broker.group("biling").wait_until_caught_up):
            with pytest.raises(
                WaitTimeoutError, match="there is no group 'biling'; groups: billing; did you mean bill"
            ):
                wait(timeout=0)
