"""What the table of chaos says was provoked on Kafka is provoked here."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from minibroker_chaos.rows import ROWS
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from minibroker_protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.broker.coordinators.groups.offset_requests import commit_request
from tests.broker.harness import batch, fetch_request, only_partition, produce_request, values_in
from tests.broker.socket_client import Address, SocketClient
from tests.kafka.cluster_requests import creation, metadata, placed
from tests.kafka.group_world import World
from tests.kafka.real_cluster import RealCluster
from tests.patience import PATIENCE_S, eventually

_PRODUCE: Final = 9
_FETCH: Final = 11
_COMMIT: Final = 7


def _topic(address: Address) -> str:
    """Create a topic of one partition, and return its name."""
    name = f"row-{os.urandom(4).hex()}"
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    with SocketClient(address) as client:
        (created,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5).topics
    assert created.error_code == 0
    return name


def _produce(client: SocketClient, topic: str, records: bytearray, acks: int = -1) -> Any:
    while True:
        (answered,) = client.ask(produce_request(records, topic, acks=acks), _PRODUCE).responses
        (partition,) = answered.partition_responses
        if partition.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # The broker has not heard of the topic yet.
            return partition


def _close_before_the_answer(address: Address, request: Any, version: int) -> None:
    """Send a request, and close the connection without reading."""
    with SocketClient(address) as client:
        client.send(request, version)


def duplicate_recognized(address: Address) -> None:
    """Also after the answer to the first attempt was lost."""
    topic = _topic(address)
    first, second = (
        batch(value, producer_id=10**9, producer_epoch=0, base_sequence=sequence)
        for sequence, value in enumerate((b"a", b"b"))
    )
    with SocketClient(address) as client:
        assert _produce(client, topic, first).base_offset == 0
        _close_before_the_answer(address, produce_request(second, topic), _PRODUCE)
        for _ in range(2):
            assert _produce(client, topic, second).base_offset == 1
        data = only_partition(client.ask(fetch_request((topic, 0, 0)), _FETCH))
        assert values_in(data.records) == [(0, b"a"), (1, b"b")]


def unanswered_append_failed(address: Address) -> None:
    with SocketClient(address) as client:
        client.send(produce_request(batch(b"a"), _topic(address), 9, acks=0), _PRODUCE)
        assert client.is_closed()


def first_batch_early(address: Address) -> None:
    topic = _topic(address)
    with SocketClient(address) as client:
        _produce(client, topic, batch(b"a", b"b"))
        data = only_partition(client.ask(fetch_request((topic, 0, 1)), _FETCH))
        assert values_in(data.records) == [(0, b"a"), (1, b"b")]


def fetch_session_gone(address: Address) -> None:
    with SocketClient(address) as client:
        answer = client.ask(fetch_request((_topic(address), 0, 0), session_id=7, session_epoch=1), _FETCH)
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def leader_epoch_unknown(address: Address) -> None:
    topic = _topic(address)
    with SocketClient(address) as client:
        _produce(client, topic, batch(b"a"))
        data = only_partition(client.ask(fetch_request((topic, 0, 0), current_leader_epoch=9), _FETCH))
        assert data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def offset_gaps(address: Address) -> None:
    topic = _topic(address)
    servers = f"{address[0]}:{address[1]}"
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    offsets: list[int | None] = []
    for _ in range(2):
        producer.begin_transaction()
        producer.produce(topic, b"a", on_delivery=lambda _, message: offsets.append(message.offset()))
        producer.commit_transaction(PATIENCE_S)
    assert offsets == [0, 2]


def _committed(client: SocketClient, topic: str) -> int:
    request = OffsetFetchRequest(
        group_id=f"group-{topic}", topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    )
    return int(client.ask(request, 5).topics[0].partitions[0].committed_offset)


def commit_of_unowned_partition(address: Address) -> None:
    topic = _topic(address)
    with SocketClient(address) as client:
        client.ask(commit_request({(topic, 0): 5}, f"group-{topic}"), _COMMIT)
        assert _committed(client, topic) == 5


def commit_answer_lost(address: Address) -> None:
    topic = _topic(address)
    _close_before_the_answer(address, commit_request({(topic, 0): 6}, f"group-{topic}"), _COMMIT)
    with SocketClient(address) as client:
        while _committed(client, topic) < 0:
            pass
        assert _committed(client, topic) == 6


def _joined(world: World) -> str:
    """Return the id of the only member of a group, in generation 1."""
    member_id = world.new_id("a")
    world.join("a", member_id)
    world.sync("a", member_id, 1)
    return member_id


def rebalance(address: Address) -> None:
    world = World(address, _topic(address))
    member_id = _joined(world)
    assert world.heartbeat("a", member_id, 1) == 0
    world.begin_join("b", world.new_id("b"))
    while (error := world.heartbeat("a", member_id, 1)) == 0:
        pass
    assert error == ErrorCode.REBALANCE_IN_PROGRESS
    world.close()


def commit_while_rebalancing(address: Address) -> None:
    topic = _topic(address)
    world = World(address, f"group-{topic}")
    member_id = _joined(world)
    world.begin_join("b", world.new_id("b"))
    while world.heartbeat("a", member_id, 1) == 0:
        pass
    fields: dict[str, Any] = {"member_id": member_id, "generation_id_or_member_epoch": 1}
    with SocketClient(address) as client:
        client.ask(commit_request({(topic, 0): 7}, world.group_id, **fields), _COMMIT)
        assert _committed(client, topic) == 7
    world.close()


def member_removed(address: Address) -> None:
    world = World(address, _topic(address))
    member_id = _joined(world)
    world.leave("operator", (member_id, None))
    assert world.heartbeat("a", member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    world.close()


PROVOKED: Final[dict[str, Callable[[Address], None]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        duplicate_recognized,
        unanswered_append_failed,
        first_batch_early,
        fetch_session_gone,
        leader_epoch_unknown,
        offset_gaps,
        commit_of_unowned_partition,
        commit_answer_lost,
        rebalance,
        commit_while_rebalancing,
        member_removed,
    )
}


IN_A_CLUSTER: Final = frozenset(
    {"leader-moved", "broker-bounced", "no-leader", "too-few-replicas", "replicas-out-of-sync"}
)


@pytest.fixture
def cluster(kafka_libs: Path, tmp_path: Path) -> Iterator[RealCluster]:
    with closing(RealCluster(tmp_path, kafka_libs)) as running:
        running.start()
        yield running


@pytest.mark.torture
def test_three_brokers_of_kafka_do_so(cluster: RealCluster) -> None:
    """Shows the rows of `IN_A_CLUSTER`."""
    with SocketClient(cluster.address(1)) as client:
        topics = [placed("both", (2, 1), min_insync_replicas="2"), placed("alone", (2,))]
        assert not any(topic.error_code for topic in client.ask(creation(*topics), 5).topics)

        def describe(name: str) -> Any:
            """Return the brokers, and the only partition of a topic."""
            response = client.ask(metadata(name), 12)
            (topic,) = response.topics
            return {broker.node_id for broker in response.brokers}, topic.partitions and topic.partitions[0]

        eventually(lambda: all(describe(name)[1] for name in ("both", "alone")))
        before = describe("both")[1]
        with SocketClient(cluster.address(2)) as first:
            # On a slow machine Kafka gives up to wait for the follower, and keeps the record.
            assert _produce(first, "both", batch(b"a")).error_code in {0, ErrorCode.REQUEST_TIMED_OUT}
            eventually(lambda: bool(only_partition(first.ask(fetch_request(("both", 0, 0)), _FETCH)).records))
        cluster.stop_node(2)
        eventually(lambda: describe("both")[1].leader_id == 1)
        brokers, after = describe("both")
        assert (before.leader_id, brokers, after.leader_epoch > before.leader_epoch) == (2, {1, 3}, True)
        assert describe("alone")[1].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert _produce(client, "both", batch(b"refused")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert _produce(client, "both", batch(b"hidden"), acks=1).error_code == 0
        assert values_in(only_partition(client.ask(fetch_request(("both", 0, 1)), _FETCH)).records) == []
        cluster.start_node(2)
        eventually(lambda: describe("both")[0] == {1, 2, 3} and sorted(describe("both")[1].isr_nodes) == [1, 2])
        eventually(lambda: bool(only_partition(client.ask(fetch_request(("both", 0, 1)), _FETCH)).records))
        data = only_partition(client.ask(fetch_request(("both", 0, 0)), _FETCH))
        assert values_in(data.records) == [(0, b"a"), (1, b"hidden")]


@pytest.mark.torture
@pytest.mark.parametrize("name", PROVOKED)
def test_kafka_does_so(name: str, kafka_address: Address) -> None:
    PROVOKED[name](kafka_address)


def test_the_table_says_so_of_these_rows_alone() -> None:
    assert {row.name for row in ROWS if row.evidence == "provoked on Kafka"} == PROVOKED.keys() | IN_A_CLUSTER
