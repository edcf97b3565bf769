"""The simple assignor. `tests/kafka/test_share_assignor.py` compares it with Kafka's."""

from collections.abc import Mapping, Sequence

from minibroker.coordinators.groups.assignors.range import MemberSpec
from minibroker.coordinators.groups.assignors.simple import assign_simple
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions

ONE, TWO = b"1" * 16, b"2" * 16


def assign(
    subscribed: Mapping[str, Sequence[bytes]], ready: Partitions, had: Mapping[str, Partitions] | None = None
) -> dict[str, Partitions]:
    """Assign the partitions `ready` to members with the previous assignment `had`."""
    members = {name: MemberSpec(None, topics, (had or {}).get(name, NOTHING)) for name, topics in subscribed.items()}
    homogeneous = len({frozenset(topics) for topics in subscribed.values()}) == 1
    return assign_simple(members, ready, homogeneous=homogeneous)


def test_partitions_without_a_state_are_not_assigned() -> None:
    assert assign({"a": [ONE, TWO]}, {ONE: frozenset({1})}) == {"a": {ONE: frozenset({1})}}
    assert assign({"a": [ONE]}, {}) == {"a": {}}
    assert assign({}, {ONE: frozenset({1})}) == {}


def test_a_topic_without_subscribers_stays_in_the_target_of_a_mixed_group_as_in_kafka() -> None:
    previous = {"a": {TWO: frozenset({0})}}
    assigned = assign({"a": [ONE], "b": []}, {ONE: frozenset({0}), TWO: frozenset({0})}, previous)
    assert assigned == {"a": {ONE: frozenset({0}), TWO: frozenset({0})}, "b": {}}
