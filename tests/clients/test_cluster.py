"""Real clients on three brokers whose leaders move, and one of which goes and comes back."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from minibroker import Broker
from tests.clients.java_programs import VERSIONS
from tests.clients.staying import STAYING
from tests.clients.test_java import GOLDEN, PROGRAMS, answers
from tests.clients.transactional import TransactionalProducer
from tests.patience import PATIENCE_S
from tests.sweeps import one_in

PARTITIONS: Final = 3
ROUNDS: Final = 4
PER_ROUND: Final = 12
EVERYTHING: Final = [b"%d" % number for number in range(ROUNDS * PER_ROUND)]


@pytest.fixture
def cluster() -> Iterator[Broker]:
    config = {"default.replication.factor": 3, "min.insync.replicas": 2}
    with Broker(brokers=3, topics=[f"t:{PARTITIONS}"], config=config) as broker:
        yield broker


def leader(broker: Broker, topic: str, index: int) -> int:
    known = broker.services.core.topics.get(topic)
    assert known is not None
    node = known.partitions[index].leader
    assert node is not None
    return node.id


async def _disturb(broker: Broker, number: int) -> None:
    """Moves of all leaders to the next node, a node that goes, its return: in turn."""
    cluster = broker.services.core.cluster
    if number % 3 == 0:
        for topic in broker.services.core.topics:
            for partition in topic.partitions:
                assert partition.leader is not None
                cluster.move_leader(topic.name, partition.index, partition.leader.id % 3 + 1)
    elif number % 3 == 1:
        cluster.stop_node(number % 2 + 1)
    else:
        for node_id in cluster.nodes:
            cluster.start_node(node_id)
    await cluster.wait_until_settled()


def disturb(broker: Broker, number: int) -> None:
    broker.wait(_disturb(broker, number))


def rounds() -> Iterator[list[bytes]]:
    for number in range(ROUNDS):
        yield EVERYTHING[number * PER_ROUND : (number + 1) * PER_ROUND]


@pytest.mark.usefixtures("refused_connections_are_closed")
@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", "aiokafka"])
def test_each_record_arrives_once_whoever_leads(cluster: Broker, client: str) -> None:
    with closing(STAYING[client](cluster.bootstrap_servers, "name")) as clients:
        for number, each in enumerate(rounds()):
            values = [value.decode() for value in each]
            for value in values:
                clients.send("idempotent", "t", value)
            assert clients.read("classic", "t", values[-1]) == values
            disturb(cluster, number)
    assert [record.value for record in cluster.records("t")] == EVERYTHING


def test_transactions_go_on_whoever_leads_and_coordinates(cluster: Broker) -> None:
    with closing(TransactionalProducer(cluster.bootstrap_servers, "mine")) as producer:
        for number, values in enumerate(rounds()):
            producer.begin()
            for place, value in enumerate(values):
                if place == PER_ROUND // 2:
                    disturb(cluster, number)
                producer.send("t", value, int(value) % PARTITIONS)
            if number == 1:
                producer.abort()
            else:
                producer.commit()
    expected = EVERYTHING[:PER_ROUND] + EVERYTHING[2 * PER_ROUND :]
    found = [record.value or b"" for record in cluster.records("t", isolation="read_committed")]
    assert sorted(found, key=int) == expected


@pytest.mark.parametrize("program", one_in(2, [each for each in PROGRAMS if each != "Consoles"]))
def test_a_java_client_of_three_brokers_is_answered_as_by_one(program: str) -> None:
    """But for where the groups are coordinated: the client finds that out, and asks there.

    What a console asks for is what tells three brokers from one.
    """
    config: dict[str, str | int] = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
        "default.replication.factor": 3,
        "minibroker.emulate": "3.9",  # of which the answers were noted
    }
    with Broker(brokers=3, config=config) as broker:
        answered = answers(broker.bootstrap_servers, program, VERSIONS[0])
    noted = (GOLDEN / f"{program}.jsonl").read_text()
    assert [_wherever(line) for line in answered.splitlines()] == [_wherever(line) for line in noted.splitlines()]


def _wherever(line: str) -> Any:
    """One answer of a Java program, without a word on who has given it."""
    step = json.loads(line)
    if isinstance(step.get("answer"), dict):
        step["answer"].pop("is coordinated where we ask", None)
    return step


def test_what_nobody_leads_is_served_when_its_node_is_back() -> None:
    with Broker(brokers=3, topics=["t:3"]) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 20})
        gone = leader(broker, "t", 1)

        async def stop() -> None:
            broker.services.core.cluster.stop_node(gone)
            await broker.services.core.cluster.wait_until_settled()

        async def start() -> None:
            broker.services.core.cluster.start_node(gone)
            await broker.services.core.cluster.wait_until_settled()

        producer.produce("t", b"before", partition=1)
        assert producer.flush(PATIENCE_S) == 0
        broker.wait(stop())
        producer.produce("t", b"meanwhile", partition=1)
        producer.poll(0)
        broker.wait(start())
        assert producer.flush(PATIENCE_S) == 0
        known = broker.services.core.topics.get("t")
        assert known is not None
        assert known.partitions[1].log.log_end_offset == 2
