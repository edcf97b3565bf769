"""Requests of members of groups of the consumer protocol, as scripts for `ConsumerWorld`."""

from typing import Final

from tests.broker.coordinators.groups.member_requests import join_request, subscription
from tests.kafka.consumer_group_world import ConsumerWorld
from tests.kafka.scripts import Scripts

SCRIPTS: Final = Scripts[ConsumerWorld]()


@SCRIPTS.add
def a_lonely_members_life(world: ConsumerWorld) -> None:
    world.create(t=3)
    world.look()
    world.beat("a", 0)
    world.beat("a", 1)
    world.beat("a", 1, owned={"t": [0, 1, 2]}, topics=["t"], rebalance_ms=60_000)
    world.look()
    world.describe()
    world.list_groups()
    world.list_groups(types=["consumer"])
    world.list_groups(types=["Classic"])
    world.list_groups(states=["stable"])
    world.list_groups(states=["Empty"])
    world.delete()
    world.beat("a", -1)
    world.look()
    world.list_groups()
    world.beat("a", 1)
    world.consumer_records()
    world.delete()
    world.look()
    world.beat("a", 1)
    world.consumer_records()


@SCRIPTS.add
def a_coordinator_that_names_its_member(world: ConsumerWorld) -> None:
    world.create(t=2)
    joined = world.client("a").ask(world.request("", 0), 0)
    world.note("length of the id", len(joined.member_id))
    world.beat("a", 0, instance_id="i")


@SCRIPTS.add
def partitions_go_from_one_member_to_another(world: ConsumerWorld) -> None:
    world.create(t=4)
    world.beat("a", 0)
    world.beat("a", 1, owned={"t": [0, 1, 2, 3]})
    world.beat("b", 0)
    world.look()
    world.beat("b", 2, owned={})
    world.beat("a", 1, owned={"t": [0, 1, 2, 3]})
    world.look()
    world.beat("a", 1)
    world.beat("b", 2)
    world.beat("a", 1, owned={"t": [0, 1]})
    world.beat("b", 2)
    world.look()
    world.beat("b", 2, owned={"t": [2, 3]})
    world.beat("c", 0)
    world.beat("a", 2, owned={"t": [0, 1]})
    world.beat("b", 2, owned={"t": [2, 3]})
    world.look()
    world.beat("b", 2, owned={"t": [2]})
    world.beat("a", 2, owned={"t": [0]})
    world.beat("c", 3)
    world.look()
    world.beat("a", -1)
    world.look()
    world.beat("b", 3)
    world.beat("c", 3)
    world.look()
    world.consumer_records()


@SCRIPTS.add
def a_topic_grows_and_another_one_comes_and_goes(world: ConsumerWorld) -> None:
    world.create(t=2)
    world.beat("a", 0, topics=["t", "u"], server_assignor="range")
    world.beat("b", 0, topics=["t", "u"])
    world.beat("a", 1, owned={"t": [0]})
    world.beat("b", 2)
    world.look()
    world.grow("t", 4)
    world.settle("a", 2, {"t": [0]})
    world.beat("b", 2, owned={"t": [1]})
    world.beat("b", 2, owned={})
    world.beat("a", 3)
    world.look()
    world.create(u=2)
    world.settle("a", 3, {"t": [0, 1]})
    world.beat("b", 3, owned={"t": [2, 3]})
    world.beat("b", 4, owned={"t": [2, 3], "u": [1]})
    world.look()
    world.drop("u")
    world.settle("b", 4, {"t": [2, 3]})
    world.beat("b", 5, owned={"t": [2, 3]})
    world.beat("a", 4, owned={"t": [0, 1], "u": [0]})
    world.beat("a", 4, owned={"t": [0, 1]})
    world.look()
    world.consumer_records()


@SCRIPTS.add
def members_want_different_topics(world: ConsumerWorld) -> None:
    world.create(t=2, u=4)
    world.beat("a", 0, topics=["t"])
    world.beat("b", 0, topics=["u"])
    world.look()
    world.beat("b", 2, topics=["t", "u"])
    world.beat("b", 2, owned={"u": [0, 1, 2, 3]}, topics=["t", "u"], rebalance_ms=30_000)
    world.beat("a", 1, owned={"t": [0, 1]})
    world.look()
    world.beat("a", 3, topics=["u"], owned={"t": [0, 1]})
    world.beat("a", 3, owned={})
    world.beat("b", 3, owned={"u": [0, 1, 2, 3]})
    world.look()
    world.beat("a", 4, topics=["nothing"], rack_id="r")
    world.look()
    world.consumer_records()


@SCRIPTS.add
def assignors_are_wished_for(world: ConsumerWorld) -> None:
    world.create(t=3)
    world.beat("a", 0, server_assignor="range")
    world.look()
    world.beat("b", 0, server_assignor="uniform")
    world.beat("c", 0, server_assignor="range")
    world.look()
    world.beat("a", 1, server_assignor="uniform")
    world.look()
    world.beat("a", 1, server_assignor="other")
    world.beat("a", 1, server_assignor="")
    world.consumer_records()


@SCRIPTS.add
def what_cannot_be_meant_is_refused(world: ConsumerWorld) -> None:
    world.create(t=1)
    world.beat("", 1)
    world.beat("", -1)
    world.beat("", -2, instance_id="i")
    world.beat("a", -2)
    world.beat("a", -3)
    world.beat("a", 0, instance_id="")
    world.beat("a", 0, rack_id="")
    world.beat("a", 0, owned={"t": [0]})
    world.ask("a", world.request("a", 1, rebalance_ms=-1), 0)
    missing = world.request("a", 0)
    missing.rebalance_timeout_ms = -1
    world.ask("a", missing, 0)
    missing = world.request("a", 0)
    missing.topic_partitions = None
    world.ask("a", missing, 0)
    missing = world.request("a", 0)
    missing.subscribed_topic_names = None
    world.ask("a", missing, 0)
    missing = world.request("a", 0)
    missing.group_id = ""
    world.ask("a", missing, 0)
    world.beat("a", 1)
    world.beat("a", -1)
    world.look()


@SCRIPTS.add
def epochs_that_are_not_the_members_are_fenced(world: ConsumerWorld) -> None:
    world.create(t=4)
    world.beat("a", 0)
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", 1, owned={"t": [0, 1]})
    world.beat("a", 1, owned={"t": [0, 1]})
    world.beat("a", 1, owned={"t": [0, 1, 2]})
    world.beat("a", 1)
    world.beat("a", 0)
    world.beat("a", 3)
    world.beat("stranger", 2)
    world.beat("stranger", -1)
    world.beat("b", 2)
    world.beat("b", 2)
    world.look()


@SCRIPTS.add
def static_members_come_back(world: ConsumerWorld) -> None:
    world.create(t=4)
    world.beat("a", 0, instance_id="i")
    world.beat("b", 0, instance_id="j")
    world.beat("a", 1, instance_id="i", owned={"t": [0, 1]})
    world.beat("b", 2, instance_id="j")
    world.beat("other", 0, instance_id="i")
    world.beat("other", 2, instance_id="i")
    world.beat("other", 2, instance_id="k")
    world.beat("a", 2)
    world.beat("other", -2, instance_id="i")
    world.beat("a", -2, instance_id="i")
    world.look()
    world.beat("a", 2, instance_id="i")
    world.beat("b", 2, instance_id="j")
    world.beat("again", 0, instance_id="i")
    world.look()
    world.beat("a", 2, instance_id="i")
    world.beat("again", 2, instance_id="i", owned={"t": [0, 1]})
    world.beat("again", -2, instance_id="i")
    world.beat("third", 0, instance_id="i", topics=["t", "u"])
    world.look()
    world.beat("third", -1, instance_id="i")
    world.beat("b", -1, instance_id="j")
    world.look()
    world.consumer_records()


@SCRIPTS.add
def a_member_that_is_silent_is_removed(world: ConsumerWorld) -> None:
    world.create(t=2)
    world.beat("a", 0)
    world.until_members(0)
    world.beat("a", 1)
    world.consumer_records()


@SCRIPTS.add
def a_member_that_does_not_give_up_is_removed(world: ConsumerWorld) -> None:
    world.create(t=2)
    world.beat("a", 0, rebalance_ms=400)
    world.beat("b", 0)
    world.beat("a", 1, owned={"t": [0, 1]})
    world.until_members(1)
    world.beat("b", 2)
    world.consumer_records()


@SCRIPTS.add
def the_group_is_full(world: ConsumerWorld) -> None:
    world.create(t=2)
    for member in "abcd":
        world.beat(member, 0)
    world.beat("", 0)
    world.beat("c", 3)
    world.look()


@SCRIPTS.add
def members_commit_in_their_epoch(world: ConsumerWorld) -> None:
    world.create(t=2)
    world.beat("a", 0)
    world.commit_as("a", 1)
    world.commit_as("a", 0)
    world.commit_as("a", 2)
    world.commit_as("b", 1)
    world.commit_as("", -1)
    world.commit_as("a", 1, version=8)
    world.fetch_as("a", 1)
    world.fetch_as("a", 2)
    world.fetch_as("b", 1)
    world.fetch_as(None, -1)
    world.fetch_as("", -1)
    world.fetch_as("a", 1, version=8)
    world.delete_offset()
    world.beat("a", -1)
    world.commit_as("", -1, 7)
    world.fetch_as(None, -1)
    world.delete_offset()
    world.fetch_as(None, -1)
    world.look()
    world.commit_as("", -1, 7)
    world.delete()
    world.fetch_as(None, -1)


@SCRIPTS.add
def an_empty_group_changes_its_protocol(world: ConsumerWorld) -> None:
    world.create(t=2)
    member = world.new_id("a")
    world.join("a", member)
    world.sync("a", member, 1, {member: b"mine"})
    world.commit_as(member, 1)
    world.leave("a", (member, None))
    world.list_groups()
    world.beat("b", 0)
    world.look()
    world.describe()
    world.list_groups()
    world.fetch_as("b", 1)
    world.beat("b", -1)
    member = world.new_id("c")
    world.join("c", member)
    world.sync("c", member, 1, {member: b"mine"})  # Kafka's readers know of the change once something is written
    world.list_groups()
    world.look()
    world.fetch_as(None, -1)
    world.describe()
    world.leave("c", (member, None))
    world.consumer_records()


@SCRIPTS.add
def a_simple_group_becomes_one_of_consumers(world: ConsumerWorld) -> None:
    world.create(t=2)
    world.commit_as("", -1)
    world.list_groups()
    world.beat("b", 0)
    world.fetch_as("b", 1)
    world.list_groups()


def protocols(world: ConsumerWorld, *topics: str) -> tuple[tuple[str, bytes], ...]:
    """The protocol of a classic consumer."""
    return (("range", subscription(*map(world.topic, topics))),)


@SCRIPTS.add
def a_classic_member_joins_consumers(world: ConsumerWorld) -> None:
    world.create(t=4)
    world.beat("a", 0)
    required = world.client("c").ask(join_request(world.group_id, "", protocols(world, "t")), 9)
    world.note("required", [required.error_code, len(required.member_id)])
    member = "member"
    world.join("c", member, protocols(world, "t"))
    world.look()
    world.sync("c", member, 2)
    world.heartbeat("c", member, 2)
    world.heartbeat("c", member, 1)
    world.heartbeat("c", "a", 2)
    world.sync("c", member, 1)
    world.sync("c", member, 2, protocol=("consumer", "other"))
    world.beat("a", 1, owned={"t": [0, 1, 2, 3]})
    world.beat("a", 1, owned={"t": [0, 1]})
    world.heartbeat("c", member, 2)
    world.join("c", member, protocols(world, "t"))
    world.sync("c", member, 2)
    world.heartbeat("c", member, 2)
    world.commit_as(member, 2)
    world.commit_as(member, 1)
    world.commit_as(member, 2, version=8)
    world.beat("b", 0)
    world.heartbeat("c", member, 2)
    world.look()
    world.join("other", "", protocols(world, "t"))
    world.join("other", "", (("unheard-of", b""),))
    world.join("other", "", protocols(world, "t"), protocol_type="connect")
    world.leave("c", ("nobody", None))
    world.leave("c", (member, None))
    world.look()
    world.consumer_records()


@SCRIPTS.add
def a_classic_group_is_upgraded_and_downgraded(world: ConsumerWorld) -> None:
    world.create(t=4)
    member = world.new_id("c", protocols(world, "t"))
    world.join("c", member, protocols(world, "t"))
    assignment = b"\0\0\0\0\0\1" + len(world.topic("t")).to_bytes(2, "big") + world.topic("t").encode()
    assignment += b"\0\0\0\4" + b"".join(each.to_bytes(4, "big") for each in range(4)) + b"\xff\xff\xff\xff"
    world.sync("c", member, 1, {member: assignment})
    world.beat("a", 0)
    world.look()
    world.heartbeat("c", member, 1)
    owner = (("range", owning(world, 1, range(4))),)
    world.join("c", member, owner)
    world.sync("c", member, 1)
    world.join("c", member, (("range", owning(world, 1, range(2))),))
    world.sync("c", member, 2)
    world.beat("a", 2)
    world.look()
    world.beat("a", -1)
    world.until_member(member)
    world.look()
    world.list_groups()
    world.join("c", member, protocols(world, "t"))
    world.consumer_records()


def owning(world: ConsumerWorld, version: int, owned: range) -> bytes:
    """The metadata of a consumer that reads "t", and has some partitions of it."""
    topic = len(world.topic("t")).to_bytes(2, "big") + world.topic("t").encode()
    partitions = len(owned).to_bytes(4, "big") + b"".join(each.to_bytes(4, "big") for each in owned)
    head = version.to_bytes(2, "big") + b"\0\0\0\1" + topic
    return head + b"\xff\xff\xff\xff" + b"\0\0\0\1" + topic + partitions


@SCRIPTS.add
def a_consumer_comes_back_as_a_classic_member_beside_others(world: ConsumerWorld) -> None:
    world.create(t=2)
    world.beat("a", 0, instance_id="i")
    world.beat("b", 0)
    back = world.join("c", "", protocols(world, "t"), instance="i")
    world.look()
    world.sync("c", back.member_id, back.generation_id, instance="i")
    world.beat("a", 2, instance_id="i")
    world.consumer_records()


@SCRIPTS.add
def consumers_do_not_join_what_is_none(world: ConsumerWorld) -> None:
    world.create(t=1)
    member = world.new_id("c", (("p", b"x"),), protocol_type="connect")
    world.join("c", member, (("p", b"x"),), protocol_type="connect")
    world.sync("c", member, 1, {member: b"x"}, protocol=("connect", "p"))
    world.beat("a", 0)
    world.beat("a", 1)
    world.beat("a", -1)
    world.look()
    world.list_groups()
