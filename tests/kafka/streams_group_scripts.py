"""Requests of members of streams groups, as scripts for `StreamsWorld`: some written by hand, others random."""

import random
from collections.abc import Callable
from typing import Any, Final

from minibroker_protocol.messages.streams_group import Endpoint, KeyValue
from tests.broker.handlers.streams_group_requests import listed, offsets_of, subtopology, topic, topology
from tests.kafka.scripts import Scripts
from tests.kafka.streams_group_world import StreamsWorld

Script = Callable[[StreamsWorld], None]
SCRIPTS: Final = Scripts[StreamsWorld]()
_MEMBERS: Final = ("a", "b", "c", "d")


@SCRIPTS.add
def a_lonely_members_life(world: StreamsWorld) -> None:
    world.create(t=3)
    world.streams_look()
    world.streams_beat("a", 0)
    world.step("a")
    world.streams_look()
    world.describe()
    for kinds in ([], ["streams"], ["Classic"]):
        world.list_groups(types=kinds)
    world.list_groups(states=["stable"])
    world.delete()
    world.streams_beat("a", 1)
    world.streams_beat("a", 3)
    world.commit_as("a", world.epochs["a"])
    world.commit_as("a", world.epochs["a"] + 1)
    world.commit_as("b", 1)
    world.commit_as("", -1)
    world.fetch_as("a", world.epochs["a"])
    world.fetch_as("a", 77)
    world.fetch_as(None, -1)
    world.delete_offset()
    world.go("a")
    world.streams_look()
    world.list_groups(states=["empty"])
    world.streams_beat("a", 1)
    world.delete_offset()
    world.consumer_records()
    world.delete()
    world.streams_look()
    world.streams_beat("a", 1)
    world.consumer_records()


@SCRIPTS.add
def tasks_go_from_one_member_to_another(world: StreamsWorld) -> None:
    world.create(t=4)
    world.step("a")
    world.step("a")
    world.step("b")
    world.streams_look()
    world.step("b")
    held = world.tasks["a"][0]
    world.streams_beat("a", world.epochs["a"], owned=held)
    world.streams_look()
    world.step("a")
    world.step("b")
    world.settle_streams()
    world.step("c")
    world.settle_streams()
    world.commit_as("a", world.epochs["a"])
    world.commit_as("a", world.epochs["a"] - 1)
    world.commit_as("a", 1)
    world.go("a")
    world.streams_look()
    world.settle_streams()
    world.step("a")
    world.settle_streams()
    world.consumer_records()


@SCRIPTS.add
def internal_topics_are_made(world: StreamsWorld) -> None:
    world.create(t=3)
    world.begin("a", world.counting())
    world.step("b", topology=world.counting())
    world.settle_streams()
    world.go("a")
    world.settle_streams()


@SCRIPTS.add
def sources_come_grow_and_go(world: StreamsWorld) -> None:
    shape = world.plain("t", "u")
    world.create(t=2)
    world.step("a", topology=shape)
    world.step("b", topology=shape)
    world.settle_streams()
    world.create(u=4)
    world.settle_streams(after=1)
    world.grow("t", 6)
    world.settle_streams(after=1)
    world.drop("u")
    world.settle_streams(after=1)
    world.consumer_records()


@SCRIPTS.add
def topics_that_do_not_fit(world: StreamsWorld) -> None:
    world.create(t=2, u=3, between=5)
    joined = topology(subtopology("0", [world.topic("t"), world.topic("u")], joined=[([0, 1], [])]))
    world.streams_beat("a", 0, topology=joined)
    world.streams_look()
    fixed = topology(
        subtopology("0", [world.topic("t")], sinks=[world.topic("between")]),
        subtopology("1", [], repartition=[topic(world.topic("between"))]),
    )
    world.group_id = f"{world.group_id}-other"
    world.send_beat("a", 0, topology=fixed)
    world.note("state", world.described().group_state)


@SCRIPTS.add
def joins_of_two_topics(world: StreamsWorld) -> None:
    world.create(t=3, u=2)
    world.begin("a", world.joining())
    world.step("b", topology=world.joining())
    world.settle_streams()
    world.configure(streams_num_standby_replicas="1")
    world.settle_streams()
    world.step("c", topology=world.joining(), process_id="p-a")
    world.settle_streams()
    world.go("b")
    world.settle_streams()
    world.configure(streams_num_standby_replicas="0")
    world.settle_streams()


@SCRIPTS.add
def processes_have_several_threads_and_endpoints(world: StreamsWorld) -> None:
    world.create(t=4)
    at = Endpoint(host="here", port=9000)
    tags = [KeyValue(key="zone", value="z")]
    world.step("a", process_id="p", user_endpoint=at, client_tags=tags, rack_id="r")
    world.step("b", process_id="p", user_endpoint=at)
    world.step("c", process_id="q", user_endpoint=Endpoint(host="there", port=9001))
    world.settle_streams()
    for known in (-1, 0, 1, 2, 3, 4):
        world.streams_beat("a", world.epochs["a"], endpoint_epoch=known)
    world.step("b", user_endpoint=Endpoint(host="elsewhere", port=1))
    world.settle_streams()
    world.step("a", shutdown_application=True)
    world.step("b")
    world.go("a")
    world.step("c")


@SCRIPTS.add
def other_topologies(world: StreamsWorld) -> None:
    world.create(t=2, u=2)
    world.step("a", topology=world.plain("t", epoch=3))
    world.streams_beat("b", 0, topology=world.plain("t", epoch=2))
    world.streams_beat("c", 0, topology=world.plain("u", epoch=3))
    world.streams_beat("c", 0, topology=world.plain("t", epoch=4))
    world.streams_look()
    world.streams_beat("b", -1)
    world.streams_beat("a", -1)
    world.streams_beat("a", 0, topology=world.plain("u", epoch=4))
    world.streams_look()


@SCRIPTS.add
def requests_that_cannot_be_meant(world: StreamsWorld) -> None:
    world.create(t=2)
    joins: tuple[dict[str, Any], ...] = (
        {"member": ""},
        {"topology": None},
        {"rebalance_timeout_ms": -1},
        {"instance_id": " "},
        {"task_offsets": offsets_of(("0", 1, 5), ("0", 1, 5))},
        {"task_end_offsets": offsets_of(("0", 1, 5), ("0", 1, 6))},
        {"warmup_tasks": listed({"0": [0]})},
        {"standby_tasks": listed({"0": [0]})},
        {"owned": {"0": [0]}},
        {"rack_id": " "},
        {"active_tasks": None},
        {"topology": topology(subtopology("0", [world.topic("t")], regex=["x.*"]))},
        {"topology": topology(subtopology("0", ["__consumer_offsets"]))},
        {"topology": topology(subtopology("0", ["bad/name"]))},
        {"topology": topology(subtopology("0"), subtopology("0"))},
        {"topology": topology(subtopology("0", [world.topic("t")], changelogs=[topic("c", 3)]))},
        {"topology": topology(subtopology("0", []))},
        {"topology": topology(subtopology("0", [world.topic("t")], joined=[([4], [])]))},
        {"topology": topology(subtopology("0", [], repartition=[topic("r")]))},
        {"topology": topology(subtopology("0", [], sinks=["r"], repartition=[topic("r")]))},
    )
    for fields in joins:
        world.streams_beat(fields.pop("member", "a"), 0, **fields)
    world.streams_look()
    for epoch in (1, -1, -2, -3):
        world.streams_beat("a", epoch)
    world.step("a")
    epoch = world.epochs["a"]
    world.streams_beat("a", epoch, topology=world.plain("t"))
    world.streams_beat("a", epoch, owned={"9": [0]})
    world.streams_beat("a", epoch, owned={"0": [2]})
    world.streams_beat("a", epoch, owned={"0": [-1]})
    world.streams_beat("a", epoch, active_tasks=[])
    world.streams_beat("a", epoch, owned={}, warmup_tasks=listed({"0": [0]}))
    world.streams_beat("a", epoch, owned={}, warmup_tasks=listed({"0": [9]}))
    world.streams_beat("a", epoch, task_offsets=offsets_of(("0", 1, 5), ("0", 1, 5)))
    world.streams_beat("a", epoch + 1)
    world.streams_beat("a", epoch - 1, owned={"0": [0, 1]})
    world.streams_beat("a", epoch - 1, owned={"0": [5]})
    world.streams_beat("a", 77)
    world.streams_beat("b", 2)
    world.streams_beat("b", -1)
    world.streams_beat("a", 0)
    world.streams_look()


@SCRIPTS.add
def static_members_leave_and_come_back(world: StreamsWorld) -> None:
    world.create(t=4)
    world.step("a", instance_id="i")
    world.step("b", instance_id="j", process_id="q")
    world.settle_streams()
    for member, instance in (("a", "j"), ("c", "i"), ("c", None)):
        world.streams_beat(member, world.epochs["a"], instance_id=instance)
        world.streams_beat(member, 0, instance_id=instance, process_id="c")
        world.streams_beat(member, -2, instance_id=instance)
    world.streams_look()
    world.go("c")
    world.settle_streams()
    world.streams_beat("a", world.epochs["a"], instance_id="k")
    world.streams_beat("a", -2, instance_id="k")
    world.leave_for_a_while("a", "i")
    world.streams_look()
    world.commit_as("a", -2)
    world.commit_as("a", 1)
    world.streams_beat("a", 1, instance_id="i")
    world.streams_beat("b", world.epochs["b"], instance_id="j", owned=world.tasks["b"][0])
    world.step("a-again", instance_id="i", process_id="p-a")
    world.streams_look()
    world.consumer_records()
    world.settle_streams()
    world.leave_for_a_while("a-again", "i")
    world.step("a-again", instance_id="i", process_id="p-a")
    world.settle_streams()
    world.leave_for_a_while("b", "j")
    world.step("b-again", instance_id="j", process_id="elsewhere")
    world.settle_streams()
    world.streams_beat("b-again", -1, instance_id="i")
    world.streams_beat("b-again", -1, instance_id="j")
    world.forget_member("b-again")
    world.settle_streams()
    world.leave_for_a_while("a-again", "i")
    world.streams_beat("a-again", -1, instance_id="i")
    world.streams_look()
    world.step("d", instance_id="k")
    world.streams_beat("d", 0, instance_id="l", owned={})
    world.streams_beat("d", -2, instance_id="k")
    world.leave_for_a_while("d", "l")
    world.streams_beat("e", 0, instance_id="l", process_id="e")
    world.streams_look()
    world.consumer_records()


@SCRIPTS.add
def a_static_member_waits_for_its_first_tasks(world: StreamsWorld) -> None:
    world.create(t=2)
    world.configure(streams_initial_rebalance_delay_ms="600000")
    world.streams_beat("a", 0, instance_id="i")
    world.streams_beat("a", 0, instance_id="i")
    world.streams_beat("b", 0, instance_id="i")
    world.streams_look()
    world.leave_for_a_while("a", "i")
    world.streams_beat("b", 0, instance_id="i")
    world.streams_look()


@SCRIPTS.add
def static_members_have_standbys_and_endpoints(world: StreamsWorld) -> None:
    world.create(t=3)
    shape = world.counting()
    world.begin("a", shape, user_endpoint=Endpoint(host="here", port=1))
    world.configure(streams_num_standby_replicas="1")
    world.step("b", topology=shape, instance_id="j", user_endpoint=Endpoint(host="there", port=2))
    world.settle_streams()
    world.leave_for_a_while("b", "j")
    world.step("a")
    world.step("b2", topology=shape, instance_id="j", process_id="p-b", user_endpoint=Endpoint(host="there", port=3))
    world.settle_streams()
    world.leave_for_a_while("b2", "j")
    world.step("b3", topology=shape, instance_id="j", process_id="p-b")
    world.settle_streams()
    world.step("c", topology=shape, process_id="p-c")
    world.leave_for_a_while("b3", "j")
    world.step("c")
    world.step("a")
    world.step("b4", topology=shape, instance_id="j", process_id="p-b", client_tags=[KeyValue(key="k", value="v")])
    world.settle_streams()
    world.consumer_records()


@SCRIPTS.add
def copies_become_active(world: StreamsWorld) -> None:
    world.create(t=4)
    shape = world.counting()
    world.begin("a", shape)
    world.configure(streams_num_standby_replicas="1")
    world.step("b", topology=shape)
    world.settle_streams()
    world.step("c", topology=shape)
    world.settle_streams()
    world.go("a")
    for member in ("b", "c", "b", "c"):
        world.step(member)
        world.streams_look()
    world.settle_streams()
    world.step("d", topology=shape, process_id="p-b")
    world.settle_streams()
    world.configure(streams_num_standby_replicas="0")
    world.settle_streams()
    world.consumer_records()


@SCRIPTS.add
def members_tell_offsets(world: StreamsWorld) -> None:
    world.create(t=3)
    shape = world.counting()
    world.begin("a", shape, task_offsets=offsets_of(("1", 0, 7)))
    world.configure(streams_num_standby_replicas="1")
    world.streams_beat("a", world.epochs["a"], task_offsets=offsets_of(("1", 2, 5), ("1", 0, 3), ("0", 1, 4)))
    world.streams_beat("a", world.epochs["a"], task_end_offsets=offsets_of(("1", 2, 9)))
    world.streams_look()
    world.step("b", topology=shape, task_offsets=offsets_of(("1", 0, 100), ("1", 1, 50), ("nine", 1, 1)))
    world.settle_streams()
    world.step("c", topology=shape, task_offsets=offsets_of(("1", 0, 1), ("1", 1, 200)), task_end_offsets=[])
    world.settle_streams()
    world.streams_beat("a", world.epochs["a"], task_offsets=[])
    world.settle_streams()
    world.go("b")
    world.settle_streams()
    world.configure(streams_task_offset_interval_ms="20000")
    world.configure(streams_acceptable_recovery_lag="5")
    world.step("a")


@SCRIPTS.add
def standbys_are_to_be_spread_over_tags(world: StreamsWorld) -> None:
    world.create(t=2)
    world.step("a", client_tags=[KeyValue(key="zone", value="z")])
    world.settle_streams()
    world.configure(streams_rack_aware_assignment_tags="zone, rack ")
    world.settle_streams()
    world.step("a")
    world.version = 0
    world.step("a")
    world.version = 1
    world.step("b", client_tags=[KeyValue(key="rack", value="r"), KeyValue(key="zone", value="z")])
    world.settle_streams()
    world.configure(streams_assignor_name="sticky")
    world.step("a")
    world.configure(streams_rack_aware_assignment_tags="")
    world.settle_streams()
    world.consumer_records()


@SCRIPTS.add
def nobody_keeps_descriptions(world: StreamsWorld) -> None:
    world.create(t=2)
    world.step("a")
    world.settle_streams()
    world.describe_topology("a", 0)
    world.describe_topology("nobody", 7)
    world.describe_topology("", 0)
    world.streams_look(with_description=True)
    world.group_id += "-other"
    world.streams_look(with_description=True)


@SCRIPTS.add
def groups_of_other_protocols(world: StreamsWorld) -> None:
    world.create(t=2)
    member = world.new_id("classic")
    world.join("classic", member)
    world.streams_beat("a", 0)
    world.streams_look()
    world.leave("classic", (member, None))
    world.until("Empty")
    world.step("a")
    world.streams_look()
    world.join("classic", "")
    world.beat("c", 0)
    world.go("a")
    world.beat("c", 0)
    world.join("classic", "")
    world.until("Empty")
    world.streams_look()
    world.list_groups()
    world.consumer_records()


def random_script(seed: int, steps: int = 50) -> Script:
    """A script of requests that a seed chooses, right ones and wrong ones."""

    def run(world: StreamsWorld) -> None:
        chance = random.Random(seed)
        world.create(t=3, u=2)
        shape = chance.choice((world.plain("t"), world.plain("t", "u"), world.counting(), world.joining()))
        world.begin("a", shape)
        for _ in range(steps):
            _STEPS[chance.choices(range(len(_STEPS)), _WEIGHTS)[0]](world, chance, shape)
        world.settle_streams()
        world.consumer_records()
        for member in [*world.epochs]:
            world.go(member)
        world.streams_look()

    return run


def _present(world: StreamsWorld, chance: random.Random) -> str:
    return chance.choice(sorted(world.epochs) or ["nobody"])


def _step(world: StreamsWorld, chance: random.Random, shape: Any) -> None:
    del shape
    member = _present(world, chance)
    if member in world.epochs:
        world.step(member, endpoint_epoch=chance.choice((-1, 0, 1, 5)))


def _come_or_go(world: StreamsWorld, chance: random.Random, shape: Any) -> None:
    member = chance.choice(_MEMBERS)
    if member in world.epochs and chance.random() < 0.6:
        world.go(member)
        return
    world.forget_member(member)
    fields: dict[str, Any] = {"process_id": chance.choice(("p", "q", "r"))}
    if chance.random() < 0.3:
        fields["user_endpoint"] = Endpoint(host=member, port=chance.choice((1, 2)))
    world.step(member, topology=shape, **fields)


def _hold_on(world: StreamsWorld, chance: random.Random, shape: Any) -> None:
    """A heartbeat of a member that says nothing, or says what it had; its answer is lost to it, or is not."""
    del shape
    member = _present(world, chance)
    owned = chance.choice((None, world.tasks.get(member, ({}, {}))[0]))
    world.streams_beat(member, world.epochs.get(member, 1), owned=owned)


def _wrong(world: StreamsWorld, chance: random.Random, shape: Any) -> None:
    del shape
    member = chance.choice(_MEMBERS)
    epoch = world.epochs.get(member, 1) + chance.choice((-1, 1, 9))
    if epoch > 0:
        world.streams_beat(member, epoch, owned={"0": [0]})


def _settle(world: StreamsWorld, chance: random.Random, shape: Any) -> None:
    del chance, shape
    world.settle_streams()


def _commit(world: StreamsWorld, chance: random.Random, shape: Any) -> None:
    del shape
    member = _present(world, chance)
    world.commit_as(member, world.epochs.get(member, 1) + chance.choice((0, 0, 0, -1, -2, 1)))


def _configure(world: StreamsWorld, chance: random.Random, shape: Any) -> None:
    del shape
    world.configure(streams_num_standby_replicas=chance.choice(("0", "1", "2")))


def _look(world: StreamsWorld, chance: random.Random, shape: Any) -> None:
    """Look at the group, or try to delete it.

    An empty group is left alone. In Kafka a group that is made anew describes internal topics without partitions until
    anything else is written to the same partition of `__consumer_offsets`.
    """
    del shape
    chance.choice((world.streams_look, world.list_groups, world.delete if world.epochs else world.list_groups))()


_STEPS: Final = (_step, _come_or_go, _hold_on, _wrong, _settle, _commit, _configure, _look)
_WEIGHTS: Final = (14, 6, 5, 2, 3, 3, 1, 3)
