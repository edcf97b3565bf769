"""The assignor of share groups beside Kafka 4.3's, for groups that members join and leave, and whose topics grow."""

from collections.abc import Iterator
from random import Random

import pytest

from minibroker.coordinators.groups.assignors.simple import assign_simple
from minibroker.coordinators.groups.modern.topics import Partitions
from tests.kafka import jars
from tests.kafka.assignor_oracle import AssignorOracle
from tests.kafka.fixtures import or_skip
from tests.kafka.test_assignors import CHANGES, GROUPS, Story


@pytest.fixture(scope="module")
def share_oracle() -> Iterator[AssignorOracle]:
    """Return Kafka's assignor."""
    with or_skip(lambda: AssignorOracle(jars.find(version=jars.NEWEST))) as running:
        yield running


@pytest.mark.parametrize("seed", range(GROUPS))
def test_each_member_is_given_what_kafka_gives_it(share_oracle: AssignorOracle, seed: int) -> None:
    story = Story(Random(seed))
    for _ in range(CHANGES):
        group = story.spec()
        ready: Partitions = {topic: frozenset(range(count)) for topic, count in group.counts.items()}
        ours = assign_simple(group.members, ready, homogeneous=group.homogeneous)
        assert ours == share_oracle.assign("simple", group)
        story.take(ours)
        story.change()
