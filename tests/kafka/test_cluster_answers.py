"""Requests about the cluster, sent as they are to this broker, taken for Kafka 3.9, and to that Kafka: same answers.

Compared up to ids, addresses, times and the order in which Kafka keeps things. Sentences count, too, where Kafka makes
them up for the request.
"""

import dataclasses
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

import pytest

from minibroker import Broker
from minibroker_protocol.messages.cluster import (
    AddRaftVoterRequest,
    DescribeClusterRequest,
    DescribeQuorumRequest,
    PartitionData,
    RemoveRaftVoterRequest,
    TopicData,
    UnregisterBrokerRequest,
    VoterListener,
)
from minibroker_protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from minibroker_protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from minibroker_protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from minibroker_protocol.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from tests.broker.socket_client import SocketClient, address_of
from tests.kafka.real_kafka import KEEPS_RECORDS, RealKafka
from tests.patience import eventually

VARIABLE: Final = {
    "topic_id": bytes(16),
    "port": 0,
    "cluster_id": "",
    "log_dir": "",
    "total_bytes": -1,
    "usable_bytes": -1,
    "high_watermark": 0,
    "log_end_offset": 0,
    "last_fetch_timestamp": -1,
    "last_caught_up_timestamp": -1,
}
"""Fields that differ between any two clusters, and what stands for "none" in them, which is not left out."""
OWN_WORDS: Final = {3, 84}
"""Codes whose sentence is the error's own, in our words here, where Kafka has nothing to say of the request."""
CLUSTER_ID: Final = re.compile('the cluster id "[^"]+"')
DIRECTORY: Final = b"\\1" * 16


class Question(NamedTuple):
    """A request, made for the topics of a run whose names are letters behind a prefix."""

    name: str
    version: int
    make: Callable[[str], Any]


def always(request: Any) -> Callable[[str], Any]:
    """The maker of the same request for every run."""

    def make(_: str) -> Any:
        return request

    return make


def pages(*letters: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Callable[[str], Any]:
    def make(prefix: str) -> Any:
        return DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=prefix + letter) for letter in letters],
            response_partition_limit=limit,
            cursor=None if cursor is None else Cursor(topic_name=prefix + cursor[0], partition_index=cursor[1]),
        )

    return make


def election(kind: int, *requested: tuple[str, int]) -> Callable[[str], Any]:
    def make(prefix: str) -> Any:
        named = [TopicPartitions(topic=prefix + letter, partitions=[index]) for letter, index in requested]
        return ElectLeadersRequest(election_type=kind, topic_partitions=named)

    return make


def reassignment(*requested: tuple[str, int, list[int] | None]) -> Callable[[str], Any]:
    def make(prefix: str) -> Any:
        topics = [
            ReassignableTopic(
                name=prefix + letter, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
            )
            for letter, index, replicas in requested
        ]
        return AlterPartitionReassignmentsRequest(topics=topics)

    return make


def quorum(*requested: tuple[str, int]) -> Callable[[str], Any]:
    topics = [
        TopicData(topic_name=name, partitions=[PartitionData(partition_index=index)]) for name, index in requested
    ]
    return always(DescribeQuorumRequest(topics=topics))


def cluster(*, kind: int = 1, operations: bool = False) -> Callable[[str], Any]:
    request = DescribeClusterRequest(include_cluster_authorized_operations=operations, endpoint_type=kind)
    return always(request)


def sizes(*letters: str) -> Callable[[str], Any]:
    def make(prefix: str) -> Any:
        topics = [DescribableLogDirTopic(topic=prefix + letter, partitions=[0, 1, 9]) for letter in letters]
        return DescribeLogDirsRequest(topics=topics)

    return make


def elsewhere(prefix: str) -> Any:
    topics = [AlterReplicaLogDirTopic(name=prefix + letter, partitions=[0, 9]) for letter in ("a", "none")]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/elsewhere", topics=topics)])


def another_voter(*, to: str | None = None, directory: bytes = DIRECTORY) -> Callable[[str], Any]:
    listeners = [VoterListener(name="CONTROLLER", host="localhost", port=1)]
    return always(
        AddRaftVoterRequest(
            cluster_id=to, timeout_ms=1_000, voter_id=7, voter_directory_id=directory, listeners=listeners
        )
    )


def a_voter_less(*, of: str | None = None, directory: bytes = DIRECTORY) -> Callable[[str], Any]:
    return always(RemoveRaftVoterRequest(cluster_id=of, voter_id=1, voter_directory_id=directory))


METADATA: Final = "__cluster_metadata"
QUESTIONS: Final = (
    Question("the cluster", 0, cluster(operations=True)),
    Question("the cluster without operations", 1, cluster()),
    Question("controllers", 1, cluster(kind=2)),
    Question("neither brokers nor controllers", 1, cluster(kind=9)),
    Question("topics out of order", 0, pages("b", "a", "b")),
    Question("topics that there are not", 0, pages("none", "a", " ")),
    Question("a full page", 0, pages("a", "b", limit=3)),
    Question("a page that ends within a topic", 0, pages("a", "b", limit=4)),
    Question("a page of nothing", 0, pages("a", limit=0)),
    Question("a page before a topic that there is not", 0, pages("a", "aa", "b", limit=3)),
    Question("the next page", 0, pages("a", "b", cursor=("b", 1))),
    Question("a page beyond the end", 0, pages("a", "b", cursor=("a", 10))),
    Question("a page of another topic", 0, pages("a", "c", cursor=("b", 1))),
    Question("a page before the beginning", 0, pages("a", cursor=("a", -1))),
    *(Question(f"sizes in version {version}", version, sizes("a", "none")) for version in range(5)),
    Question("no sizes", 4, sizes()),
    Question("another directory", 2, elsewhere),
    Question("preferred leaders", 2, election(0, ("a", 0), ("a", 9), ("none", 0))),
    Question("preferred leaders in version 0", 0, election(0, ("a", 0))),
    Question("any leaders", 2, election(1, ("a", 0), ("none", 0))),
    Question("leaders of a strange kind", 2, election(7, ("a", 0))),
    Question("the same replicas", 0, reassignment(("a", 0, [1]))),
    Question("replicas twice, or none", 0, reassignment(("a", 0, [1, 1]), ("b", 0, []))),
    Question("replicas on brokers that there are not", 0, reassignment(("a", 0, [1, 5]), ("b", 0, [-1]))),
    Question("replicas of nothing", 0, reassignment(("a", 9, [1]), ("none", 0, [1]))),
    Question("a reassignment that is none", 0, reassignment(("a", 0, None))),
    Question("reassignments", 0, always(ListPartitionReassignmentsRequest(topics=None))),
    *(Question(f"the quorum in version {version}", version, quorum((METADATA, 0))) for version in range(3)),
    Question("another quorum", 2, quorum(("a", 0), (METADATA, 0))),
    Question("another partition of the quorum", 1, quorum((METADATA, 1))),
    Question("another voter", 0, another_voter()),
    Question("another voter of another cluster", 0, another_voter(to="x")),
    Question("no voter", 0, another_voter(directory=bytes(16))),
    Question("a voter less", 0, a_voter_less()),
    Question("a voter less of another cluster", 0, a_voter_less(of="x")),
    Question("no voter less", 0, a_voter_less(directory=bytes(16))),
)


class Asked:
    """One broker, with the topics "a", "b" and "c" of a run."""

    def __init__(self, bootstrap: str) -> None:
        self.client = SocketClient(address_of(bootstrap))
        self.prefix = f"run-{uuid.uuid4().hex[:8]}-"
        self._topics = [f"{self.prefix}{letter}" for letter in "abc"]

    def make_topics(self) -> None:
        topics = [CreatableTopic(name=name, num_partitions=3, replication_factor=1) for name in self._topics]
        response = self.client.ask(CreateTopicsRequest(topics=topics, timeout_ms=20_000), 5)
        assert {each.error_code for each in response.topics} == {0}
        eventually(self._has_all)  # the broker follows the controller

    def _has_all(self) -> bool:
        description = str(self.ask(Question("", 4, sizes("a", "b", "c"))))
        return description.count("'offset_lag': 0") == 6

    def remove_topics(self) -> None:
        with self.client:
            self.client.ask(DeleteTopicsRequest(topic_names=self._topics, timeout_ms=20_000), 5)

    def ask(self, question: Question) -> Any:
        """The answer as nested values, without what is never the same."""
        response = self.client.ask(question.make(self.prefix), question.version)
        return self._plain(response, keeps_order=isinstance(response, DescribeTopicPartitionsResponse))

    def _plain(self, value: Any, *, keeps_order: bool) -> Any:
        if dataclasses.is_dataclass(value):
            fields: dict[str, Any] = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            if fields.get("error_code") in OWN_WORDS and "No such" not in (fields.get("error_message") or "No such"):
                del fields["error_message"]
            return {
                name: "some"
                if name in VARIABLE and each != VARIABLE[name]
                else self._plain(each, keeps_order=keeps_order)
                for name, each in fields.items()
            }
        if isinstance(value, list):
            plain = [self._plain(each, keeps_order=keeps_order) for each in cast("Sequence[Any]", value)]
            return plain if keeps_order else sorted(plain, key=repr)
        return CLUSTER_ID.sub("the cluster", value.replace(self.prefix, "")) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def both(real_kafka: RealKafka) -> Iterator[tuple[Asked, Asked]]:
    """Our broker, and Kafka."""
    with Broker(config={"minibroker.emulate": "3.9", "node.id": "1", **KEEPS_RECORDS}) as broker:
        brokers = Asked(broker.bootstrap_servers), Asked(real_kafka.bootstrap)
        for each in brokers:
            each.make_topics()
        yield brokers
        for each in brokers:
            each.remove_topics()


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_a_question_about_the_cluster_is_answered_as_by_kafka(both: tuple[Asked, Asked], question: Question) -> None:
    ours, kafka = both
    assert ours.ask(question) == kafka.ask(question)


def test_a_broker_that_there_is_not_cannot_be_unregistered(both: tuple[Asked, Asked]) -> None:
    question = Question("a broker", 0, always(UnregisterBrokerRequest(broker_id=77)))
    codes = [each.ask(question)["error_code"] for each in both]
    assert codes[0] == codes[1] != 0
