"""Transactions go on where the other broker was stopped, or killed: from Kafka 3.9.1 to this one, and back."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from minibroker_protocol.messages.describe_transactions import DescribeTransactionsRequest
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from minibroker_protocol.records.batch import iter_batches
from tests.broker.coordinators.transactions.producer import READ_COMMITTED, Producer, committed_values
from tests.broker.harness import bytes_in, fetch_request, only_partition
from tests.broker.socket_client import SocketClient, address_of
from tests.clients.broker_process import BrokerProcess
from tests.kafka.coordinators import until, wait_for_coordinators
from tests.kafka.exchange import errors_of, hand_over
from tests.kafka.real_kafka import RealKafka

TOPIC: Final = "pages"
TIMEOUT_MS: Final = 600_000
IDS: Final = ("empty", "opened", "committed", "aborted", "fenced")


class Seen(NamedTuple):
    """A broker's answers: each transactional id, the offset before the first open one, committed values."""

    transactions: list[Any]
    stable: int
    values: list[bytes | None]


@contextmanager
def connected(broker: RealKafka | BrokerProcess) -> Generator[SocketClient]:
    """A connection to a broker whose coordinators are ready."""
    with SocketClient(address_of(broker.bootstrap)) as client:
        wait_for_coordinators(client)
        yield client


def stable_offset(client: SocketClient) -> int:
    """Where a reader of committed data ends, once the partition is there."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])],
    )
    answers: list[Any] = []

    def is_there() -> bool:
        answers[:] = client.ask(request, 7).topics[0].partitions
        return bool(answers[0].error_code == 0)

    until(is_there)
    return int(answers[0].offset)


def look(client: SocketClient) -> Seen:
    """All that a broker tells."""

    def described() -> list[Any]:
        known = client.ask(DescribeTransactionsRequest(transactional_ids=list(IDS)), 0).transaction_states
        return list(known)

    until(lambda: not any(each.transaction_state.startswith("Prepare") for each in described()))
    stable = stable_offset(client)
    offset, values = 0, list[bytes | None]()
    while offset < stable:  # a fetch ends with a segment, and markers of today begin new ones
        data = only_partition(client.ask(fetch_request((TOPIC, 0, offset), isolation_level=READ_COMMITTED), 12))
        values += committed_values(data)
        offset = max(each.header.last_offset for each in iter_batches(memoryview(bytes_in(data)))) + 1
    return Seen(described(), stable, values)


def _is_added(producer: Producer) -> bool:
    return producer.add((TOPIC, 0)) == [0]  # Kafka may still be writing the markers


def begin(client: SocketClient) -> dict[str, Producer]:
    """Transactional ids in every state."""
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    client.ask(CreateTopicsRequest(topics=[topic]), 7)
    stable_offset(client)
    producers = {name: Producer(client, name, timeout_ms=TIMEOUT_MS) for name in IDS}
    for name in ("opened", "committed", "aborted", "fenced"):
        producers[name].write(name.encode(), topic=TOPIC)
    assert producers["committed"].commit() == 0
    assert producers["aborted"].abort() == 0
    assert Producer(client, "fenced", init=False, timeout_ms=TIMEOUT_MS).init() != 0
    return producers


def go_on(client: SocketClient, producers: dict[str, Producer], value: bytes) -> None:
    """Each producer writes `value` with what it has, and commits; one more transaction is left open."""
    for name, producer in producers.items():
        producer.broker = client
        if name == "fenced":
            continue
        producer.write(value, topic=TOPIC)
        assert producer.commit() == 0
        until(partial(_is_added, producer))
        if name != "opened":
            assert producer.abort() == 0
    producers["opened"].write(value + b" left open", topic=TOPIC)
    assert producers["fenced"].commit() != 0


@pytest.mark.torture
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_transactions_go_from_kafka_to_us_and_back(kafka: RealKafka, ours: BrokerProcess, end: str) -> None:
    kafka.start()
    with connected(kafka) as client:
        producers = begin(client)
    (kafka.kill if end == "killed" else kafka.stop)()
    kafka.start()  # its coordinator gets another epoch
    with connected(kafka) as client:
        stable_offset(client)
        go_on(client, producers, b"with kafka")
        left = look(client)

    hand_over(kafka, ours, end)
    with connected(ours) as client:
        assert look(client) == left
        go_on(client, producers, b"with us")
        left = look(client)

    hand_over(ours, kafka, end)
    with connected(kafka) as client:
        assert look(client) == left
        go_on(client, producers, b"with kafka again")
    assert errors_of(kafka) == []
    assert [value for value in left.values if value is not None and b"open" in value] == [
        b"opened",
        b"with kafka left open",
    ]
    assert left.values.count(b"with us") == len(IDS) - 1
