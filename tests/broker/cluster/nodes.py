"""Three brokers without sockets, from the view of a client of each of them."""

from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker_protocol.messages import topics as topic_messages
from minibroker_protocol.messages.groups import Coordinator, FindCoordinatorRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.harness import Harness

NODES: Final = (1, 2, 3)
GROUP: Final = 0
TRANSACTION: Final = 1


def at(cluster: Harness, node_id: int | None) -> Harness:
    """Direct further requests to this node, and return the same brokers."""
    cluster.asks = node_id
    return cluster


def stop(cluster: Harness, *node_ids: int) -> None:
    """Stop nodes one after the other."""
    for node_id in node_ids:
        cluster.core.cluster.stop_node(node_id)


def create(
    cluster: Harness,
    name: str = "t",
    partitions: int = 3,
    factor: int = 3,
    *,
    by_hand: tuple[tuple[int, ...], ...] = (),
    **configs: str,
) -> topic_messages.CreatableTopicResult:
    """Create a topic. `min_insync_replicas="2"` stands for min.insync.replicas=2."""
    topic = topic_messages.CreatableTopic(
        name=name,
        num_partitions=-1 if by_hand else partitions,
        replication_factor=-1 if by_hand else factor,
        assignments=[
            topic_messages.CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in enumerate(by_hand)
        ],
        configs=[
            topic_messages.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    (result,) = cluster.ask(topic_messages.CreateTopicsRequest(topics=[topic]), 7).topics
    assert isinstance(result, topic_messages.CreatableTopicResult)
    return result


def partition(cluster: Harness, index: int = 0, topic: str = "t") -> Partition:
    """Return a partition."""
    return cluster.topic(topic).partitions[index]


def leader(cluster: Harness, index: int = 0, topic: str = "t") -> int:
    """Return the leader of a partition, or -1."""
    node = partition(cluster, index, topic).leader
    return -1 if node is None else node.id


def metadata(cluster: Harness, *topics: str, version: int = 12) -> MetadataResponse:
    """Return the cluster's metadata as a client gets it."""
    requested = [MetadataRequestTopic(name=name) for name in topics]
    response = cluster.ask(MetadataRequest(topics=requested), version)
    assert isinstance(response, MetadataResponse)
    return response


def described(cluster: Harness, topic: str = "t", version: int = 12) -> list[Any]:
    """Return the partitions of a topic in a Metadata response."""
    (described_topic,) = metadata(cluster, topic, version=version).topics
    assert described_topic.error_code == 0
    return list(described_topic.partitions)


def coordinator(cluster: Harness, key: str, key_type: int = GROUP) -> Coordinator:
    """Return the coordinator of a group or a transactional id."""
    (result,) = cluster.ask(FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type), 4).coordinators
    assert isinstance(result, Coordinator)
    return result


def others(*node_ids: int) -> tuple[int, ...]:
    """Return all nodes except these."""
    return tuple(node_id for node_id in NODES if node_id not in node_ids)
