"""Pieces of a topic and the order of members, as Kafka's RangeAssignor has them."""

from minibroker.support.range_assignment import Shares, rank


def test_the_first_members_have_one_partition_more() -> None:
    shares = Shares(7, 3)
    assert [list(shares.take()) for _ in range(3)] == [[0, 1, 2], [3, 4], [5, 6]]
    few = Shares(1, 2)
    assert [list(few.take()) for _ in range(2)] == [[0], []]


def test_static_members_come_first_by_their_instance_ids() -> None:
    members = {"a": None, "z": "1", "b": None, "y": "2"}
    assert sorted(members, key=lambda member: rank(member, members[member])) == ["z", "y", "a", "b"]
