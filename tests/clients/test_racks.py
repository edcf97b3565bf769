"""Real clients in racks: they read from the replica in their rack (KIP-392) and share partitions by rack (KIP-881)."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from minibroker import Broker
from tests.clients.contract import TIMEOUT
from tests.clients.group_members import MEMBER_PROGRAMS, Member, MemberOptions, Strategy
from tests.clients.line_process import wait_until
from tests.clients.matrix.clients import DRIVERS
from tests.clients.matrix.runs import Run, prepare

BROKERS: Final = {"a": 1, "b": 2, "c": 3}
"""The broker in each rack."""
REPLICAS: Final = {"led": [[1, 3], [2, 3]] * 3, "followed": [[3, 1], [3, 2]] * 3}
"""The replicas of each topic's partitions, the leader first: half of them in the rack a, and the others in b."""
PARTITIONS: Final = {(topic, partition) for topic in REPLICAS for partition in range(6)}
CONFIG: Final[dict[str, str | int]] = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "default.replication.factor": 3,
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}

BY_LEADER: Final = ("led",)
"""The topics whose partitions franz-go's assignors match with racks: only by the racks of leaders."""
BY_REPLICA: Final = ("led", "followed")
"""The same for the assignors of Kafka's own client and of librdkafka."""
CASES: Final[dict[tuple[Strategy, str], Sequence[str]]] = {
    ("eager", "java-4.4.0"): BY_REPLICA,
    ("consumer", "java-4.4.0"): (),
    ("eager", "franz-go"): BY_LEADER,
    ("cooperative", "java-4.4.0"): BY_REPLICA,
    ("eager", "java-3.9.1"): BY_REPLICA,
    ("cooperative", "franz-go"): BY_LEADER,
    ("eager", "librdkafka"): BY_REPLICA,
    ("cooperative", "librdkafka"): BY_REPLICA,
    ("consumer", "librdkafka"): (),
    ("eager", "kafkajs"): (),
    ("eager", "aiokafka"): (),
    ("eager", "kafka-python"): (),
}
"""For each client and protocol the topics that are assigned by rack."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(racks=list(BROKERS), config=CONFIG, journal=True) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        topics = [NewTopic(topic, 6, replica_assignment=replicas) for topic, replicas in REPLICAS.items()]
        for created in admin.create_topics(topics).values():
            created.result(TIMEOUT)
        yield running


def fetched(broker: Broker, client_id: str, rack: str) -> list[tuple[int | None, Any]]:
    """The broker and the response of each partition that a client in this rack has fetched."""
    return [
        (entry.node, partition)
        for entry in broker.requests
        if entry.api == "Fetch" and entry.client_id == client_id and entry.request.rack_id == rack and entry.response
        for topic in entry.response.responses
        for partition in topic.partitions
    ]


@pytest.mark.parametrize(
    ("strategy", "name", "by_rack"),
    [
        pytest.param(*case, topics, id="-".join(case), marks=pytest.mark.torture if number else ())
        for number, (case, topics) in enumerate(CASES.items())
    ],
)
def test_members_of_a_group_are_assigned_and_read_what_is_in_their_racks(
    broker: Broker, strategy: Strategy, name: str, by_rack: Sequence[str]
) -> None:
    changed = threading.Condition()
    members: dict[str, Member] = {}

    def holdings() -> list[set[tuple[str, int]]]:
        return [member.holding for member in members.values()]

    def has_read(value: str) -> bool:
        read = [
            {record[:2] for record in member.records if record.value == value} & member.holding
            for member in members.values()
        ]
        return read == holdings() and set[Any]().union(*read) == PARTITIONS and len(read[0]) == len(read[1])

    try:
        for rack in ("a", "b"):
            options = MemberOptions(
                broker.bootstrap_servers.partition(",")[0],
                f"{strategy}-{name}",
                list(REPLICAS),
                strategy,
                client_id=f"{strategy}-{name}-{rack}",
                rack=rack,
            )
            members[rack] = Member(MEMBER_PROGRAMS[name], options, changed)
        everyone = list(members.values())
        wait_until(changed, lambda: set[Any]().union(*holdings()) == PARTITIONS, "all to be assigned", everyone)
        value = f"{strategy}-{name}"
        for topic, partition in PARTITIONS:
            broker.produce(topic, value, partition=partition)
        wait_until(changed, lambda: has_read(value), "two members to read all", everyone)
        for number, (rack, member) in enumerate(members.items()):
            near = {(topic, partition) for topic, partition in PARTITIONS if partition % 2 == number}
            for topic in by_rack:
                assert {held for held in member.holding if held[0] == topic} == {
                    held for held in near if held[0] == topic
                }
            served = [
                (node, partition) for node, partition in fetched(broker, member.name, rack) if partition.records.size
            ]
            assert served
            for node, partition in served:
                assert (node == BROKERS[rack]) == (partition.partition_index % 2 == number), (rack, node, partition)
    finally:
        for member in members.values():
            member.close()


def test_sarama_go_reads_from_the_replica_in_its_rack(broker: Broker) -> None:
    prepared = prepare(DRIVERS["sarama"])
    assert not isinstance(prepared, BaseException), prepared
    bootstrap = broker.bootstrap_servers.partition(",")[0]
    for rack, node in BROKERS.items():
        start = prepared._replace(variables={**prepared.variables, "RACK": rack})
        assert Run(start, bootstrap, ["auto-create"]).results() == {"auto-create": ""}
        assert {at for at, partition in fetched(broker, "sarama", rack) if partition.records.size} == {node}
    sent_on = [fetched(broker, "sarama", rack)[0][1].preferred_read_replica for rack in BROKERS]
    assert set(sent_on) & set(BROKERS.values()), "the leaders of all topics were in the racks of their readers"
