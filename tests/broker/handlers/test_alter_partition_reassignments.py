"""AlterPartitionReassignments; codes and sentences compared with Kafka 3.9.1 and 4.3.1."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.broker.cluster.nodes import create, described, leader, partition
from tests.broker.harness import Harness, batch


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Harness]:
    """Three brokers, and a topic "t" whose partition the brokers 1 and 2 keep."""
    made = Harness(str(tmp_path / "data"), brokers=3)
    create(made, by_hand=((1, 2),))
    yield made
    made.close()


def reassign(
    harness: Harness, replicas: list[int] | None, topic: str = "t", index: int = 0, version: int = 1, **fields: Any
) -> tuple[int, str | None]:
    """(code, message) for one partition."""
    requested_topic = ReassignableTopic(
        name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
    )
    response = harness.ask(AlterPartitionReassignmentsRequest(topics=[requested_topic], **fields), version)
    assert (response.error_code, response.error_message) == (0, None)
    (topic_answer,) = response.responses
    (outcome,) = topic_answer.partitions
    assert (topic_answer.name, outcome.partition_index) == (topic, index)
    return outcome.error_code, outcome.error_message


@pytest.mark.parametrize("version", range(2))
def test_a_partition_is_with_its_new_replicas_at_once(cluster: Harness, version: int) -> None:
    cluster.produce(batch(b"kept"))
    assert reassign(cluster, [3, 2], version=version) == (0, None)
    (partition,) = described(cluster)
    assert (partition.replica_nodes, partition.isr_nodes, partition.leader_id) == ([3, 2], [3, 2], 3)
    cluster.asks = 3
    assert cluster.fetch_one().high_watermark == 1


def test_a_leader_that_stays_a_replica_goes_on(cluster: Harness) -> None:
    epoch = partition(cluster).leader_epoch
    reassign(cluster, [2, 1])
    assert (leader(cluster), partition(cluster).leader_epoch) == (1, epoch)
    reassign(cluster, [3, 1])
    assert (leader(cluster), partition(cluster).leader_epoch) == (1, epoch + 1)


def test_replicas_become_more_and_fewer(cluster: Harness) -> None:
    for replicas in ([1, 2, 3], [3], [2, 3]):
        assert reassign(cluster, replicas) == (0, None)
        assert partition(cluster).replicas == partition(cluster).isr == tuple(replicas)


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


def test_partitions_that_there_are_not_are_unknown(cluster: Harness) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(cluster, [1], index=9) == (unknown, "Unable to find partition t:9.")
    assert reassign(cluster, [1], "none") == (unknown, "Unable to find a topic named none.")


def test_new_replicas_outlive_the_run(cluster: Harness) -> None:
    reassign(cluster, [2, 3, 1])
    cluster.restart()
    assert partition(cluster).replicas == (2, 3, 1)
