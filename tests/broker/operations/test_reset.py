"""Resets, snapshots and restores of a broker with real clients."""

import os
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from minibroker import Broker
from minibroker.cluster.errors import OperationError
from tests.patience import PATIENCE_S


def consumed(broker: Broker, topic: str, count: int, group: str = "g") -> list[bytes | None]:
    """Return the records that a new group member reads and commits."""
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, "enable.auto.commit": False})
    consumer.subscribe([topic])
    messages = consumer.consume(count, PATIENCE_S)
    consumer.commit(asynchronous=False)
    consumer.close()
    return [message.value() for message in messages]


def fill(broker: Broker) -> None:
    broker.create_topic("made", 2, configs={"retention.ms": -1})
    broker.produce("made", *"abc", partition=0)
    broker.produce("given", *"xy")
    assert sorted(consumed(broker, "given", 2), key=str) == [b"x", b"y"]


def test_a_reset_leaves_what_a_start_leaves() -> None:
    with Broker(topics=["given:3:retention.ms=60000"]) as broker:
        before = broker.topics()
        fill(broker)
        broker.clock.advance(3600)
        broker.reset()
        after = broker.topics()
        assert list(after) == ["given"]
        assert after["given"].topic_id != before["given"].topic_id
        assert (after["given"].partitions, after["given"].configs) == (3, {"retention.ms": "60000"})
        assert broker.records("given") == []
        assert broker.groups() == []
        broker.produce("given", "new", partition=0)
        assert abs(broker.records("given")[0].timestamp / 1000 - time.time()) < 1800
        assert consumed(broker, "given", 1) == [b"new"]


def test_topics_that_are_kept_go_on_where_they_were() -> None:
    with Broker(topics=["given"], timeout=PATIENCE_S) as broker:
        fill(broker)
        before = broker.topics()
        broker.reset(keep_topics=True)
        after = broker.topics()
        assert {name: each for name, each in after.items() if not each.is_internal} == {
            name: each for name, each in before.items() if not each.is_internal
        }
        assert broker.records("made") == broker.records("given") == []
        assert broker.groups() == []
        assert [position.offset for position in broker.produce("given", "z")] == [2]
        assert consumed(broker, "given", 1) == [b"z"]


def test_clients_go_on_after_a_reset() -> None:
    with Broker(topics=["given"], timeout=PATIENCE_S) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        for number in range(3):
            producer.produce("given", b"%d" % number)
            assert producer.flush(PATIENCE_S) == 0
            assert [each.value for each in broker.wait_for("given")] == [b"%d" % number]
            broker.reset(keep_topics=number == 1)


def test_a_member_of_a_group_that_is_forgotten_joins_again() -> None:
    with Broker(topics=["given"], timeout=PATIENCE_S) as broker:
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 100,  # Its heartbeat tells it that it was removed.
            }
        )
        consumer.subscribe(["given"])
        ending = threading.Event()

        def poll() -> None:
            while not ending.is_set():
                consumer.poll(0.05)

        thread = threading.Thread(target=poll)
        thread.start()
        broker.group("g").wait_until_stable(members=1)
        broker.reset()
        broker.clock.advance(10)  # The member's next heartbeat would otherwise take a while.
        broker.group("g").wait_until_stable(members=1)
        ending.set()
        thread.join()
        consumer.close()


def test_a_snapshot_brings_everything_back(tmp_path: Path) -> None:
    with Broker(topics=["given"], timeout=PATIENCE_S) as broker:
        fill(broker)
        transactional = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
        transactional.init_transactions(PATIENCE_S)
        transactional.begin_transaction()
        transactional.produce("made", b"pending", partition=1)
        transactional.flush(PATIENCE_S)
        topics, records = broker.topics(), broker.records("made", isolation="read_uncommitted")
        with broker.snapshot() as snapshot:
            broker.delete_topic("made")
            broker.produce("given", "later")
            broker.group("g").committed()
            for _ in range(2):
                broker.restore(snapshot)
                assert broker.topics() == topics
                assert broker.records("made", isolation="read_uncommitted") == records
                assert [record.text() for record in broker.records("given")] == ["x", "y"]
                assert broker.group("g").committed() == {("given", 0): 2}
                broker.produce("given", "other")
                assert consumed(broker, "given", 1) == [b"other"]
            directory = snapshot.directory
        assert not os.path.exists(directory)
        transactional.commit_transaction(PATIENCE_S)
        assert [record.text() for record in broker.records("made", partition=1)] == ["pending"]


def test_a_snapshot_is_a_data_directory(tmp_path: Path) -> None:
    directory = str(tmp_path / "snapshot")
    with Broker(topics=["given"], timeout=PATIENCE_S) as broker:
        fill(broker)
        broker.snapshot(directory).delete()
        with pytest.raises(OperationError, match=r"snapshot: '.*/snapshot' exists already"):
            broker.snapshot(directory)
    with Broker(data_dir=directory) as again:
        assert [record.text() for record in again.records("given")] == ["x", "y"]
        assert again.group("g").committed() == {("given", 0): 2}
    with Broker() as second:
        second.restore(directory)
        assert [record.text() for record in second.records("made")] == ["a", "b", "c"]
        with pytest.raises(OperationError, match="is not a snapshot: it has no minibroker-topics"):
            second.restore(str(tmp_path))


def test_a_snapshot_takes_no_more_room_than_there_is_in_it(tmp_path: Path) -> None:
    with Broker() as broker:
        broker.produce("t", "x")
        broker.snapshot(str(tmp_path / "snapshot"))
    used = sum(os.stat(path).st_blocks * 512 for path in (tmp_path / "snapshot").rglob("*"))
    assert used < 1 << 20


def test_the_directory_of_deleted_topics_is_emptied() -> None:
    with Broker(topics=[f"t{number}" for number in range(50)]) as broker:
        for _ in range(3):
            for number in range(50):
                broker.produce(f"t{number}", "x")
            broker.reset()
        directory = broker.data_dir
        while any(name.endswith("-delete") for name in os.listdir(directory)):
            threading.Event().wait(0.01)
        assert [name for name in os.listdir(directory) if name.startswith("t")] == []
        broker.produce("t7", "x")
        assert [name for name in os.listdir(directory) if name.startswith("t")] == ["t7-0"]


def test_groups_are_known_right_after_a_restore_however_much_they_have_committed() -> None:
    with Broker(topics=["given:100"]) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        for offset in range(60):
            offsets = [TopicPartition("given", index, offset, "m" * 1000) for index in range(100)]
            consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()
        group = broker.group("g")
        before = group.committed()
        with broker.snapshot() as snapshot:
            broker.restore(snapshot)
            assert group.committed() == before
            broker.restore(snapshot)
            assert group.describe().state == "Empty"
            broker.restore(snapshot)
            assert len(group.lag()) == 100
