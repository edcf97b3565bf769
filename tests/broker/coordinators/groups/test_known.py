"""The groups of a partition are found without a look at the others, and forgotten when their coordinator moves."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from minibroker.coordinators.groups.store import GroupStore
from tests.broker.harness import Harness


def make_groups(store: GroupStore, *, inside: int, outside: int, partition: int = 7) -> list[str]:
    """Make empty groups inside and outside of a partition; the names of the former."""
    names = {True: list[str](), False: list[str]()}
    number = 0
    while len(names[True]) < inside or len(names[False]) < outside:
        number += 1
        name = f"group-{number}"
        names[store.partition_of(name) == partition].append(name)
    for name in (*names[True][:inside], *names[False][:outside]):
        store.find_or_create(name)
    return names[True][:inside]


def calls_of_a_move(data_dir: Path, *, inside: int, outside: int) -> int:
    """The number of calls while the leader moves of a partition that has the groups `inside`."""
    harness = Harness(str(data_dir))
    try:
        store = harness.services.groups.store
        store.log.ensure()
        moving = make_groups(store, inside=inside, outside=outside)
        calls = 0

        def count(_frame: FrameType, event: str, _argument: Any) -> None:
            nonlocal calls
            calls += event.endswith("call")

        sys.setprofile(count)
        try:
            store.leader_moved(7)
        finally:
            sys.setprofile(None)
        assert [store.find(name) for name in moving] == [None] * inside
        assert len(list(store.groups())) == outside
        return calls
    finally:
        harness.close()


def test_a_move_costs_in_proportion_to_the_groups_of_its_partition(tmp_path: Path) -> None:
    alone = calls_of_a_move(tmp_path / "alone", inside=3, outside=0)
    assert calls_of_a_move(tmp_path / "beside", inside=3, outside=600) == alone
    assert calls_of_a_move(tmp_path / "more", inside=6, outside=0) > alone


def test_groups_that_were_there_before_the_topic_follow_its_number_of_partitions(harness: Harness) -> None:
    store = harness.services.groups.store
    names = [f"group-{number}" for number in range(20)]
    for name in names:
        store.find_or_create(name)
    harness.create("__consumer_offsets", 3)
    assert store.readiness(names[0]) == 0
    moving = {name for name in names if store.partition_of(name) == 1}
    store.leader_moved(1)
    assert {group.group_id for group in store.groups()} == set(names) - moving
