"""A broker without free descriptors refuses requests that need one, leaks none, and recovers once some are free."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker_protocol.messages.cluster import DescribeClusterRequest
from minibroker_protocol.messages.groups import FindCoordinatorRequest, ListGroupsRequest
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from minibroker_protocol.messages.transactions import InitProducerIdRequest
from minibroker_protocol.records.header import CompressionCodec
from tests.broker.harness import batch, bytes_in, fetch_request, only_partition, produce_request
from tests.broker.server.few_descriptors import PING, LimitedBroker, limited_broker
from tests.broker.socket_client import SocketClient
from tests.sweeps import one_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc and prlimit are Linux's")

PARTITIONS: Final = 1000
LIMIT: Final = 192
SIZE: Final = 2000
FIRST_OF_THEIR_KIND: Final = [
    (FindCoordinatorRequest(key="g", key_type=0), 3),
    (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4),
    (ListGroupsRequest(), 4),
    (DescribeClusterRequest(include_cluster_authorized_operations=False), 0),
    (
        CreateTopicsRequest(
            topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)], timeout_ms=1000
        ),
        7,
    ),
    (produce_request(batch(b"x" * 100, codec=CompressionCodec.ZSTD), "t", 1), 9),
    (produce_request(batch(b"x" * 100, codec=CompressionCodec.SNAPPY), "t", 2), 9),
    (fetch_request(("t", 0, 0), max_wait_ms=0), 12),
]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LimitedBroker]:
    with limited_broker(tmp_path, LIMIT, "--topic", f"t:{PARTITIONS}") as broker:
        yield broker
    assert "Traceback" not in broker.stderr.read_text()


def produced(client: SocketClient) -> Counter[int]:
    """Produce to all partitions, and return the number of times that each error code occurred."""
    codes = Counter[int]()
    data = [PartitionProduceData(index=index, records=batch(b"x" * SIZE)) for index in range(PARTITIONS)]
    for first in range(0, PARTITIONS, 100):
        topic = TopicProduceData(name="t", partition_data=data[first : first + 100])
        request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=1000, topic_data=[topic])
        answered = client.ask(request, 9).responses[0].partition_responses
        codes.update(index.error_code for index in answered)
    return codes


@pytest.mark.torture
@pytest.mark.slow
def test_bursts_of_clients_leave_no_descriptor_behind(served: LimitedBroker) -> None:
    with SocketClient(served.address) as client:
        assert produced(client) == {0: PARTITIONS}
        sockets = served.sockets()
        for burst in range(3):
            # These exceed the connections that fit: the others wait until earlier ones have closed.
            with ExitStack() as connections:
                clients = [connections.enter_context(SocketClient(served.address)) for _ in range(LIMIT)]
                for number, each in enumerate(clients):
                    partition = (burst * LIMIT + number) % PARTITIONS
                    each.send(fetch_request(("t", partition, 0), max_wait_ms=0), 12)
                for each in clients:
                    _, response = each.receive()
                    data = only_partition(response)
                    assert (data.error_code, len(bytes_in(data)) > SIZE) == (0, True)
                    each.socket.close()
        served.until(lambda: served.sockets() <= sockets + 1)  # One belongs to the client of `until`.
        assert produced(client) == {0: PARTITIONS}
        deleted = client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 3)
        assert deleted.responses[0].error_code == 0
        served.until(lambda: not any("/t-" in each for each in served.descriptors()))


def test_connections_and_files_leave_descriptors_for_a_moment(served: LimitedBroker) -> None:
    with ExitStack() as connections:
        clients = [connections.enter_context(SocketClient(served.address)) for _ in range(LIMIT)]
        assert produced(clients[0]) == {0: PARTITIONS}
        for number, each in enumerate(clients[: LIMIT // 2]):
            assert only_partition(each.ask(fetch_request(("t", number, 0), max_wait_ms=0), 12)).error_code == 0
        for request, version in FIRST_OF_THEIR_KIND:  # The modules of these APIs load now.
            assert clients[0].ask(request, version)
        assert len(served.descriptors()) < LIMIT - 8


@pytest.mark.slow
@pytest.mark.parametrize(("request_", "version"), one_in(3, FIRST_OF_THEIR_KIND))
def test_the_first_request_of_an_api_fails_without_descriptors_and_the_next_one_works(
    tmp_path: Path, request_: Any, version: int
) -> None:
    with limited_broker(tmp_path, LIMIT, "--topic", "t:3") as served:
        with SocketClient(served.address) as client, SocketClient(served.address) as other:
            other.ask(PING, 12)
            served.limit(3)
            client.send(request_, version)
            with suppress(ConnectionError):  # A response with a retriable error is possible too.
                client.receive()
            assert other.ask(PING, 12).brokers
            served.limit(LIMIT)
            answer = other.ask(request_, version)
        for topic in getattr(answer, "responses", ()):
            for partition in getattr(topic, "partition_responses", None) or topic.partitions:
                assert partition.error_code == 0
        assert getattr(answer, "error_code", 0) == 0
    assert "Traceback" not in served.stderr.read_text()
