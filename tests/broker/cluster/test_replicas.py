"""The placement of partitions, compared with Kafka's AdminUtils for the same start."""

import pytest

from minibroker.cluster.partition import assign_replicas, stripe_replicas


def test_leaders_go_round_over_the_nodes() -> None:
    assert [replicas[0] for replicas in assign_replicas([1, 2, 3], 7, 1)] == [1, 2, 3, 1, 2, 3, 1]


def test_followers_are_a_step_further_with_each_round() -> None:
    """The example in the comment of Kafka's `AdminUtils`: 5 brokers, 10 partitions, 3 replicas."""
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
        assert all(len(set(replicas)) == factor for replicas in placed)
        assert all([replicas[0] for replicas in placed].count(node_id) == 3 for node_id in ids)


def test_partitions_that_come_later_are_placed_as_if_they_had_always_been_there() -> None:
    at_once = assign_replicas([1, 2, 3, 4], 11, 3, start=2)
    for first in range(1, 11):
        assert assign_replicas([1, 2, 3, 4], 11 - first, 3, start=2, first_partition=first) == at_once[first:]


@pytest.mark.parametrize(
    ("racks", "placed"),
    [
        ("aab", [(3, 2), (2, 3), (1, 3), (3, 2), (2, 3), (1, 3)]),
        ("abcab", [(2, 1, 3), (3, 2, 4), (4, 3, 5), (5, 4, 3), (1, 5, 3), (2, 1, 3), (3, 1, 2), (4, 2, 3), (5, 3, 4)]),
        ("xyxy", [(2, 1), (3, 2), (4, 3), (1, 4), (2, 1), (3, 2), (4, 3), (1, 4), (2, 3)]),
    ],
)
def test_replicas_are_on_the_racks_that_kafka_with_zookeeper_has_them_on(
    racks: str, placed: list[tuple[int, ...]]
) -> None:
    """The result of `AdminUtils.assignReplicasToBrokers` in 3.9.1 with a fixed start index of 1."""
    by_node = dict(enumerate(racks, 1))
    assert assign_replicas(list(by_node), len(placed), len(placed[0]), start=1, racks=by_node) == placed


@pytest.mark.parametrize("racks", ["aab", "abc", "abcab", "aaaa", "xyyyx", "ab-"])
@pytest.mark.parametrize("start", [0, 1, 4])
def test_kraft_spreads_leaders_and_replicas_over_the_racks(racks: str, start: int) -> None:
    by_node = {node_id: rack for node_id, rack in enumerate(racks, 1) if rack != "-"}
    nodes = range(1, len(racks) + 1)
    count = len(set(racks))
    for factor in range(1, len(racks) + 1):
        placed = stripe_replicas(nodes, 4 * count, factor, start=start, racks=by_node)
        assert all(len(set(replicas)) == factor for replicas in placed)
        leaders = [by_node.get(replicas[0], "-") for replicas in placed]
        assert all(leaders.count(rack) == 4 for rack in set(racks))
        for replicas in placed:
            assert len({by_node.get(node_id, "-") for node_id in replicas}) == min(factor, count)
    everywhere = stripe_replicas(nodes, 4 * count, len(racks), start=start, racks=by_node)
    assert {node_id for replicas in everywhere for node_id in replicas} == set(nodes)
