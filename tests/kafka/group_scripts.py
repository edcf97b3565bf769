"""Requests of members of groups, as scripts for `World`."""

import itertools
from collections.abc import Callable
from typing import Any, Final

from tests.broker.coordinators.groups.member_requests import BOTH, CHANGED, subscription
from tests.kafka.group_world import World
from tests.kafka.scripts import Scripts

Script = Callable[[World], None]
SCRIPTS: Final = Scripts[World]()
SHORT_MS: Final = 3000
"""A timeout that a script waits for. On a busy machine, too, a step before it has to come in time."""


def one_of_each_version(version: int) -> Script:
    """A lonely member's life in one version of JoinGroup, and in as many of the others as there are."""

    def run(world: World) -> None:
        member = world.join("a", version=version).member_id
        if version >= 4:
            world.join("a", member, version=version)
        world.describe(min(version, 5))
        world.list_groups(min(version, 5))
        world.heartbeat("a", member, 1, version=min(version, 4))
        world.sync("a", member, 1, {member: b"mine"}, version=min(version, 5))
        world.heartbeat("a", member, 1, version=min(version, 4))
        world.describe(min(version, 5))
        world.delete(version=min(version, 2))
        world.list_groups(min(version, 5))
        world.leave("a", (member, None), version=min(version, 5))
        world.until("Empty")
        world.records()
        world.delete(version=min(version, 2))
        world.describe(min(version, 5))
        world.records()

    return run


SCRIPTS.update({f"life_in_version_{version}": one_of_each_version(version) for version in range(10)})


def pair(world: World, **kwargs: Any) -> tuple[str, str, int]:
    """Two dynamic members, "a" leads; returns their ids and the generation, of which nobody has an assignment."""
    first = world.new_id("a", **kwargs)
    world.join("a", first, **kwargs)
    world.sync("a", first, 1, {first: b"all"})
    second = world.new_id("b", **kwargs)
    world.begin_join("b", second, **kwargs)
    world.until("PreparingRebalance", 2)
    generation = world.join("a", first, **kwargs).generation_id
    world.receive("b")
    return first, second, generation


def stable_pair(world: World, **kwargs: Any) -> tuple[str, str, int]:
    """As `pair`, with assignments."""
    first, second, generation = pair(world, **kwargs)
    world.begin_sync("b", second, generation)
    world.sync("a", first, generation, {first: b"for a", second: b"for b"})
    world.receive("b")
    return first, second, generation


@SCRIPTS.add
def two_members_share(world: World) -> None:
    first, second, generation = stable_pair(world)
    world.until("Stable", 2)
    world.heartbeat("a", first, generation)
    world.heartbeat("b", second, generation)
    world.heartbeat("b", second, generation - 1)
    world.heartbeat("b", second, generation + 1)
    world.sync("b", second, generation)
    world.sync("b", second, generation - 1)
    world.records()


@SCRIPTS.add
def the_leader_leaves_and_the_follower_goes_on(world: World) -> None:
    first, second, generation = stable_pair(world)
    world.leave("a", (first, None))
    world.until("PreparingRebalance", 1)
    world.heartbeat("b", second, generation)
    world.sync("b", second, generation)
    world.heartbeat("a", first, generation)
    world.join("b", second)
    world.sync("b", second, generation + 1, {second: b"all"})
    world.leave("b", (second, None))
    world.until("Empty")
    world.records()


@SCRIPTS.add
def a_follower_syncs_after_its_leader(world: World) -> None:
    first, second, generation = pair(world)
    world.until("CompletingRebalance", 2)
    world.heartbeat("b", second, generation)
    world.sync("a", first, generation, {second: b"for b", "somebody else": b"x"})
    world.sync("b", second, generation)
    world.until("Stable", 2)
    world.records()


@SCRIPTS.add
def joining_again_while_the_assignment_is_awaited(world: World) -> None:
    first, second, generation = pair(world)
    world.join("b", second)
    world.join("a", first)
    world.begin_sync("b", second, generation)
    world.begin_join("a", first, CHANGED)
    world.receive("b")
    world.until("PreparingRebalance", 2)
    world.join("b", second)
    world.receive("a")
    world.until("CompletingRebalance", 2)


@SCRIPTS.add
def joining_again_in_a_stable_group(world: World) -> None:
    first, second, generation = stable_pair(world)
    world.join("b", second)
    world.heartbeat("a", first, generation)
    world.begin_join("b", second, CHANGED)
    world.until("PreparingRebalance", 2)
    world.heartbeat("a", first, generation)
    world.sync("a", first, generation)
    world.join("a", first)
    world.receive("b")
    world.sync("a", first, generation + 1, {first: b"1", second: b"2"})
    world.sync("b", second, generation + 1)
    world.begin_join("a", first)  # a leader may have reasons that its metadata does not tell
    world.until("PreparingRebalance", 2)
    world.join("b", second)
    world.receive("a")
    world.records()


@SCRIPTS.add
def strangers_are_told_so(world: World) -> None:
    world.heartbeat("a", "nobody", 1)
    world.sync("a", "nobody", 1)
    world.leave("a", ("nobody", None))
    world.leave("a", ("nobody", None), version=2)
    world.join("a", "nobody")
    world.describe()
    first = world.new_id("a")
    world.join("a", first)
    world.sync("a", first, 1, {first: b"all"})
    for version in (0, 5, 9):
        world.join("b", "nobody", version=version)
    world.sync("b", "nobody", 1)
    world.heartbeat("b", "nobody", 1)
    world.heartbeat("b", "", 1)
    world.leave("b", ("nobody", None), ("", None), ("", "instance"), ("nobody", "instance"))
    world.join("b", "", instance="instance", version=4)
    world.until("Stable", 1)


@SCRIPTS.add
def a_group_without_a_name_is_refused(world: World) -> None:
    world.group_id = ""
    for version in range(10):
        world.join("a", version=version)
    for version in range(6):
        world.sync("a", "m", 1, version=version)
    for version in range(5):
        world.heartbeat("a", "m", 1, version=version)
    for version in range(3, 6):
        world.leave("a", ("m", None), version=version)
    for version in range(6):
        world.describe(version)
    world.delete("")


@SCRIPTS.add
def names_may_be_too_long(world: World) -> None:
    for length in (32_767, 32_768, 100_000):
        world.group_id = "g" * length
        for version in (6, 9):
            try:
                world.heartbeat("a", "nobody", 1)
                world.join("a", "nobody", version=version)
                world.join("a", "m" * length, version=version)
            except ConnectionError:
                world.note("closed", [length, version])
                world.hang_up("a")


@SCRIPTS.add
def assignments_may_be_too_large(world: World) -> None:
    first, second, generation = pair(world)
    world.begin_sync("b", second, generation)
    world.sync("a", first, generation, {first: bytes(600_000), second: bytes(600_000)})
    world.receive("b")
    world.until("PreparingRebalance", 2)
    world.begin_join("a", first)
    world.join("b", second)
    world.receive("a")
    world.records()


@SCRIPTS.add
def members_commit_offsets(world: World) -> None:
    world.commit("a", "", -1)
    world.commit("a", "nobody", -1)
    world.commit("a", "nobody", 0)
    first, second, generation = pair(world)
    for instance in (None, "i"):
        for member_id, named in itertools.product(("", first, "nobody"), (-1, 0, generation)):
            world.commit("a", member_id, named, instance=instance)
    world.begin_sync("b", second, generation)
    world.sync("a", first, generation, {})
    world.receive("b")
    for member_id, named in itertools.product(("", first, "nobody"), (-1, 0, generation)):
        world.commit("a", member_id, named)
    world.begin_join("a", first)
    world.until("PreparingRebalance", 2)
    for member_id, named in itertools.product(("", second, "nobody"), (-1, 0, generation)):
        world.commit("b", member_id, named)
    static = world.join("b", second)
    world.receive("a")
    world.leave("a", (first, None), (static.member_id, None))
    world.until("Empty")
    world.commit("a", "", -1)
    world.commit("a", second, generation)
    world.delete()


@SCRIPTS.add
def session_timeouts_have_limits(world: World) -> None:
    for session_ms in (99, 0, -1, 30 * 60 * 1000 + 1):
        world.join("a", session_ms=session_ms)
        world.join("a", session_ms=session_ms, version=0)
    world.join("a", "somebody", session_ms=99)
    world.describe()
    world.join("a", session_ms=30 * 60 * 1000)
    world.describe()


@SCRIPTS.add
def protocols_have_to_agree(world: World) -> None:
    world.join("a", "", ())
    world.join("a", protocol_type="")
    world.join("a", "", (), version=3)
    world.describe()
    world.list_groups()
    first = world.new_id("a", BOTH)
    world.join("a", first, BOTH)
    world.sync("a", first, 1, {first: b"all"})
    for version in (3, 9):
        world.join("b", "", (("other", b""),), version=version)
        world.join("b", "", BOTH, protocol_type="connect", version=version)
        world.join("b", "", (), version=version)
        world.join("b", "", BOTH, instance="i", protocol_type="connect")
    world.join("a", first, (("other", b""),))
    world.join("a", first, (("other", b""),), version=0)
    second = world.new_id("b", (("sticky", subscription("x")),))
    world.begin_join("b", second, (("sticky", subscription("x")), ("other", subscription("y"))))
    world.until("PreparingRebalance", 2)
    world.join("a", first, BOTH)
    world.receive("b")
    world.sync("a", first, 2, {}, protocol=("consumer", "range"))
    world.sync("a", first, 2, {}, protocol=("connect", "sticky"))
    world.sync("a", first, 2, {}, protocol=(None, "sticky"))
    world.sync("a", first, 2, {}, protocol=("consumer", None))
    world.sync("a", first, 2, {second: b"yours"}, protocol=("consumer", "sticky"))
    world.sync("b", second, 2, version=4)
    world.until("Stable", 2)
    world.records()


@SCRIPTS.add
def a_group_changes_its_kind_when_it_is_empty(world: World) -> None:
    first = world.new_id("a", (("default", b"x"),), protocol_type="connect")
    world.join("a", first, (("default", b"x"),), protocol_type="connect")
    world.sync("a", first, 1, {first: b"all"}, protocol=("connect", "default"))
    world.list_groups()
    world.leave("a", (first, None))
    world.until("Empty")
    world.list_groups()
    second = world.new_id("a")
    world.join("a", second)
    world.describe()
    world.list_groups()
    world.records()


@SCRIPTS.add
def a_member_that_was_given_an_id_may_leave_or_lie(world: World) -> None:
    first = world.new_id("a")
    second = world.new_id("b")
    world.describe()
    world.heartbeat("a", first, 0)
    world.heartbeat("a", first, -1)
    world.sync("a", first, 0)
    world.leave("a", (first, None))
    world.join("a", first)
    world.join("b", second, instance="i")
    world.join("b", second)
    third = world.new_id("c")
    world.leave("c", (third, "instance"))
    world.leave("c", (third, None))
    world.describe()


@SCRIPTS.add
def a_rebalance_waits_for_whoever_was_given_an_id(world: World) -> None:
    first = world.new_id("a")
    world.join("a", first)
    world.sync("a", first, 1, {first: b"all"})
    second = world.new_id("b")
    world.begin_join("a", first)
    world.until("PreparingRebalance", 1)
    world.leave("b", (second, None))
    world.receive("a")


@SCRIPTS.add
def many_leave_at_once(world: World) -> None:
    first = world.join("a", instance="a").member_id
    world.sync("a", first, 1, {first: b"all"}, instance="a")
    second = world.new_id("b")
    world.begin_join("b", second)
    world.until("PreparingRebalance", 2)
    pending = world.new_id("c")
    world.leave(
        "admin", ("", "a"), (pending, None), (second, None), (second, None), ("stranger", None), ("", "stranger")
    )
    world.receive("b")
    world.until("Empty")
    world.leave("admin")
    world.leave("admin", (first, "a"), version=3)
    world.records()


@SCRIPTS.add
def a_group_has_a_size(world: World) -> None:
    members = [world.join("m0", version=3).member_id]
    for number, name in enumerate(("m1", "m2"), 2):
        world.begin_join(name, version=3)
        world.until("PreparingRebalance", number)
    world.join("m0", members[0], version=3)
    members += [world.receive(name).member_id for name in ("m1", "m2")]
    world.until("CompletingRebalance", 3)
    for version in (3, 9):
        world.join("m3", version=version)
    world.join("m3", instance="i")
    world.join("m3", "stranger")
    world.sync("m0", members[0], 2, {})
    world.join("m3")
    world.begin_join("m0", members[0])
    world.until("PreparingRebalance", 3)
    extra = [world.new_id(name) for name in ("m3", "m4")]
    world.begin_join("m3", extra[0])
    world.until("PreparingRebalance", 4)
    world.begin_join("m4", extra[1])
    world.until("PreparingRebalance", 5)
    # The places are for those who come first.
    for name, member in zip(("m1", "m2"), members[1:], strict=True):
        world.join(name, member)
    for name in ("m0", "m3", "m4"):
        world.receive(name)
    world.describe()


@SCRIPTS.add
def silent_members_are_removed(world: World) -> None:
    first = world.join("a", session_ms=SHORT_MS, version=3).member_id
    world.sync("a", first, 1, {first: b"all"})
    world.until("Empty")
    world.heartbeat("a", first, 1)
    world.heartbeat("a", first, 2)
    world.sync("a", first, 1)
    world.join("a", first, version=3)
    world.records()


@SCRIPTS.add
def who_never_syncs_is_removed(world: World) -> None:
    first, second, generation = pair(world, rebalance_ms=SHORT_MS)
    world.begin_sync("b", second, generation)
    world.receive("b")
    world.until_gone(first)
    world.join("b", second, rebalance_ms=SHORT_MS)
    world.sync("b", second, generation + 1, {second: b"all"})
    world.records()


@SCRIPTS.add
def who_does_not_join_again_is_removed(world: World) -> None:
    first, second, generation = stable_pair(world, rebalance_ms=SHORT_MS)
    world.join("a", first, rebalance_ms=SHORT_MS)
    world.heartbeat("b", second, generation)
    world.heartbeat("b", second, generation + 1)
    world.describe()


@SCRIPTS.add
def whoever_was_given_an_id_is_forgotten(world: World) -> None:
    first = world.new_id("a")
    world.join("a", first)
    world.sync("a", first, 1, {first: b"all"})
    world.new_id("b", session_ms=400)
    world.join("a", first)  # has to wait for the other one's session to end
    world.describe()


@SCRIPTS.add
def coordinators_are_found(world: World) -> None:
    for version in range(4):
        world.find(world.group_id, version=version)
        world.find("", version=version)
        if version:
            world.find("t", 1, version=version)
            world.find("x", 2, version=version)
            world.find("x", 9, version=version)
    for version in range(4, 7):
        world.find("", 0, version, ["one", "", "two", "one"])
        world.find("", 1, version, ["one"])
        world.find("", 0, version, [])
        if version < 6:  # with version 6 Kafka 3.9 has drafts of share groups, and looks for its own coordinator
            world.find("", 2, version, ["a", "b"])
        world.find("", 9, version, ["a", "b"])
        world.find("", -1, version, ["a", "b"])


@SCRIPTS.add
def groups_are_listed_by_state_and_type(world: World) -> None:
    first = world.new_id("a")
    for states in ([], ["Empty"], ["empty", "stable"], ["Stable"], ["PreparingRebalance"], ["nonsense"], [""]):
        world.list_groups(4, states)
        world.list_groups(5, states)
    world.join("a", first)
    world.sync("a", first, 1, {first: b"all"})
    for types in ([], ["classic"], ["Classic"], ["consumer"], ["CONSUMER", "classic"], ["nonsense"], [""]):
        world.list_groups(5, [], types)
        world.list_groups(5, ["sTaBle"], types)
        world.list_groups(5, ["Empty"], types)


@SCRIPTS.add
def groups_are_deleted(world: World) -> None:
    first = world.new_id("a")
    world.delete(world.group_id, world.group_id, "nobody knows it")
    world.join("a", first)
    world.join("a", version=3)
    world.delete()
    second = world.new_id("a")
    world.delete()
    world.leave("a", (second, None))
    world.records()
