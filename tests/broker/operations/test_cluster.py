"""Stopping and starting brokers, and moving leaders, from a test."""

import socket
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from minibroker import Broker
from minibroker.cluster.cluster import ClusterError
from minibroker.cluster.errors import OperationError
from tests.patience import PATIENCE_S


def test_leaders_move_and_producers_follow() -> None:
    with Broker(brokers=3, topics=["t:3"]) as broker:
        assert (list(broker.brokers), len(broker.brokers)) == ([1, 2, 3], 3)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for to in (2, 3, 1):
            broker.move_leader("t", 0, to)
            assert broker.leader("t") == to
            producer.produce("t", b"%d" % to, partition=0)
            assert producer.flush(PATIENCE_S) == 0
        assert [record.value for record in broker.records("t")] == [b"2", b"3", b"1"]


def test_racks_say_how_many_brokers_there_are(tmp_path: Path) -> None:
    with Broker(racks=["a", None, "c"]) as broker:
        assert [broker.brokers[node_id].rack for node_id in broker.brokers] == ["a", None, "c"]
    seeds = tmp_path / "seeds.json"
    seeds.write_text('{"topics": ["t:3"], "racks": ["x", "y"]}')
    with Broker(seed_data=seeds) as broker:
        assert [broker.brokers[node_id].rack for node_id in broker.brokers] == ["x", "y"]
    with Broker(seed_data=seeds, racks=["z"]) as broker:
        assert [broker.brokers[node_id].rack for node_id in broker.brokers] == ["z"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"racks": "a,b"}, TypeError, "racks: 'a,b' is a string; give a list, such as"),
        ({"racks": [1]}, TypeError, "racks: 1 is not the name of a rack, or None"),
        ({"rack": "a"}, TypeError, r"no argument 'rack'; write Broker\(racks="),
        ({"racks": ["a"], "brokers": 2}, ValueError, r"racks: 1 rack \('a'\) for 2 brokers; give one for each"),
    ],
)
def test_racks_that_cannot_be_are_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Broker(**options)


def test_consumers_read_from_the_replica_in_their_rack() -> None:
    config: dict[str, str | int] = {
        "default.replication.factor": 3,
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    with Broker(racks=["a", "b", "c"], config=config, topics=["t"], journal=True) as broker:
        broker.produce("t", "x")
        leader = broker.leader("t")
        for rack, node_id in (("a", 1), ("b", 2), ("c", 3)):
            consumer = Consumer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "group.id": rack,
                    "client.id": rack,
                    "client.rack": rack,
                    "auto.offset.reset": "earliest",
                }
            )
            consumer.assign([TopicPartition("t", 0, 0)])
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.value() == b"x"
            consumer.close()
            fetches = [request for request in broker.requests if request.api == "Fetch" and request.client_id == rack]
            assert {request.node for request in fetches} == {leader, node_id}


def test_a_broker_is_taken_down_and_up_again() -> None:
    with Broker(brokers=2, config={"default.replication.factor": 2}) as broker:
        broker.create_topic("t", 2)
        led = broker.leader("t", 1)
        assert led is not None
        node = broker.brokers[led]
        assert node.node_id == led
        node.stop()
        node.stop()
        assert not broker.brokers[led].is_up
        assert broker.leader("t", 1) not in {led, None}
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("t", b"x", partition=1)
        assert producer.flush(PATIENCE_S) == 0
        node.start()
        assert broker.brokers[led].is_up
        broker.brokers[led].stop()
        broker.reset()
        assert all(broker.brokers[node_id].is_up for node_id in broker.brokers)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
    except ConnectionError:
        return False
    return True


def test_a_broker_is_down_or_up_once_that_is_said() -> None:
    with Broker(brokers=2) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        for _ in range(20):
            broker.brokers[2].stop()
            assert not accepts(port)
            broker.brokers[2].start()
            assert accepts(port)
            broker.brokers[2].stop()
            broker.reset()
            assert accepts(port)


@pytest.mark.parametrize("begins_anew", ["reset", "restore"])
def test_a_producer_finds_new_leaders_after_others_have_been_forgotten(begins_anew: str) -> None:
    with Broker(brokers=3, topics=["t:3"]) as broker, broker.snapshot() as snapshot:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for to in (1, 2, 3, 1):
            for partition in range(3):
                broker.move_leader("t", partition, to)
                producer.produce("t", b"x", partition=partition)
            assert producer.flush(PATIENCE_S) == 0
        if begins_anew == "reset":
            broker.reset()
        else:
            broker.restore(snapshot)
        for partition in range(3):
            producer.produce("t", b"y", partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        assert [record.value for record in broker.records("t")] == [b"y"] * 3


def test_what_there_is_not_is_named() -> None:
    with Broker(topics=["t"]) as broker:
        with pytest.raises(KeyError, match="there is no broker 7; ids of brokers: 1"):
            broker.brokers[7]
        with pytest.raises(ClusterError, match="there is no broker 7"):
            broker.move_leader("t", 0, 7)
        with pytest.raises(OperationError, match="topic 't' has no partition 1"):
            broker.leader("t", 1)


@pytest.mark.parametrize(("brokers", "replicas", "made"), [(1, 5, 1), (2, 2, 2), (3, 2, 2), (2, 3, None)])
def test_a_client_and_create_topic_get_the_same_number_of_replicas(
    brokers: int, replicas: int, made: int | None
) -> None:
    with Broker(brokers=brokers) as broker:
        client: Any = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        futures = client.create_topics([NewTopic("asked", 1, replicas)])["asked"]
        if made is None:
            with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
                futures.result(PATIENCE_S)
            with pytest.raises(OperationError, match=r"only 2 broker\(s\) are registered"):
                broker.create_topic("given", replication_factor=replicas)
            return
        futures.result(PATIENCE_S)
        broker.create_topic("given", replication_factor=replicas)
        topics = client.list_topics(timeout=PATIENCE_S).topics
        assert [len(topics[name].partitions[0].replicas) for name in ("asked", "given")] == [made, made]
