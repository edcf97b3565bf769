"""ElectLeaders; codes and sentences compared with Kafka 3.9.1."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.reassignments import ElectLeadersRequest, TopicPartitions
from tests.broker.cluster.nodes import create, leader
from tests.broker.harness import Harness

PREFERRED: Final = 0
UNCLEAN: Final = 1
T0: Final = ("t", 0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Harness]:
    """Three brokers, and a topic "t" whose partition 0 prefers the brokers in their order."""
    made = Harness(str(tmp_path / "data"), brokers=3)
    create(made, by_hand=((1, 2, 3), (2, 3, 1)))
    yield made
    made.close()


def ask(harness: Harness, kind: int, *requested: tuple[str, int], version: int = 2) -> Any:
    named = [TopicPartitions(topic=name, partitions=[index]) for name, index in requested]
    return harness.ask(ElectLeadersRequest(election_type=kind, topic_partitions=named or None), version)


def elect(harness: Harness, kind: int, *requested: tuple[str, int], version: int = 2) -> dict[tuple[str, int], int]:
    """Have leaders elected, for all partitions if none is named; returns the codes."""
    response = ask(harness, kind, *requested, version=version)
    assert response.error_code == 0
    results = response.replica_election_results
    return {(topic.topic, each.partition_id): each.error_code for topic in results for each in topic.partition_result}


@pytest.mark.parametrize("version", range(3))
def test_the_preferred_replica_leads_again(cluster: Harness, version: int) -> None:
    cluster.core.cluster.move_leader("t", 0, 3)
    assert elect(cluster, PREFERRED, T0, version=version) == {T0: 0}
    assert leader(cluster) == 1


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_a_partition_that_is_led_as_it_should_be_needs_no_election(cluster: Harness, kind: int) -> None:
    assert elect(cluster, kind, T0) == {T0: ErrorCode.ELECTION_NOT_NEEDED}


def test_a_preferred_replica_that_is_down_cannot_lead(cluster: Harness) -> None:
    cluster.core.cluster.stop_node(1)
    cluster.asks = 2
    assert elect(cluster, PREFERRED, T0) == {T0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert leader(cluster) == 2


def test_any_replica_leads_if_the_client_takes_the_loss(cluster: Harness) -> None:
    for node in (3, 2, 1):
        cluster.core.cluster.stop_node(node)
    cluster.core.cluster.start_node(2)
    cluster.asks = 2
    assert leader(cluster) == -1
    assert elect(cluster, PREFERRED, T0) == {T0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert elect(cluster, UNCLEAN, T0) == {T0: 0}
    assert leader(cluster) == 2


def test_nobody_leads_where_no_replica_is_up(tmp_path: Path) -> None:
    made = Harness(str(tmp_path / "data"), brokers=2)
    create(made, by_hand=((1,),))
    made.core.cluster.stop_node(1)
    made.asks = 2
    assert elect(made, UNCLEAN, T0) == {T0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    made.close()


def test_of_all_partitions_those_are_told_that_needed_an_election(cluster: Harness) -> None:
    cluster.core.cluster.move_leader("t", 1, 1)
    assert elect(cluster, PREFERRED) == {("t", 1): 0}
    assert [each.topic for each in ask(cluster, PREFERRED).replica_election_results] == ["t"]


def test_partitions_that_there_are_not_are_unknown(cluster: Harness) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(cluster, PREFERRED, ("t", 9), ("none", 0)) == {("t", 9): unknown, ("none", 0): unknown}


def test_an_election_of_another_kind_is_refused(cluster: Harness) -> None:
    response = ask(cluster, 7, T0)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    (outcome,) = response.replica_election_results[0].partition_result
    assert (outcome.error_code, outcome.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown election type 7")


def test_who_leads_after_an_election_outlives_the_run(cluster: Harness) -> None:
    cluster.core.cluster.move_leader("t", 0, 3)
    elect(cluster, PREFERRED, T0)
    cluster.restart()
    assert leader(cluster) == 1
