"""Requests of members of streams groups, as scripts for `StreamsWorld`: some written by hand, others random."""

import random
from collections.abc import Callable
from typing import Any, Final

from minibroker_protocol.messages.streams_tasks import Endpoint, KeyValue, TaskOffset
from tests.broker.handlers.streams_group_requests import listed, subtopology, topic, topology
from tests.kafka.streams_group_world import StreamsWorld

Script = Callable[[StreamsWorld], None]
SCRIPTS: Final[dict[str, Script]] = {}
_MEMBERS: Final = ("a", "b", "c", "d")


def script(run: Script) -> Script:
    """Have a script be run."""
    SCRIPTS[run.__name__] = run
    return run


@script
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


@script
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


@script
def internal_topics_are_made(world: StreamsWorld) -> None:
    world.create(t=3)
    world.begin("a", world.counting())
    world.step("b", topology=world.counting())
    world.settle_streams()
    world.go("a")
    world.settle_streams()


@script
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


@script
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


@script
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


@script
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


@script
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


@script
def requests_that_cannot_be_meant(world: StreamsWorld) -> None:
    world.create(t=2)
    joins: tuple[dict[str, Any], ...] = (
        {"member": ""},
        {"topology": None},
        {"rebalance_timeout_ms": -1},
        {"instance_id": "i"},
        {"task_offsets": [TaskOffset(subtopology_id="0", partition=0, offset=1)]},
        {"task_end_offsets": [TaskOffset(subtopology_id="0", partition=0, offset=1)]},
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
    world.streams_beat("a", epoch + 1)
    world.streams_beat("a", epoch - 1, owned={"0": [0, 1]})
    world.streams_beat("a", epoch - 1, owned={"0": [5]})
    world.streams_beat("a", 77)
    world.streams_beat("b", 2)
    world.streams_beat("b", -1)
    world.streams_beat("a", 0)
    world.streams_look()


@script
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
