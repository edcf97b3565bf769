"""Requests to coordinators, and to brokers that are none, as scripts for `ClusterWorld`."""

from collections.abc import Iterator
from typing import Any, Final

from minibroker_protocol.messages.consumer_group import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from minibroker_protocol.messages.describe_transactions import DescribeTransactionsRequest, ListTransactionsRequest
from minibroker_protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from minibroker_protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.coordinators.groups.member_requests import (
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from tests.kafka.cluster_requests import creation, metadata, offsets, placed
from tests.kafka.cluster_scripts import SCRIPTS
from tests.kafka.cluster_world import ClusterWorld

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
Asked = tuple[Any, tuple[int, ...]]


def prepare(world: ClusterWorld) -> None:
    """Place the coordinators by hand, and wait until they are there."""
    replicas = ((1, 2), (2, 3), (3, 1))
    world.do(1, creation(*(placed(name, *replicas, cleanup_policy="compact") for name in INTERNAL)), 7)
    world.ask_all(metadata(*INTERNAL), 9)
    world.ask_all(FindCoordinatorRequest(coordinator_keys=list("abcd"), key_type=GROUP), 4)
    world.ask_all(FindCoordinatorRequest(coordinator_keys=list("abcd"), key_type=TRANSACTION), 4)


def commit(group_id: str, topic: str) -> OffsetCommitRequest:
    """An OffsetCommit of somebody who is no member."""
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="so far")
    return OffsetCommitRequest(group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=[offset])])


def committed(group_id: str, topic: str) -> OffsetFetchRequest:
    """An OffsetFetch up to version 7."""
    return OffsetFetchRequest(group_id=group_id, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])])


def about_groups(group_id: str, topic: str) -> Iterator[Asked]:
    """Requests about a group that change nothing, since it is none or its members are strangers."""
    yield heartbeat_request(group_id, "stranger", 1), (0, 4)
    yield sync_request(group_id, "stranger", 1), (0, 5)
    yield leave_request(group_id, ("stranger", None)), (0, 3, 5)
    yield join_request(group_id, "stranger"), (0, 5, 9)
    yield committed(group_id, topic), (2, 5, 7)  # version 1 has no place for an error where Kafka puts it
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    several = [OffsetFetchRequestGroup(group_id=each, topics=topics) for each in (group_id, "a", "b", "c", "d")]
    yield OffsetFetchRequest(groups=several), (8, 9)
    yield DescribeGroupsRequest(groups=[group_id, "a", "b", "c", "d"]), (0, 5)
    yield ListGroupsRequest(), (0, 5)
    yield ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False), (0,)
    gone = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    yield OffsetDeleteRequest(group_id="nobody", topics=[gone]), (0,)
    yield DeleteGroupsRequest(groups_names=["nobody", "nothing", "none"]), (0, 2)
    strange = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id="stranger", member_epoch=5)
    yield strange, (0,)


def about_transactions(transactional_id: str, topic: str) -> Iterator[Asked]:
    """Requests about a transaction of somebody who has begun none."""
    strange: dict[str, Any] = {"transactional_id": transactional_id, "producer_id": 77_777, "producer_epoch": 0}
    yield InitProducerIdRequest(transaction_timeout_ms=-5, transactional_id=transactional_id), (0, 4, 5)
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=[0])]
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=77_777,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )
    yield adding, (0, 3)
    yield AddOffsetsToTxnRequest(group_id="a", **strange), (0, 4)
    yield EndTxnRequest(committed=True, **strange), (0, 4)
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    commits = [TxnOffsetCommitRequestTopic(name=topic, partitions=[offset])]
    yield TxnOffsetCommitRequest(group_id="a", topics=commits, member_id="stranger", **strange), (3, 4)
    yield DescribeTransactionsRequest(transactional_ids=[transactional_id, "b", "c"]), (0,)
    yield ListTransactionsRequest(state_filters=[], producer_id_filters=[]), (0, 1)


@SCRIPTS.add
def those_who_do_not_coordinate(world: ClusterWorld) -> None:
    prepare(world)
    topic = world.topic("t")
    world.do(1, creation(placed(topic, (1, 2))), 7)
    world.ask_all(offsets(topic, 0), 1)
    for kind, keys in ((GROUP, "abc"), (TRANSACTION, "abc"), (SHARE, "a"), (9, "a")):
        # With version 6 Kafka 3.9 has drafts of share groups, and looks for a coordinator of its own for kind 2.
        for version in (1, 3, 4) if kind == SHARE else (1, 3, 4, 6):
            for key in keys:
                world.ask_all(FindCoordinatorRequest(key=key, coordinator_keys=[key, "d"], key_type=kind), version)
    world.ask_all(FindCoordinatorRequest(key="a"), 0)
    for key in "abc":
        for node_id in world.up:
            world.ask(node_id, commit(key, topic), 8)
        for request, versions in about_groups(key, topic):
            world.ask_all(request, *versions)
        for request, versions in about_transactions(key, topic):
            world.ask_all(request, *versions)
