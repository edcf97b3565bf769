"""Requests that are well-formed but odd, to this broker and to Kafka: both have to answer the same.

Partitions named twice, deadlines that have passed, limits below zero, unknown levels and ids. The responses are
compared as they are, but for their order where Kafka takes it out of hash maps, and for the broker's own sentences.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, NamedTuple

import pytest

from minibroker import Broker
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.log_offsets import ListOffsetsRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from minibroker_protocol.messages.produce import ProduceRequest
from minibroker_protocol.messages.reassignments import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from minibroker_protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from tests.broker.harness import produce_request
from tests.broker.socket_client import SocketClient, address_of
from tests.kafka import cluster_requests
from tests.kafka.coordinators import with_coordinators
from tests.kafka.real_kafka import KEEPS_RECORDS, RealKafka
from tests.kafka.topics import create_topic

A: Final = "odd-requests-a"
B: Final = "odd-requests-b"
GROUP: Final = "odd-requests"
MAX_BYTES: Final = 1 << 20
TIMEOUT_MS: Final = 30_000


class Pair(NamedTuple):
    """A connection to our broker and one to the Kafka that it emulates."""

    ours: SocketClient
    theirs: SocketClient
    is_newest: bool


def produce(*sets: tuple[str, int, bytes]) -> ProduceRequest:
    """A Produce with one topic for each set of records."""
    requests = [
        produce_request(bytes(build_batch([NewRecord(None, value, 1000)])), name, index) for name, index, value in sets
    ]
    return replace(requests[0], timeout_ms=TIMEOUT_MS, topic_data=[each.topic_data[0] for each in requests])


def fetch(*partitions: tuple[str, int, int], size: int = MAX_BYTES, last_epoch: int = -1, **more: Any) -> FetchRequest:
    """A Fetch with one topic for each partition and offset."""
    topics = [
        FetchTopic(
            topic=name,
            partitions=[
                FetchPartition(
                    partition=index, fetch_offset=offset, partition_max_bytes=size, last_fetched_epoch=last_epoch
                )
            ],
        )
        for name, index, offset in partitions
    ]
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 0, "max_bytes": MAX_BYTES, "topics": topics, **more})


def offsets(*partitions: tuple[str, int], **more: Any) -> ListOffsetsRequest:
    request: ListOffsetsRequest = cluster_requests.together(*(cluster_requests.offsets(*each) for each in partitions))
    return replace(request, **more)


def commit(*partitions: tuple[str, list[tuple[int, int]]]) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
                for index, offset in offsets
            ],
        )
        for name, offsets in partitions
    ]
    return OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1, topics=topics)


def fetched(*topics: tuple[str, list[int]]) -> OffsetFetchRequest:
    requested = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics]
    return OffsetFetchRequest(group_id=GROUP, topics=requested)


def creation(*names: str, timeout_ms: int = TIMEOUT_MS) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)


def growth(*names: str, timeout_ms: int = TIMEOUT_MS) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=9) for name in names], timeout_ms=timeout_ms
    )


def deletion(*topics: str | bytes, timeout_ms: int = TIMEOUT_MS) -> DeleteTopicsRequest:
    states = [
        DeleteTopicState(name=topic) if isinstance(topic, str) else DeleteTopicState(name=None, topic_id=topic)
        for topic in topics
    ]
    return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)


def election(timeout_ms: int) -> ElectLeadersRequest:
    return replace(cluster_requests.election(cluster_requests.PREFERRED, A, 0, 9), timeout_ms=timeout_ms)


def reassignment(timeout_ms: int) -> AlterPartitionReassignmentsRequest:
    return replace(cluster_requests.reassignment(A, [1]), timeout_ms=timeout_ms)


CASES: Final[dict[str, list[tuple[Any, int]]]] = {
    "produce-twice": [
        (produce((A, 0, b"first"), (A, 0, b"second")), 8),
        (produce((A, 0, b"third"), (B, 0, b"other"), (A, 0, b"fourth"), (A, 1, b"fifth")), 9),
        (produce(("nowhere", 0, b"lost"), ("nowhere", 0, b"lost")), 9),
        (fetch((A, 0, 0), (A, 1, 0), (B, 0, 0)), 4),
    ],
    "fetch-order": [
        (fetch((A, 0, 0), (B, 0, 0), (A, 1, 0), max_bytes=size), version)
        for size in (-1, 0, 1, 100, 1000)
        for version in (4, 11, 12)
    ],
    "fetch-errors": [
        (fetch((A, 9, 0), (A, 0, 0), ("nowhere", 0, 0), (B, 0, 0)), 11),
        (fetch((A, 0, 0), (A, 0, 1)), 11),
        (fetch((A, 0, 0), (B, 0, 0), size=-1), 11),
        (fetch((A, 0, 0), isolation_level=7), 11),
        (fetch((A, 0, 0), isolation_level=-1), 4),
        (fetch((A, 0, 0), replica_id=99), 11),
        (fetch((A, 0, -1)), 11),
    ],
    "fetch-session": [(fetch((A, 0, 0), (B, 0, 0), (A, 1, 0), session_id=0, session_epoch=0), 11)],
    "fetch-epochs": [
        (fetch((A, 0, offset), last_epoch=epoch), 12) for epoch in (-2, -1, 0, 1, 7) for offset in (-1, 0, 1, 2, 100)
    ],
    "list-offsets": [
        *[(offsets((A, 0), isolation_level=level), 5) for level in (7, -1)],
        *[(offsets((A, 0), replica_id=replica), 5) for replica in (-2, -3, 99)],
    ],
    "commit-twice": [
        (commit((A, [(0, 5), (0, 6)])), 5),
        (fetched((A, [0])), 5),
        (commit((A, [(0, 7)]), (A, [(0, 8)])), 8),
        (fetched((A, [0, 0]), (A, [0])), 5),
        (fetched((A, [0]), (B, [0]), (A, [1])), 7),
        (fetched((A, []), ("nowhere", [])), 5),
        (commit(("nowhere", [(0, 5), (0, 6)])), 5),
    ],
    "deadlines": [
        (request, version)
        for timeout_ms in (0, -1)
        for request, version in (
            (creation("odd-requests-c", "odd-requests-d", "odd-requests-d", timeout_ms=timeout_ms), 5),
            (growth(A, "nowhere", timeout_ms=timeout_ms), 1),
            (deletion(A, "nowhere", b"1" * 16, timeout_ms=timeout_ms), 6),
            (election(timeout_ms), 2),
            (reassignment(timeout_ms), 0),
        )
    ],
    "topics-twice": [
        (creation("odd-requests-c", "odd-requests-c"), 5),
        (creation(A, A), 5),
        (growth(A, A), 1),
        (deletion("nowhere", "nowhere"), 6),
        (deletion(b"1" * 16, b"1" * 16), 6),
        (deletion(A, A, "nowhere", b"1" * 16), 6),
    ],
}
"""Requests, and the versions to send them in, one after another."""


@pytest.fixture(scope="module", params=["newest", pytest.param("3.9", marks=pytest.mark.torture)])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Both brokers with the same topics."""
    is_newest = request.param == "newest"
    kafka: RealKafka = request.getfixturevalue("newest_kafka" if is_newest else "real_kafka")
    config = {} if is_newest else {"minibroker.emulate": "3.9"}
    with Broker(config={"auto.create.topics.enable": "true", **KEEPS_RECORDS, **config}) as broker:
        theirs, ours = with_coordinators(kafka.bootstrap), address_of(broker.bootstrap_servers)
        with SocketClient(ours) as one, SocketClient(theirs) as other:
            for client in (one, other):
                for name in (A, B):
                    create_topic(client, name, 2)
                client.ask(produce((A, 0, bytes(50)), (A, 1, bytes(50)), (B, 0, bytes(50))), 8)
            yield Pair(one, other, is_newest)


def leads(client: SocketClient) -> bool:
    topics = client.ask(offsets((A, 0), (A, 1), (B, 0), (B, 1)), 5).topics
    return all(not partition.error_code for topic in topics for partition in topic.partitions)


def plain(message: Any) -> Any:
    """A response as nested values, without its time, Produce's sentences, and ids that were drawn.

    Error answers of Kafka 3.9 have null instead of no records.
    """
    if is_dataclass(message):
        left_out = {"throttle_time_ms", "session_id"} | (
            {"error_message"} if hasattr(message, "base_offset") else set()
        )
        return {
            field.name: plain(getattr(message, field.name)) for field in fields(message) if field.name not in left_out
        }
    if isinstance(message, list):
        return [plain(each) for each in message]
    return bytes(message) or None if isinstance(message, memoryview | bytes) else message


def in_order(message: Any) -> Any:
    """The same with all lists sorted."""
    if isinstance(message, dict):
        return {name: in_order(value) for name, value in message.items()}
    return sorted((in_order(each) for each in message), key=repr) if isinstance(message, list) else message


@pytest.mark.parametrize("name", CASES)
def test_both_answer_an_odd_request_the_same(pair: Pair, name: str) -> None:
    keep: Callable[[Any], Any] = plain if name.startswith("fetch") else lambda message: in_order(plain(message))
    for number, (request, version) in enumerate(CASES[name]):
        answered, expected = (keep(client.ask(request, version)) for client in pair[:2])
        assert answered == expected, (number, request)


def test_a_topic_may_be_deleted_by_its_name_or_its_id(pair: Pair) -> None:
    """Not by both, of which the name gets the error; nothing is deleted."""
    found: list[Any] = []
    for client in pair[:2]:
        (topic,) = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=A)]), 12).topics
        for request in (deletion(A, topic.topic_id), deletion(topic.topic_id, topic.topic_id)):
            results = client.ask(request, 6).responses
            found.append(
                [(each.name, each.topic_id == topic.topic_id, each.error_code, each.error_message) for each in results]
            )
        assert topic.topic_id != ZERO_UUID
        assert leads(client)
    assert found[:2] == found[2:]
