"""Requests of static members of groups, as scripts for `World`: they come back under the name of their instance."""

from tests.broker.coordinators.groups.member_requests import BOTH, subscription
from tests.kafka.group_scripts import SCRIPTS, SHORT_MS
from tests.kafka.group_world import World


@SCRIPTS.add
def static_members_return_without_a_rebalance(world: World) -> None:
    for version in (5, 8, 9):
        leader = f"leader{version}"
        follower = f"follower{version}"
        joined = world.join(leader, instance="a", version=version)
        first = joined.member_id
        world.sync(leader, first, joined.generation_id, {first: b"all"}, instance="a")
        world.begin_join(follower, instance="b", version=version)
        world.until("PreparingRebalance", 2)
        generation = world.join(leader, first, instance="a", version=version).generation_id
        second = world.receive(follower).member_id
        world.begin_sync(follower, second, generation, instance="b")
        world.sync(leader, first, generation, {first: b"1", second: b"2"}, instance="a")
        world.receive(follower)
        again = world.join("c", instance="a", version=version)
        world.sync("c", again.member_id, generation, instance="a")
        other = world.join("d", instance="b", version=version)
        world.sync("d", other.member_id, generation, instance="b")
        world.until("Stable", 2)
        world.heartbeat(leader, first, generation, instance="a")
        world.heartbeat(leader, first, generation)
        world.sync(leader, first, generation, instance="a")
        world.join(leader, first, instance="a", version=version)
        world.leave(leader, (first, "a"))
        world.leave(leader, (again.member_id, "b"))
        world.heartbeat("c", again.member_id, generation, instance="a")
        world.heartbeat("c", again.member_id, generation)
        world.leave("admin", ("", "a"), (other.member_id, "b"), ("", "a"))
        world.until("Empty")
    world.records()


@SCRIPTS.add
def a_static_member_returns_with_another_protocol(world: World) -> None:
    first = world.join("a", "", BOTH, instance="a").member_id
    world.sync("a", first, 1, {first: b"all"}, instance="a")
    world.join("b", "", (("sticky", subscription("s")),), instance="a")
    world.until("CompletingRebalance", 1)
    world.records()


@SCRIPTS.add
def a_static_member_returns_while_the_assignment_is_awaited(world: World) -> None:
    first = world.join("a", instance="a").member_id
    world.until("CompletingRebalance", 1)
    second = world.join("b", instance="a").member_id
    world.sync("a", first, 1, {first: b"all"}, instance="a")
    world.sync("b", second, 2, {second: b"all"}, instance="a")
    world.records()


@SCRIPTS.add
def whoever_a_static_member_was_is_fenced_where_it_waits(world: World) -> None:
    first = world.join("a", instance="a").member_id
    world.sync("a", first, 1, {first: b"all"}, instance="a")
    world.begin_join("b", instance="b")
    world.until("PreparingRebalance", 2)
    world.begin_join("c", instance="b")
    world.receive("b")
    world.join("a", first, instance="a")
    second = world.receive("c").member_id
    world.begin_sync("c", second, 2, instance="b")
    world.heartbeat("c2", second, 2)
    world.begin_join("d", instance="b")
    world.receive("c")
    world.until("PreparingRebalance", 2)
    world.join("a", first, instance="a")
    world.receive("d")


@SCRIPTS.add
def a_static_member_may_miss_a_rebalance(world: World) -> None:
    first = world.join("a", instance="a", rebalance_ms=SHORT_MS).member_id
    world.sync("a", first, 1, {first: b"all"}, instance="a")
    second = world.new_id("b", rebalance_ms=SHORT_MS)
    world.join("b", second, rebalance_ms=SHORT_MS)
    world.describe()
    world.sync("b", second, 2, {first: b"1", second: b"2"})
    world.heartbeat("a", first, 1, instance="a")
    world.heartbeat("a", first, 2, instance="a")
    world.records()
