"""The simple assignor by itself; `tests/kafka/test_share_assignor.py` holds it against Kafka's."""

from collections.abc import Mapping, Sequence

import pytest

from minibroker.coordinators.groups.assignors.range import MemberSpec
from minibroker.coordinators.groups.assignors.simple import assign_simply
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions

ONE, TWO = b"1" * 16, b"2" * 16


def assign(
    subscribed: Mapping[str, Sequence[bytes]], ready: Partitions, had: Mapping[str, Partitions] | None = None
) -> dict[str, Partitions]:
    """Assign `ready` to members, who had something or nothing."""
    members = {name: MemberSpec(None, topics, (had or {}).get(name, NOTHING)) for name, topics in subscribed.items()}
    homogeneous = len({frozenset(topics) for topics in subscribed.values()}) == 1
    return assign_simply(members, ready, homogeneous=homogeneous)


def count(assigned: Mapping[str, Partitions]) -> dict[str, int]:
    return {name: sum(map(len, partitions.values())) for name, partitions in assigned.items()}


@pytest.mark.parametrize(("number", "partitions", "readers"), [(1, 5, 1), (3, 6, 1), (5, 2, 3), (7, 3, 3), (4, 4, 1)])
def test_each_partition_has_as_many_readers_as_that_takes(number: int, partitions: int, readers: int) -> None:
    names = [f"m{each}" for each in range(number)]
    assigned = assign({key: [ONE] for key in names}, {ONE: frozenset(range(partitions))})
    read = [index for each in assigned.values() for index in each.get(ONE, ())]
    assert {index: read.count(index) for index in range(partitions)} == dict.fromkeys(range(partitions), readers)
    counts = count(assigned).values()
    assert max(counts) - min(counts) <= 1


def test_members_keep_what_they_have(subtests: pytest.Subtests) -> None:
    had = {"a": {ONE: frozenset({0, 1})}, "b": {ONE: frozenset({2, 3})}}
    with subtests.test("when nothing changes"):
        assert assign({"a": [ONE], "b": [ONE]}, {ONE: frozenset(range(4))}, had) == had
    with subtests.test("when another comes"):
        assigned = assign({"a": [ONE], "b": [ONE], "c": [ONE]}, {ONE: frozenset(range(4))}, had)
        assert assigned["a"][ONE] <= had["a"][ONE]
        assert assigned["b"][ONE] <= had["b"][ONE]
        assert sorted(count(assigned).values()) == [1, 1, 2]


def test_partitions_without_a_state_are_not_assigned() -> None:
    assert assign({"a": [ONE, TWO]}, {ONE: frozenset({1})}) == {"a": {ONE: frozenset({1})}}
    assert assign({"a": [ONE]}, {}) == {"a": {}}
    assert assign({}, {ONE: frozenset({1})}) == {}


def test_topics_are_shared_out_among_their_own_subscribers() -> None:
    ready = {ONE: frozenset({0, 1}), TWO: frozenset({0, 1})}
    assigned = assign({"a": [ONE], "b": [ONE, TWO], "c": [TWO]}, ready)
    assert set(assigned["a"]) == {ONE}
    assert set(assigned["c"]) == {TWO}
    assert count(assigned) == {"a": 1, "b": 2, "c": 1}


def test_a_topic_without_subscribers_stays_in_the_target_of_a_mixed_group_as_in_kafka() -> None:
    had = {"a": {TWO: frozenset({0})}}
    assigned = assign({"a": [ONE], "b": []}, {ONE: frozenset({0}), TWO: frozenset({0})}, had)
    assert assigned == {"a": {ONE: frozenset({0}), TWO: frozenset({0})}, "b": {}}
