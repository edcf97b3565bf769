"""The coordinator's assignors beside Kafka's, for groups that members join and leave, and whose topics grow."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from minibroker.coordinators.groups.assignors import Assignor, GroupSpec, find_assignors
from minibroker.coordinators.groups.assignors.range import MemberSpec
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions
from tests.kafka import jars
from tests.kafka.assignor_oracle import AssignorOracle
from tests.kafka.fixtures import or_skip

GROUPS = 60
CHANGES = 8
BEGINS = ("", "", "\ue000", "\U0001f600")
"""Of names: Java sorts strings by the units of UTF-16, in which the last of these comes first."""


@pytest.fixture(scope="module")
def oracle_of_3_9(kafka_libs: Path) -> Iterator[AssignorOracle]:
    """Return the assignors of Kafka 3.9."""
    with or_skip(lambda: AssignorOracle(kafka_libs)) as running:
        yield running


@pytest.fixture(scope="module")
def oracle_of_4_4() -> Iterator[AssignorOracle]:
    """Return the assignors of Kafka 4.4."""
    with or_skip(lambda: AssignorOracle(jars.find(version=jars.NEWEST))) as running:
        yield running


class Story:
    """One group as it changes."""

    def __init__(self, rnd: Random) -> None:
        self.random = rnd
        self.mixed = rnd.random() < 0.5
        self.counts = {rnd.randbytes(16): rnd.randrange(1, 40) for _ in range(rnd.randrange(1, 5))}
        self.members: dict[str, MemberSpec] = {}
        self.assigned: dict[str, Partitions] = {}
        for _ in range(rnd.randrange(1, 8)):
            self._join()

    def _join(self) -> None:
        rnd = self.random
        topics = list(self.counts)
        if self.mixed:
            topics = rnd.sample(topics, rnd.randrange(1, len(topics) + 1))
        instance = f"{rnd.choice(BEGINS)}instance-{rnd.randrange(10**6)}" if rnd.random() < 0.2 else None
        self.members[f"{rnd.choice(BEGINS)}member-{rnd.randrange(10**9)}"] = MemberSpec(instance, topics, NOTHING)

    def change(self) -> None:
        """Someone comes or goes, or a topic grows."""
        rnd = self.random
        kind = rnd.randrange(3)
        if kind == 0 and len(self.members) > 1:
            del self.members[rnd.choice(sorted(self.members))]
        elif kind == 1:
            self.counts[rnd.choice(sorted(self.counts))] += rnd.randrange(1, 6)
        else:
            self._join()

    def spec(self) -> GroupSpec:
        """The group as it is now."""
        subscribed = {topic for member in self.members.values() for topic in member.topics}
        counts = {topic: count for topic, count in self.counts.items() if topic in subscribed}
        homogeneous = all(set(member.topics) == subscribed for member in self.members.values())
        return GroupSpec(dict(self.members), counts, homogeneous)

    def groups(self, assign: Assignor) -> Iterator[GroupSpec]:
        """Each group that there was, once it has been assigned."""
        for _ in range(CHANGES):
            group = self.spec()
            self.assigned = assign(group)
            _assert_whole(group, self.assigned)
            yield group
            self.take(self.assigned)
            self.change()

    def take(self, assigned: dict[str, Partitions]) -> None:
        """The members have what they were given."""
        for member_id, member in self.members.items():
            self.members[member_id] = member._replace(assigned=assigned[member_id])


def _assert_whole(group: GroupSpec, assigned: dict[str, Partitions]) -> None:
    """Every partition is with one member that subscribes to its topic."""
    given = [
        (topic, index) for partitions in assigned.values() for topic, indexes in partitions.items() for index in indexes
    ]
    assert sorted(given) == sorted((topic, index) for topic, count in group.counts.items() for index in range(count))
    for member_id, partitions in assigned.items():
        assert set(partitions) <= set(group.members[member_id].topics)


@pytest.mark.parametrize("name", ["uniform", "range"])
@pytest.mark.parametrize("seed", range(GROUPS))
def test_each_member_is_given_what_kafka_3_9_gives_it(oracle_of_3_9: AssignorOracle, name: str, seed: int) -> None:
    story = Story(Random(seed))
    assign = find_assignors([name], since_4_0=False)[name]
    for group in story.groups(assign):
        theirs = oracle_of_3_9.assign(name, group)
        if theirs is not None:  # it gives up now and then
            assert story.assigned == theirs


@pytest.mark.parametrize("name", ["uniform", "range"])
@pytest.mark.parametrize("seed", range(GROUPS))
def test_each_member_is_given_what_kafka_4_4_gives_it(oracle_of_4_4: AssignorOracle, name: str, seed: int) -> None:
    story = Story(Random(seed))
    for group in story.groups(find_assignors([name])[name]):
        assert story.assigned == oracle_of_4_4.assign(name, group)
