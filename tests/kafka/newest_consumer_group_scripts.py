"""Requests of members of groups of the consumer protocol that Kafka 4.3 or 4.4 answers in another way than 3.9."""

from typing import Final

from tests.kafka.consumer_group_scripts import protocols
from tests.kafka.consumer_group_world import ConsumerWorld
from tests.kafka.scripts import Scripts

CHANGED_IN_4_4: Final = Scripts[ConsumerWorld]()
"""Scripts that Kafka 4.4 answers in another way than Kafka 3.9; all but the first requests are in epoch 3 or later."""
CHANGED_IN_4_3: Final = Scripts[ConsumerWorld]()
"""Scripts of what earlier releases have nothing of."""


@CHANGED_IN_4_4.add
def the_assignor_that_most_wish_for_changes(world: ConsumerWorld) -> None:
    world.begin_in_epoch_3(t=3)
    world.beat("a", 0, server_assignor="range")
    world.look()
    world.beat("a", 4, server_assignor="range")
    world.beat("a", 4, server_assignor="uniform")
    world.look()
    world.beat("b", 0, server_assignor="uniform")
    world.beat("c", 0, server_assignor="range")
    world.look()
    world.beat("a", 5, server_assignor="range")
    world.look()
    world.beat("a", 5, owned={"t": [0]})
    world.beat("b", 6)
    world.beat("c", 7)
    world.look()


@CHANGED_IN_4_4.add
def a_member_has_what_it_has_to_give_up(world: ConsumerWorld) -> None:
    world.begin_in_epoch_3(t=4)
    world.beat("a", 0)
    world.beat("a", 4, owned={"t": [0, 1, 2, 3]})
    world.beat("b", 0)
    world.beat("a", 4, owned={"t": [0, 1, 2, 3]})
    world.look()
    world.beat("a", 4, owned={"t": [0, 1]})
    world.look()


@CHANGED_IN_4_4.add
def the_last_members_leave(world: ConsumerWorld) -> None:
    world.begin_in_epoch_3(t=2)
    world.look()
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("b", -1)
    world.look()
    world.beat("a", -1)
    world.look()
    world.beat("a", 0, instance_id="i")
    world.beat("a", -2, instance_id="i")
    world.look()
    world.beat("a", -1, instance_id="i")
    world.look()
    world.list_groups()


@CHANGED_IN_4_4.add
def a_static_member_of_a_full_group_comes_back(world: ConsumerWorld) -> None:
    world.begin_in_epoch_3(t=3)
    world.beat("a", 0, instance_id="i")
    world.beat("b", 0)
    world.beat("c", 0)
    world.beat("again", 0, instance_id="i")
    world.beat("again", 6, instance_id="i")
    world.beat("again", 6)
    world.beat("a", -2, instance_id="i")
    world.beat("other", 0, instance_id="j")
    world.beat("again", 0)
    world.beat("again", 0, instance_id="i")
    world.look()
    world.join("d", "", protocols(world, "t"), instance="j")
    world.join("d", "", protocols(world, "t"), instance="i")
    world.look()


@CHANGED_IN_4_3.add
def the_first_epochs(world: ConsumerWorld) -> None:
    world.create(t=2)
    world.beat("a", 0, topics=[])
    world.look()
    world.beat("a", 1, topics=["unknown"])
    world.beat("a", 2, topics=["t"])
    world.look()
    world.beat("a", -1)
    world.look()
    world.beat("a", 0)
    world.look()
    world.consumer_records()
    world.check_hash("t")


@CHANGED_IN_4_3.add
def members_commit_in_an_earlier_epoch(world: ConsumerWorld) -> None:
    world.create(t=4, u=1)
    world.beat("a", 0)
    world.beat("b", 0)
    world.commit_as("a", 1)
    world.commit_as("a", 2, places={"t": [0, 3]})
    world.beat("a", 2, owned={"t": [0, 1, 2, 3]})
    world.commit_as("a", 2, places={"t": [0, 3]})
    world.commit_as("a", 1, places={"t": [3]})
    world.commit_as("b", 2)
    world.beat("a", 2, owned={"t": [0, 1]})
    for epoch in (1, 2, 3, 4):
        world.commit_as("a", epoch, places={"t": [0, 1]})
        world.commit_as("a", epoch, places={"t": [2]})
    world.commit_as("a", 2, places={"t": [0], "u": [0]})
    world.commit_as("a", 2, places={"t": [0, 7]})
    world.commit_as("a", 2, places={"t": [7]})
    world.commit_as("a", 2, places={"t": [2]}, metadata="m" * 5000)
    world.commit_as("a", 2, places={"t": [0, 2]}, metadata="m" * 5000)
    world.commit_as("a", 2, version=10)
    world.commit_as("a", 2, version=10, places={"t": [2]})
    world.commit_as("a", 2, version=8)
    world.commit_as("a", -1)
    world.beat("b", 3)
    world.beat("b", 3, owned={"t": [2, 3]})
    world.beat("c", 0)
    world.beat("b", 3, owned={"t": [2, 3]})
    world.beat("a", 3, owned={"t": [0, 1]})
    world.beat("a", 3, owned={"t": [0]})
    world.beat("b", 3, owned={"t": [2]})
    world.look()
    for member in "abc":
        for epoch in (2, 3, 4):
            for index in range(4):
                world.commit_as(member, epoch, places={"t": [index]})
    world.fetch_as("a", 3)
    world.consumer_records()
    world.check_hash("t")


@CHANGED_IN_4_3.add
def static_members_commit_when_they_are_back(world: ConsumerWorld) -> None:
    world.create(t=4)
    world.beat("a", 0, instance_id="i")
    world.beat("b", 0)
    world.beat("a", 2, instance_id="i", owned={"t": [0, 1]})
    world.beat("a", -2, instance_id="i")
    world.commit_as("a", 3)
    world.commit_as("a", 2)
    world.commit_as("a", -2)
    world.beat("again", 0, instance_id="i")
    for epoch in (1, 2, 3):
        world.commit_as("again", epoch)
        world.commit_as("a", epoch)
    world.beat("again", 3, instance_id="i", topics=["t", "u"])
    world.commit_as("again", 3)
    world.consumer_records()


@CHANGED_IN_4_3.add
def classic_members_commit_in_an_earlier_epoch(world: ConsumerWorld) -> None:
    world.create(t=4)
    world.beat("a", 0)
    world.join("c", "member", protocols(world, "t"))
    world.sync("c", "member", 3)
    world.beat("a", 2, owned={"t": [0, 1]})
    world.heartbeat("c", "member", 3)
    world.join("c", "member", protocols(world, "t"))
    world.sync("c", "member", 3)
    world.beat("b", 0)
    world.join("c", "member", protocols(world, "t"))
    world.sync("c", "member", 4)
    world.look()
    for epoch in (2, 3, 4, 5):
        for index in range(4):
            world.commit_as("member", epoch, places={"t": [index]})
    world.consumer_records()


@CHANGED_IN_4_3.add
def a_member_subscribes_to_less(world: ConsumerWorld) -> None:
    world.create(t=2, u=2)
    world.beat("a", 0, topics=["t", "u"])
    world.beat("a", 2, topics=["u"], owned={"t": [0, 1], "u": [0, 1]})
    world.look()
    world.beat("a", 2, topics=[])
    world.look()
    world.beat("a", 2, topics=["u", "t"])
    world.look()
    world.beat("a", 2, owned={})
    world.look()
    world.beat("b", 0, topics=["t"])
    world.beat("a", 5, owned={"t": [0, 1], "u": [0, 1]}, topics=["u"])
    world.beat("a", 5, owned={"u": [0, 1]})
    world.beat("b", 6)
    world.look()
    world.consumer_records()


@CHANGED_IN_4_3.add
def an_assignment_is_kept_for_a_while(world: ConsumerWorld) -> None:
    world.configure_and_wait("consumer.assignment.interval.ms", "15000")
    world.create(t=4, u=2)
    world.beat("a", 0, topics=["t", "u"])
    world.beat("b", 0)
    world.beat("c", 0, instance_id="i")
    world.look()
    world.beat("a", 2, topics=["u"], owned={"t": [0, 1, 2, 3], "u": [0, 1]})
    world.look()
    world.beat("a", 2, owned={"u": [0, 1]})
    world.beat("a", 2, topics=["t"], owned={"u": [0, 1]})
    world.look()
    world.beat("b", 2)
    world.beat("b", 2, topics=["t", "u"])
    world.beat("c", -2, instance_id="i")
    world.beat("again", 0, instance_id="i")
    world.beat("b", -1)
    world.join("d", "member", protocols(world, "t"))
    world.sync("d", "member", 2)
    world.heartbeat("d", "member", 2)
    world.look()
    world.configure_and_wait("consumer.assignment.interval.ms", "0")
    world.beat("again", 2, instance_id="i")
    world.look()
    world.beat("a", 2, owned={})
    world.look()
    for member in ("a", "again", "member"):
        world.client("admin").ask(world.request(member, -1), 0)
    world.leave("d", ("member", None))
    world.beat("again", -1, instance_id="i")
    world.configure_and_wait("consumer.assignment.interval.ms", "15000")
    world.beat("a", 0)
    world.look()
    world.consumer_records()


@CHANGED_IN_4_3.add
def an_assignment_comes_when_its_time_has_come(world: ConsumerWorld) -> None:
    world.configure_and_wait("consumer.assignment.interval.ms", "700")
    world.create(t=2)
    world.beat("a", 0)
    world.beat("b", 0)
    world.settle("a", 2, {"t": [0]})
    world.settle("b", 2, {})
    world.look()
    world.consumer_records()


@CHANGED_IN_4_3.add
def a_group_is_downgraded_before_its_assignment(world: ConsumerWorld) -> None:
    world.configure_and_wait("consumer.assignment.interval.ms", "15000")
    world.create(t=4)
    world.beat("a", 0, instance_id="i")
    world.join("c", "member", protocols(world, "t"))
    world.sync("c", "member", 2)
    world.look()
    world.join("a", "", protocols(world, "t"), instance="i")
    world.until_member("member")
    world.list_groups()
    world.describe()
    world.consumer_records()
