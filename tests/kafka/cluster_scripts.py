"""Requests of clients to three brokers that are up, as scripts for `ClusterWorld`."""

from typing import Final

from minibroker_protocol.messages.cluster import DescribeClusterRequest, DescribeQuorumRequest, PartitionData, TopicData
from minibroker_protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementallyAlteredConfig,
    IncrementallyAlteredResource,
)
from minibroker_protocol.messages.describe_transactions import DescribeProducersRequest, TopicRequest
from minibroker_protocol.messages.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from minibroker_protocol.messages.log_offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from minibroker_protocol.messages.reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from minibroker_protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.kafka.cluster_requests import (
    EARLIEST,
    LATEST,
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
)
from tests.kafka.cluster_world import ClusterWorld
from tests.kafka.scripts import Scripts

SCRIPTS: Final = Scripts[ClusterWorld]()


@SCRIPTS.add
def topics_of_all_factors(world: ClusterWorld) -> None:
    one, two, three = (world.topic(letter) for letter in "abc")
    world.do(1, creation(placed(one, (3,), (1,)), placed(two, (2, 3), (3, 1))), 7)
    world.do(2, creation(placed(three, (3, 2, 1), (1, 2, 3), (2, 1, 3))), 5)
    world.ask_all(metadata(one, two, three, world.topic("none")), 0, 1, 4, 7, 9, 12)
    world.ask_all(pages(one, two, three, world.topic("none")), 0)
    world.ask_all(DescribeClusterRequest(include_cluster_authorized_operations=False), 0, 1)


@SCRIPTS.add
def topics_that_cannot_be_placed(world: ClusterWorld) -> None:
    world.do(1, creation(CreatableTopic(name=world.topic("four"), num_partitions=1, replication_factor=4)), 7)
    world.do(1, creation(CreatableTopic(name=world.topic("zero"), num_partitions=1, replication_factor=0)), 7)
    wrong = (
        placed(world.topic("strange"), (1, 4)),
        placed(world.topic("negative"), (-1,)),
        placed(world.topic("twice"), (1, 1)),
        placed(world.topic("uneven"), (1, 2), (3,)),
        placed(world.topic("none"), ()),
        CreatableTopic(
            name=world.topic("both"), num_partitions=1, replication_factor=1, assignments=placed("x", (1,)).assignments
        ),
    )
    for each in wrong:
        world.do(2, creation(each), 7)
    gap = placed(world.topic("gap"), (1,), (2,))
    gap.assignments[1].partition_index = 2
    world.do(3, creation(gap), 7)
    world.do(3, creation(placed(world.topic("fine"), (1, 2)), validate_only=True), 7)


@SCRIPTS.add
def more_partitions(world: ClusterWorld) -> None:
    topic = world.topic("a")
    world.do(1, creation(placed(topic, (1, 2))), 7)
    world.ask_all(metadata(topic), 9)

    def more(count: int, *replicas: tuple[int, ...]) -> CreatePartitionsRequest:
        given = [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in replicas] or None
        requested_topic = CreatePartitionsTopic(name=topic, count=count, assignments=given)
        return CreatePartitionsRequest(topics=[requested_topic], timeout_ms=TIMEOUT_MS)

    for refused in (
        more(1),
        more(0),
        more(2, (1,)),
        more(2, (1, 2, 3)),
        more(2, (1, 4)),
        more(2, (1, 1)),
        more(2, ()),
        more(2, (1, 2), (2, 3)),
        more(3, (1, 2)),
        more(3, (1, 2), (3,)),
    ):
        world.do(2, refused, 3)
    world.do(3, more(3, (3, 2), (2, 1)), 3)
    world.ask_all(metadata(topic), 9)


@SCRIPTS.add
def those_who_do_not_lead(world: ClusterWorld) -> None:
    """Node 3 does not keep partition 0, node 2 not partition 1, and there is no partition 2."""
    topic = world.topic("a")
    world.do(1, creation(placed(topic, (1, 2), (3, 1))), 7)
    world.ask_all(metadata(topic), 9)
    topic_id = world.topic_id("a")
    world.ask_all(offsets(topic, 0, 1), 1)
    world.do(1, produce(topic, 0), 9)
    world.do(3, produce(topic, 1), 9)
    world.ask(2, fetch(topic, topic_id, 0), 11)  # which a replica answers, once it has the record
    world.ask_all(produce(topic, 2), 3, 9, 10, 11)
    for version in (3, 8, 9, 10, 11):
        world.ask(2, produce(topic, 0, 1), version)
        world.ask(1, produce(topic, 1, acks=1), version)
        world.ask(3, produce(topic, 0), version)
    for version in (4, 9, 11, 12, 13, 16, 17):
        world.ask_all(fetch(topic, topic_id, 0, 1, 2), version)
    for epoch in (0, 1):
        world.ask_all(fetch(topic, topic_id, 0, 1, epoch=epoch), 9, 12, 17)
    world.ask_all(fetch(topic, topic_id, 0, 1, offset=2), 4, 11, 16)
    for version in (0, 1, 3, 4, 5, 7, 8, 9):
        world.ask_all(offsets(topic, 0, 1, 2), version)
        world.ask_all(offsets(topic, 0, 1, time=EARLIEST), version)
    for version in (7, 8, 9):
        world.ask_all(offsets(topic, 0, 1, time=-3), version)
        world.ask_all(offsets(topic, 0, 1, time=500), version)
    for epoch in (0, 1):
        world.ask_all(offsets(topic, 0, 1, epoch=epoch), 4, 7)
        for version in (2, 3, 4):
            world.ask_all(epoch_ends(topic, 0, 1, 2, epoch=epoch), version)
    world.ask_all(epoch_ends(topic, 0, 1, 2), 0, 1, 3)
    partitions = [DeleteRecordsPartition(partition_index=index, offset=0) for index in (0, 1, 2)]
    deletion = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=TIMEOUT_MS
    )
    world.ask_all(deletion, 0, 2)
    world.ask_all(DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0, 1, 2])]), 0)


@SCRIPTS.add
def log_directories(world: ClusterWorld) -> None:
    topic = world.topic("a")
    world.do(1, creation(placed(topic, (1, 2), (3, 1))), 7)
    world.ask_all(offsets(topic, 0, 1), 1)
    world.do(1, produce(topic, 0), 9)
    requested_topic = DescribableLogDirTopic(topic=topic, partitions=[0, 1, 2])
    world.ask_all(DescribeLogDirsRequest(topics=[requested_topic]), 1, 2, 3, 4)


@SCRIPTS.add
def the_quorum(world: ClusterWorld) -> None:
    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    world.ask_all(DescribeQuorumRequest(topics=[topic]), 0, 1, 2)


@SCRIPTS.add
def configurations_of_other_brokers(world: ClusterWorld) -> None:
    for kind in (4, 8):
        for name in ("1", "2", "7", "x", "-1"):
            asked = DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=["log.retention.ms", "kafka"]
            )
            if name in "12" and kind == 8:
                asked.configuration_keys = ["none"]
            world.ask_all(DescribeConfigsRequest(resources=[asked]), 4)
            change = IncrementallyAlteredConfig(name="log.retention.ms", config_operation=0, value="-1")
            if kind == 8:
                change = IncrementallyAlteredConfig(name="none", config_operation=0, value="INFO")
            resource = IncrementallyAlteredResource(resource_type=kind, resource_name=name, configs=[change])
            for node_id in world.up:
                world.do(node_id, IncrementalAlterConfigsRequest(resources=[resource], validate_only=True), 1)


@SCRIPTS.add
def reassignments(world: ClusterWorld) -> None:
    topic = world.topic("a")
    world.do(1, creation(placed(topic, (1, 2), (3, 1))), 7)
    world.ask_all(metadata(topic), 9)
    world.ask_all(offsets(topic, 0, 1), 1)
    world.do(1, produce(topic, 0), 9)
    none = ListPartitionReassignmentsRequest(topics=None)
    for refused in (
        reassignment(topic, [1, 4]),
        reassignment(topic, [-1]),
        reassignment(topic, [2, 2]),
        reassignment(topic, []),
        reassignment(topic, None, None),
        reassignment(topic, [1, 2], [3], [1]),
        reassignment(world.topic("none"), [1]),
    ):
        world.do(2, refused, 0)
    world.ask_all(none, 0)
    steps: tuple[tuple[list[int] | None, ...], ...] = (
        ([1, 2], [3, 1]),  # nothing to do
        ([2, 1], [3, 1]),  # another preferred replica
        ([2, 1, 3], [3, 1]),  # more of them
        ([3, 1], [3, 1]),  # less of them, not the leader
        ([2], [2]),  # others
        ([2, 3], [3, 2]),
        ([3], [3]),  # the leader goes
    )
    for step in steps:
        world.do(3, reassignment(topic, *step), 0)
        world.ask_all(none, 0)
        world.ask_all(metadata(topic), 9)
        world.ask_all(pages(topic), 0)
        world.ask_all(offsets(topic, 0, 1), 5)
    listed = ListPartitionReassignmentsTopics(name=topic, partition_indexes=[0, 9])
    world.ask_all(ListPartitionReassignmentsRequest(topics=[listed]), 0)
    world.ask_all(epoch_ends(topic, 0, asked=0), 3)
    world.ask_all(fetch(topic, world.topic_id("a"), 0), 12)


@SCRIPTS.add
def elections_that_nobody_needs(world: ClusterWorld) -> None:
    topic = world.topic("a")
    world.do(1, creation(placed(topic, (1, 2), (3, 1))), 7)
    world.ask_all(metadata(topic), 9)
    for kind in (PREFERRED, UNCLEAN, 5):
        for node_id in world.up:
            world.do(node_id, election(kind, topic, 0, 1, 2), 2)
            world.do(node_id, election(kind, world.topic("none"), 0), 2)
    world.do(2, election(PREFERRED, topic, 0, 1, 2), 0)
    world.do(2, election(PREFERRED, topic, 0, 1, 2), 1)
    world.do(1, reassignment(topic, [2, 1]), 0)  # node 1 goes on
    world.ask_all(metadata(topic), 9)
    world.do(3, election(UNCLEAN, topic, 0), 2)
    world.do(3, election(PREFERRED, topic, 0), 2)
    world.ask_all(metadata(topic), 9)
    world.ask_all(offsets(topic, 0), 5)


@SCRIPTS.add
def offsets_and_their_epochs(world: ClusterWorld) -> None:
    """Partition 0 has a record of the first leader, 1 one of each, 2 none, 3 lost its record."""
    topic = world.topic("a")
    world.do(1, creation(placed(topic, (1, 2), (1, 2), (1, 2), (1, 2))), 7)
    world.ask_all(metadata(topic), 9)
    world.ask_all(offsets(topic, 0, 1, 2, 3), 5)
    world.do(1, produce(topic, 0, 1, 3), 9)

    def look() -> None:
        world.ask_all(metadata(topic), 9)
        for time in (LATEST, EARLIEST, -3, -4, 500, 1_000, 1_001):
            world.ask_all(offsets(topic, 0, 1, 2, 3, time=time), 4, 8)

    look()
    world.do(1, reassignment(topic, *[[2, 1]] * 4), 0)
    world.ask_all(metadata(topic), 9)
    world.do(1, election(PREFERRED, topic, 0, 1, 2, 3), 2)
    look()
    world.do(2, produce(topic, 1), 9)
    behind = [DeleteRecordsPartition(partition_index=3, offset=1), DeleteRecordsPartition(partition_index=1, offset=1)]
    world.do(2, DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=behind)], timeout_ms=10_000), 2)
    look()
