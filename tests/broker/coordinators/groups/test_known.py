"""The groups of a partition, found without visiting others, and forgotten when their coordinator moves."""

from tests.broker.harness import Harness


def test_groups_are_sorted_again_when_the_topic_is_created(harness: Harness) -> None:
    store = harness.services.groups.store
    names = [f"group-{number}" for number in range(20)]
    for name in names:
        store.find_or_create(name)
    harness.create("__consumer_offsets", 3)
    assert store.readiness(names[0]) == 0
    moving = {name for name in names if store.partition_of(name) == 1}
    store.leader_moved(1)
    assert {group.group_id for group in store.groups()} == set(names) - moving
