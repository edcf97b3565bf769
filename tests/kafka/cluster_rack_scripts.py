"""Clients and replicas in racks, as scripts for `ClusterWorld`: the brokers 1 to 3 are in the racks a, b and a."""

import dataclasses
from typing import Any, Final

from minibroker_protocol.messages.cluster import DescribeClusterRequest
from minibroker_protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from minibroker_protocol.messages.fetch import FetchRequest
from minibroker_protocol.messages.metadata import MetadataResponsePartition
from minibroker_protocol.messages.topics import CreatableTopic
from tests.kafka.cluster_requests import creation, epoch_ends, fetch, metadata, offsets, placed, produce, reassignment
from tests.kafka.cluster_scripts import SCRIPTS
from tests.kafka.cluster_world import ClusterWorld

RACKS: Final = ("a", "b", "a")
RACK_CONFIG: Final = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
PARTITIONS: Final = 2
_BROKER: Final = 4


def _in_rack(request: FetchRequest, rack: str, **fields: Any) -> FetchRequest:
    return dataclasses.replace(request, rack_id=rack, **fields)


@SCRIPTS.add
def fetches_of_consumers_in_racks(world: ClusterWorld) -> None:
    name = world.topic("a")
    world.do(1, creation(placed(name, (1, 2), (2, 3), (3, 1), (3, 2))), 7)
    world.ask_all(metadata(name), 12)
    topic_id = world.topic_id("a")
    for index, leader in enumerate((1, 2, 3, 3)):
        world.ask(leader, produce(name, index), 9)
        world.ask_all(fetch(name, topic_id, index), 11)
    plain = fetch(name, topic_id, 0, 1, 2, 3)
    for rack in ("a", "b", "c", ""):
        world.ask_all(_in_rack(plain, rack), 10, 11, 12, 16)
    for offset in (1, 2):
        world.ask_all(_in_rack(fetch(name, topic_id, 0, 1, offset=offset), "b"), 12)
    world.ask_all(_in_rack(fetch(name, topic_id, 0, epoch=7), "b"), 12)
    world.ask_all(_in_rack(plain, "b", isolation_level=1), 12)
    waiting = _in_rack(fetch(name, topic_id, 0, offset=1), "b", max_wait_ms=20_000, min_bytes=1)
    world.ask(1, waiting, 12)
    world.ask_all(offsets(name, 0, 1), 5)
    world.ask_all(epoch_ends(name, 0, 1), 3)


@SCRIPTS.add
def racks_that_clients_see(world: ClusterWorld) -> None:
    world.ask_all(metadata(), 1, 12)
    world.ask_all(DescribeClusterRequest(include_cluster_authorized_operations=False), 0, 1)
    for node_id in (1, 2, 3):
        keys = ["broker.rack", "replica.selector.class"]
        resource = DescribeConfigsResource(resource_type=_BROKER, resource_name=str(node_id), configuration_keys=keys)
        world.ask(node_id, DescribeConfigsRequest(resources=[resource], include_synonyms=True), 2)


@SCRIPTS.add
def replicas_that_move_to_another_rack(world: ClusterWorld) -> None:
    name = world.topic("a")
    world.do(1, creation(placed(name, (1, 3))), 7)
    topic_id = world.topic_id("a")
    world.ask_all(metadata(name), 12)
    world.ask_all(_in_rack(fetch(name, topic_id, 0), "b"), 12)
    world.do(1, reassignment(name, [1, 2]), 0)
    world.ask_all(metadata(name), 12)
    world.ask_all(_in_rack(fetch(name, topic_id, 0), "b"), 12)


@SCRIPTS.add
def topics_that_brokers_place(world: ClusterWorld) -> None:
    """Kafka begins at a random broker: noted is on which racks the leaders and the replicas are."""
    names = [world.topic(letter) for letter in "ab"]
    for name, factor in zip(names, (2, 3), strict=True):
        world.do(1, creation(CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=factor)), 4)
        partitions: list[MetadataResponsePartition] = []
        while len(partitions) < PARTITIONS:
            (topic,) = world.look(1, metadata(name), 12).topics
            partitions = topic.partitions
        world.note(f"leaders of {factor}", _racks([each.leader_id for each in partitions]))
        world.note(f"replicas of {factor}", [_racks(each.replica_nodes) for each in partitions])


def _racks(node_ids: list[int]) -> list[str]:
    return sorted(RACKS[node_id - 1] for node_id in node_ids)
