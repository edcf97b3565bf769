"""The assignor of streams groups beside Kafka 4.4's, for groups whose members and processes come and go."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from minibroker.coordinators.groups.streams.sticky import StreamsMemberSpec, TaskCounts, assign_sticky
from minibroker.coordinators.groups.streams.tasks import NO_TASKS, TaskOffsets, Tasks, TaskSets
from tests.kafka import jars
from tests.kafka.fixtures import or_skip
from tests.kafka.line_oracle import LineOracle

_SOURCE: Final = Path(__file__).with_name("StickyOracle.java")
GROUPS: Final = 60
CHANGES: Final = 12


@pytest.fixture(scope="module")
def sticky_oracle() -> Iterator[LineOracle]:
    """Return Kafka's assignor."""
    with or_skip(lambda: LineOracle(_SOURCE, jars.find(version=jars.NEWEST), heap="256m")) as running:
        yield running


class Story:
    """A group that changes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.standbys = random.choice((0, 0, 1, 2))
        self.counts = {
            str(number): TaskCounts(random.randint(1, 9), random.random() < 0.7)
            for number in range(random.randint(1, 13))
        }
        self.members: dict[str, StreamsMemberSpec] = {}
        for _ in range(random.randint(1, 9)):
            self._join()

    def _join(self) -> None:
        member_id = f"{self.random.getrandbits(64):016x}-{self.random.randint(0, 99)}"
        process_id = f"process-{self.random.randint(0, 5)}"
        self.members[member_id] = StreamsMemberSpec(process_id, NO_TASKS)

    def take(self, assigned: dict[str, Tasks]) -> None:
        """Members have what they were given, and some tell offsets of tasks that they have or had."""
        self.members = {
            each: StreamsMemberSpec(member.process_id, assigned[each], self._offsets(member))
            for each, member in self.members.items()
        }

    def _offsets(self, member: StreamsMemberSpec) -> TaskOffsets:
        if self.random.random() < 0.5:
            return member.offsets
        names = self.random.sample(sorted(self.counts), min(2, len(self.counts)))
        return {
            name: {index: self.random.choice((0, 5, 100)) for index in range(self.counts[name].tasks)} for name in names
        }

    def change(self) -> None:
        """Somebody comes or goes, or there are more tasks or more standbys."""
        kind = self.random.randint(0, 5)
        if kind <= 1:
            self._join()
        elif kind <= 3:
            self.members.pop(self.random.choice(sorted(self.members)))
            if not self.members:
                self._join()
        elif kind == 4:
            name = self.random.choice(sorted(self.counts))
            self.counts[name] = self.counts[name]._replace(tasks=self.counts[name].tasks + 1)
        else:
            self.standbys = self.random.randint(0, 2)


def ask(oracle: LineOracle, story: Story) -> dict[str, Tasks]:
    """Kafka's assignment."""
    fields = [str(story.standbys)]
    fields.append(
        ",".join(f"{each}={counts.tasks}{'!' * counts.is_stateful}" for each, counts in sorted(story.counts.items()))
    )
    for member_id, member in story.members.items():
        fields += [member_id, member.process_id, _text(member.tasks.active), _text(member.tasks.standby)]
        reported = ((name, *each) for name, offsets in member.offsets.items() for each in offsets.items())
        fields.append(",".join(f"{name}:{index}:{offset}" for name, index, offset in reported))
    found = oracle.ask(*fields).split("\t")
    assert len(found) == 3 * len(story.members), oracle.complaints()
    return {
        each: Tasks(_tasks(active), _tasks(standby))
        for each, active, standby in zip(found[::3], found[1::3], found[2::3], strict=True)
    }


def _text(tasks: TaskSets) -> str:
    return ",".join(f"{each}:{index}" for each, indexes in tasks.items() for index in sorted(indexes))


def _tasks(text: str) -> TaskSets:
    found: dict[str, set[int]] = {}
    for each in filter(None, text.split(",")):
        name, _, index = each.partition(":")
        found.setdefault(name, set()).add(int(index))
    return {each: frozenset(indexes) for each, indexes in found.items()}


@pytest.mark.parametrize("seed", range(GROUPS))
def test_each_member_is_given_what_kafka_gives_it(sticky_oracle: LineOracle, seed: int) -> None:
    story = Story(Random(seed))
    for _ in range(CHANGES):
        ours = assign_sticky(story.members, dict(sorted(story.counts.items())), story.standbys)
        assert ours == ask(sticky_oracle, story)
        story.take(ours)
        story.change()
