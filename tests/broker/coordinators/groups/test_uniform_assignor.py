"""The uniform assignors of two releases. `tests/kafka/test_assignors.py` compares them with Kafka's."""

from collections.abc import Mapping, Sequence

import pytest

from minibroker.coordinators.groups.assignors import GroupSpec, find_assignors
from minibroker.coordinators.groups.assignors.range import MemberSpec
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions

T, U = bytes(15) + b"\1", bytes(15) + b"\2"


def assign(
    subscribed: Mapping[str, Sequence[bytes]],
    counts: Mapping[bytes, int],
    had: Mapping[str, Partitions] | None = None,
    *,
    since_4_0: bool = True,
) -> dict[str, Partitions]:
    """Assign all partitions of topics to members with the previous assignment `had`."""
    members = {name: MemberSpec(None, topics, (had or {}).get(name, NOTHING)) for name, topics in subscribed.items()}
    homogeneous = len({frozenset(topics) for topics in subscribed.values()}) == 1
    return find_assignors(["uniform"], since_4_0=since_4_0)["uniform"](GroupSpec(members, counts, homogeneous))


@pytest.mark.parametrize(("since_4_0", "kept"), [(True, {0, 1}), (False, {0})])
def test_a_member_with_one_more_partition_keeps_it_since_kafka_4(*, since_4_0: bool, kept: set[int]) -> None:
    previous: dict[str, Partitions] = {"a": {T: frozenset({2})}, "b": {T: frozenset({0, 1})}}
    assigned = assign({"a": [T], "b": [T]}, {T: 3}, previous, since_4_0=since_4_0)
    assert assigned["b"] == {T: kept}
    assert assigned["a"] == {T: {0, 1, 2} - kept}


@pytest.mark.parametrize(("since_4_0", "given"), [(True, {0}), (False, {2})])
def test_members_with_different_subscriptions_get_partitions(*, since_4_0: bool, given: set[int]) -> None:
    assigned = assign({"a": [T, U], "b": [U]}, {T: 1, U: 3}, since_4_0=since_4_0)
    assert assigned == {"a": {T: {0}, U: given}, "b": {U: {0, 1, 2} - given}}
