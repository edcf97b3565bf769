"""AlterPartitionReassignments, ElectLeaders and ListPartitionReassignments.

Error codes and messages were compared with Kafka 3.9.1, those of AlterPartitionReassignments also with 4.3.1.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from tests.broker.cluster.nodes import create, leader, partition
from tests.broker.harness import Harness


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Harness]:
    """Three brokers with a topic "t" on brokers 1 and 2."""
    harness = Harness(str(tmp_path / "data"), brokers=3)
    create(harness, by_hand=((1, 2),))
    yield harness
    harness.close()


def reassign(
    harness: Harness, replicas: list[int] | None, topic: str = "t", index: int = 0, version: int = 1, **fields: Any
) -> tuple[int, str | None]:
    """Return (error code, message) for one partition."""
    requested_topic = ReassignableTopic(
        name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
    )
    response = harness.ask(AlterPartitionReassignmentsRequest(topics=[requested_topic], **fields), version)
    assert (response.error_code, response.error_message) == (0, None)
    (topic_answer,) = response.responses
    (outcome,) = topic_answer.partitions
    assert (topic_answer.name, outcome.partition_index) == (topic, index)
    return outcome.error_code, outcome.error_message


def test_a_client_may_forbid_another_number_of_replicas(cluster: Harness) -> None:
    code, message = reassign(cluster, [1, 2, 3], allow_replication_factor_change=False)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert message == "The replication factor is changed from 2 to 3"
    assert reassign(cluster, [2, 3], allow_replication_factor_change=False) == (0, None)


def test_a_new_replica_that_is_down_is_not_in_sync(cluster: Harness) -> None:
    cluster.core.cluster.stop_node(3)
    reassign(cluster, [3, 1])
    assert (partition(cluster).isr, leader(cluster)) == ((1,), 1)
    code, message = reassign(cluster, [3])
    assert (code, message) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "None of the brokers in the manual partition assignment is up.",
    )


@pytest.mark.parametrize(
    ("replicas", "reason"),
    [
        ([], "an empty replica list."),
        ([1, 1], "the broker 1 more than once."),
        ([1, 7], "broker 7, but no such broker is registered."),
        ([-1], "broker -1, but no such broker is registered."),
    ],
)
def test_replicas_that_cannot_be_are_refused(cluster: Harness, replicas: list[int], reason: str) -> None:
    expected = ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {reason}"
    assert reassign(cluster, replicas) == expected


def test_a_broker_that_is_alone_has_no_other_one(harness: Harness) -> None:
    assert reassign(harness, [1]) == (0, None)
    assert reassign(harness, [2])[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_there_is_never_a_reassignment_to_take_back(cluster: Harness) -> None:
    assert reassign(cluster, None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)


def test_new_replicas_outlive_the_run(cluster: Harness) -> None:
    reassign(cluster, [2, 3, 1])
    cluster.restart()
    assert partition(cluster).replicas == (2, 3, 1)


PREFERRED: Final = 0


UNCLEAN: Final = 1


T0: Final = ("t", 0)


@pytest.fixture
def preferring(tmp_path: Path) -> Iterator[Harness]:
    """Three brokers with a topic "t" whose partition 0 prefers brokers in their order."""
    harness = Harness(str(tmp_path / "data"), brokers=3)
    create(harness, by_hand=((1, 2, 3), (2, 3, 1)))
    yield harness
    harness.close()


def ask(harness: Harness, kind: int, *requested: tuple[str, int], version: int = 2) -> Any:
    partitions = [TopicPartitions(topic=name, partitions=[index]) for name, index in requested]
    return harness.ask(ElectLeadersRequest(election_type=kind, topic_partitions=partitions or None), version)


def elect(harness: Harness, kind: int, *requested: tuple[str, int], version: int = 2) -> dict[tuple[str, int], int]:
    """Elect leaders, of all partitions if none is given, and return the error codes."""
    response = ask(harness, kind, *requested, version=version)
    assert response.error_code == 0
    results = response.replica_election_results
    return {
        (topic.topic, partition.partition_id): partition.error_code
        for topic in results
        for partition in topic.partition_result
    }


def test_a_preferred_replica_that_is_down_cannot_lead(preferring: Harness) -> None:
    preferring.core.cluster.stop_node(1)
    preferring.asks = 2
    assert elect(preferring, PREFERRED, T0) == {T0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert leader(preferring) == 2


def test_any_replica_leads_if_the_client_takes_the_loss(preferring: Harness) -> None:
    for node in (3, 2, 1):
        preferring.core.cluster.stop_node(node)
    preferring.core.cluster.start_node(2)
    preferring.asks = 2
    assert leader(preferring) == -1
    assert elect(preferring, PREFERRED, T0) == {T0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert elect(preferring, UNCLEAN, T0) == {T0: 0}
    assert leader(preferring) == 2


def test_nobody_leads_where_no_replica_is_up(preferring: Harness) -> None:
    create(preferring, "u", by_hand=((1,),))
    preferring.core.cluster.stop_node(1)
    preferring.asks = 2
    assert elect(preferring, UNCLEAN, ("u", 0)) == {("u", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_of_all_partitions_those_are_told_that_needed_an_election(preferring: Harness) -> None:
    preferring.core.cluster.move_leader("t", 1, 1)
    assert elect(preferring, PREFERRED) == {("t", 1): 0}
    assert [result.topic for result in ask(preferring, PREFERRED).replica_election_results] == ["t"]


def test_partitions_that_there_are_not_elect_nobody(preferring: Harness) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(preferring, PREFERRED, ("t", 9), ("none", 0)) == {("t", 9): unknown, ("none", 0): unknown}


def test_who_leads_after_an_election_outlives_the_run(preferring: Harness) -> None:
    preferring.core.cluster.move_leader("t", 0, 3)
    elect(preferring, PREFERRED, T0)
    preferring.restart()
    assert leader(preferring) == 1
