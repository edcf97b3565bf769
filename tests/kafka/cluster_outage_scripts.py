"""Brokers that are stopped and started again, as scripts for `ClusterWorld`."""

from typing import Final

from minibroker_protocol.messages.cluster import DescribeClusterRequest
from minibroker_protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from minibroker_protocol.messages.groups import FindCoordinatorRequest
from minibroker_protocol.messages.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from minibroker_protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
)
from tests.kafka.cluster_coordinator_scripts import GROUP, INTERNAL, TRANSACTION, commit, committed, prepare
from tests.kafka.cluster_requests import (
    PREFERRED,
    TIMEOUT_MS,
    UNCLEAN,
    creation,
    election,
    epoch_ends,
    fetch,
    metadata,
    offsets,
    pages,
    placed,
    produce,
    reassignment,
    together,
)
from tests.kafka.cluster_scripts import SCRIPTS
from tests.kafka.cluster_world import ClusterWorld
from tests.kafka.real_cluster import NODES

_LETTERS: Final = "abcde"
"""Topics of a script: "b" has one replica, "a", "c" and "d" have `min.insync.replicas`, so that Kafka would not show
consumers what is written with acks=1 while replicas are missing, as we do, and "e" elects leaders that are not in sync,
which in Kafka lose records."""


def look(world: ClusterWorld) -> None:
    """Ask for all that there is to see of the topics, which is also how to wait until all brokers know of it."""
    names = [world.topic(letter) for letter in _LETTERS]
    world.ask_all(metadata(*names, *INTERNAL), 12, 0, 1, 5)
    world.ask_all(pages(*names, *INTERNAL), 0)
    world.ask_all(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)
    world.ask_all(together(*(offsets(name, 0, 1, 2) for name in names)), 5)
    sizes = [DescribableLogDirTopic(topic=name, partitions=[0, 1, 2]) for name in names]
    world.ask_all(DescribeLogDirsRequest(topics=sizes), 2)


def use(world: ClusterWorld) -> None:
    """Produce where no record can be lost, to those who lead and to those who do not, and fetch."""
    names = [world.topic(letter) for letter in _LETTERS]
    for name in names[:-1] if len(world.up) < len(NODES) else names:
        for node_id in world.up:
            world.ask(node_id, produce(name, 0, 1, 2, acks=-1), 9)
            if name == names[1]:
                world.ask(node_id, produce(name, 0, 1, 2, acks=1), 10)
    known = [(name, world.topic_id(letter)) for name, letter in zip(names, _LETTERS, strict=True)]
    world.ask_all(together(*(offsets(name, 0, 1, 2) for name in names)), 5)
    for epoch in (-1, 0, 1, 2):
        world.ask_all(together(*(fetch(*each, 0, 1, 2, epoch=epoch) for each in known)), 12)
        world.ask_all(together(*(epoch_ends(name, 0, 1, 2, epoch=epoch) for name in names)), 4)
    world.ask_all(together(*(fetch(*each, 0, 1, 2) for each in known)), 17)
    for asked in (1, 2):
        world.ask_all(together(*(epoch_ends(name, 0, 1, 2, asked=asked) for name in names)), 4)


def administer(world: ClusterWorld) -> None:
    """Ask for what needs the brokers that are down, and change nothing that lasts."""
    topic = world.topic("new")
    any_three = CreatableTopic(name=world.topic("three"), num_partitions=1, replication_factor=3)
    for creatable in (
        any_three,
        CreatableTopic(name=topic, num_partitions=1, replication_factor=4),
        placed(topic, (3,)),
        placed(topic, (3, 2)),
        placed(topic, (3, 1), (1, 3)),
    ):
        world.do(1, creation(creatable), 7)
    world.ask_all(metadata(topic), 9)
    for given in ([3, 2], [3, 1]):
        more = CreatePartitionsTopic(name=topic, count=3, assignments=[CreatePartitionsAssignment(broker_ids=given)])
        world.do(1, CreatePartitionsRequest(topics=[more], timeout_ms=TIMEOUT_MS), 3)
    world.ask_all(metadata(topic), 9)
    world.do(1, DeleteTopicsRequest(topic_names=[topic, any_three.name, world.topic("none")], timeout_ms=TIMEOUT_MS), 5)
    world.ask_all(metadata(topic), 9)
    for letter in "abcd":
        world.do(1, election(PREFERRED, world.topic(letter), 0, 1, 2), 2)
    world.do(1, election(UNCLEAN, world.topic("b"), 0, 1, 2), 2)
    world.do(1, reassignment(world.topic("a"), [1, 9]), 0)
    asked = DescribeConfigsResource(resource_type=4, resource_name="3", configuration_keys=[])
    world.ask_all(DescribeConfigsRequest(resources=[asked]), 4)


def coordinators(world: ClusterWorld) -> None:
    """Look for coordinators, and for what one of them knows."""
    for kind in (GROUP, TRANSACTION):
        world.ask_all(FindCoordinatorRequest(coordinator_keys=list("abcd"), key_type=kind), 4)
    world.ask_all(FindCoordinatorRequest(key="c"), 2)
    for group_id in "abcd":
        world.ask_all(committed(group_id, world.topic("a")), 5)


@SCRIPTS.add
def brokers_that_come_and_go(world: ClusterWorld) -> None:
    prepare(world)
    names = [world.topic(letter) for letter in _LETTERS]
    replicas = ((3, 1, 2), (1, 2, 3), (2, 3, 1))
    world.do(
        1,
        creation(
            placed(names[0], *replicas, min_insync_replicas="3"),
            placed(names[1], (3,), (1,), (2,)),
            placed(names[2], (3, 1), (1, 3), (2, 3), min_insync_replicas="2"),
            placed(names[3], *replicas, min_insync_replicas="2"),
            placed(names[4], (2, 3), (3, 2), (3, 1), unclean_leader_election_enable="true"),
        ),
        7,
    )
    look(world)
    for group_id in "abc":
        for node_id in world.up:
            world.ask(node_id, commit(group_id, names[0]), 8)
    use(world)
    coordinators(world)
    world.stop(3)
    look(world)
    use(world)
    administer(world)
    coordinators(world)
    world.stop(2)
    look(world)
    use(world)
    more = CreatePartitionsTopic(name=names[4], count=4, assignments=[CreatePartitionsAssignment(broker_ids=[3, 2])])
    world.do(1, CreatePartitionsRequest(topics=[more], timeout_ms=TIMEOUT_MS), 3)
    coordinators(world)
    world.start(3)
    look(world)
    use(world)
    coordinators(world)
    world.do(1, election(UNCLEAN, names[2], 0, 1, 2), 2)
    world.do(1, election(UNCLEAN, names[1], 0, 1, 2), 2)
    look(world)
    world.start(2)
    look(world)
    use(world)
    coordinators(world)
    for name in (*names, *INTERNAL):
        world.do(1, election(PREFERRED, name, 0, 1, 2), 2)
    look(world)
    use(world)
    coordinators(world)
