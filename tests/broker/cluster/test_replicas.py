"""Where partitions are placed, held against what Kafka's AdminUtils does from the same start."""

import pytest

from minibroker.cluster.replicas import assign_replicas


def test_leaders_go_round_over_the_nodes() -> None:
    assert [each[0] for each in assign_replicas([1, 2, 3], 7, 1)] == [1, 2, 3, 1, 2, 3, 1]


def test_followers_are_a_step_further_with_each_round() -> None:
    """The example in the comment on Kafka's `AdminUtils`: 5 brokers, 10 partitions, 3 replicas."""
    assert assign_replicas([0, 1, 2, 3, 4], 10, 3) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
@pytest.mark.parametrize("start", [0, 1, 4])
def test_no_partition_is_twice_on_a_node_and_leaders_are_spread_evenly(nodes: int, start: int) -> None:
    ids = range(10, 10 + nodes)
    for factor in range(1, nodes + 1):
        placed = assign_replicas(ids, 3 * nodes, factor, start=start)
        assert all(len(set(each)) == factor for each in placed)
        assert all([each[0] for each in placed].count(node_id) == 3 for node_id in ids)


def test_partitions_that_come_later_are_placed_as_if_they_had_always_been_there() -> None:
    at_once = assign_replicas([1, 2, 3, 4], 11, 3, start=2)
    for first in range(1, 11):
        assert assign_replicas([1, 2, 3, 4], 11 - first, 3, start=2, first_partition=first) == at_once[first:]
