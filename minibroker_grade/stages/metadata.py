"""Stage 3: Metadata, which describes the cluster."""

from typing import Final

from minibroker_grade.check import Stage
from minibroker_grade.subject import Subject
from minibroker_grade.wire import accepts_connections
from minibroker_protocol.messages.cluster import DescribeClusterRequest
from minibroker_protocol.messages.groups import FindCoordinatorRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.primitives import ZERO_UUID

STAGE: Final = Stage("metadata", "3 Metadata", "Metadata lists the brokers and the leader of each partition.")
_SOURCE: Final = "KafkaApis.handleTopicMetadataRequest"


@STAGE.check(_SOURCE, look="List at least this broker.")
def the_brokers_are_listed(b: Subject) -> None:
    """Each broker is listed with its id, and the host and port at which clients reach it."""
    answer = b.metadata()
    b.holds(answer.brokers, "at least one broker", answer, "brokers")
    b.holds(answer.brokers[0].host, "a host", answer, "brokers[0].host")
    ports = [broker.port for broker in answer.brokers]
    b.holds(all(0 < port < 1 << 16 for port in ports), "a port from 1 to 65535", answer, "brokers[0].port")


@STAGE.check("advertised.listeners", look="Advertise an address that clients can reach, not 0.0.0.0.")
def the_advertised_address_leads_back(b: Subject) -> None:
    """After bootstrapping, a client connects to the address in Metadata, so a broker must listen there."""
    answer = b.metadata()
    addresses = {(broker.host, broker.port) for broker in answer.brokers}
    for index, address in enumerate(sorted(addresses)):
        is_reached = accepts_connections(address, b.remaining_s())
        b.holds(is_reached, "an address that accepts connections", answer, f"brokers[{index}].port")


@STAGE.check(_SOURCE, look="Return the id of a listed broker as the controller.")
def the_controller_is_one_of_the_brokers(b: Subject) -> None:
    """Admin clients send changes to the controller, so the controller id must be among the brokers."""
    answer = b.metadata()
    ids = {broker.node_id for broker in answer.brokers}
    b.holds(answer.controller_id in ids, "the id of a listed broker", answer, "controller_id")


@STAGE.check("KIP-78", look="Generate an id once, and store it in meta.properties.")
def the_cluster_has_an_id(b: Subject) -> None:
    """The cluster id is present from version 2 on and does not change."""
    first, second = b.metadata(), b.metadata()
    b.holds(first.cluster_id, "an id", first, "cluster_id")
    b.same(second, "cluster_id", first.cluster_id)


@STAGE.check(_SOURCE, look="From version 1 on, return no topics for an empty array. In version 0 it means all topics.")
def an_empty_list_asks_for_no_topic(b: Subject) -> None:
    """From version 1 on, an empty topic list requests only the brokers."""
    b.topic()
    answer = b.metadata()
    b.equal(len(answer.topics), 0, "the number of topics", answer, "topics")


@STAGE.check(_SOURCE, look="Return all topics for null.")
def null_asks_for_all_topics(b: Subject) -> None:
    """A null topic list requests all topics."""
    names = {b.topic(), b.topic()}
    answer = b.ask(MetadataRequest(topics=None))
    missing = sorted(names - {topic.name for topic in answer.topics})
    b.equal(missing, [], "the topics that are missing", answer, "topics")


@STAGE.check(_SOURCE, look="Return each requested topic, with UNKNOWN_TOPIC_OR_PARTITION if it is missing.")
def an_unknown_topic_has_error_3(b: Subject) -> None:
    """A topic that does not exist is returned with error 3 and without partitions."""
    answer = b.metadata(b.name())
    b.same(answer, "topics[0].error_code", 3)
    b.equal(len(answer.topics[0].partitions), 0, "the number of partitions", answer, "topics[0].partitions")


@STAGE.check("KIP-361, MetadataRequest.allowAutoTopicCreation", look="Do not create a topic if the request forbids it.")
def asking_creates_nothing_when_that_is_forbidden(b: Subject) -> None:
    """A consumer that only looks up a topic must not create that topic."""
    name = b.name()
    b.metadata(name)
    answer = b.metadata(name)
    b.same(answer, "topics[0].error_code", 3)


@STAGE.check("Topic.validate", look="Check names: at most 249 letters, digits, dots, underscores and minus signs.")
def a_name_that_no_topic_can_have_has_error_17(b: Subject) -> None:
    """A name with invalid characters is rejected with INVALID_TOPIC_EXCEPTION, and no topic is created."""
    answer = b.metadata("grade no/topic", create=True)
    b.same(answer, "topics[0].error_code", 17)


@STAGE.check(_SOURCE, look="List each partition once, starting with 0.")
def all_partitions_are_listed(b: Subject) -> None:
    """A topic with three partitions has partitions 0, 1 and 2, in any order."""
    answer = b.metadata(b.topic(3))
    indexes = sorted(partition.partition_index for partition in answer.topics[0].partitions)
    b.equal(indexes, [0, 1, 2], "the sorted partitions", answer, "topics[0].partitions")


@STAGE.check(_SOURCE, look="Return a leader among the replicas, and the in-sync replicas, for each partition.")
def leader_replicas_and_isr_fit_together(b: Subject) -> None:
    """The leader is one of the in-sync replicas, these are a subset of the replicas, and every replica is a broker."""
    answer = b.metadata(b.topic())
    partition = answer.topics[0].partitions[0]
    path = "topics[0].partitions[0]"
    brokers = {broker.node_id for broker in answer.brokers}
    b.same(answer, f"{path}.error_code", 0)
    leader, in_sync, replicas = partition.leader_id, set(partition.isr_nodes), set(partition.replica_nodes)
    actual = f"leader {leader}, in sync {sorted(in_sync)}, replicas {sorted(replicas)}, brokers {sorted(brokers)}"
    b.holds(leader in in_sync, "a leader in sync", answer, f"{path}.leader_id", actual=actual)
    b.holds(in_sync <= replicas, "replicas in sync that are replicas", answer, f"{path}.isr_nodes", actual=actual)
    b.holds(replicas <= brokers, "replicas that are listed brokers", answer, f"{path}.replica_nodes", actual=actual)
    b.equal(len(partition.replica_nodes), 1, "the number of replicas", answer, f"{path}.replica_nodes")


@STAGE.check("KIP-320", look="Start with epoch 0, and return the leader epoch from version 7 on.")
def the_leader_epoch_is_told(b: Subject) -> None:
    """From version 7 on, each partition has its leader epoch, which fences clients with outdated metadata."""
    answer = b.metadata(b.topic(), version=7)
    epoch = answer.topics[0].partitions[0].leader_epoch
    b.holds(epoch >= 0, "0 or more", answer, "topics[0].partitions[0].leader_epoch")


@STAGE.check(_SOURCE, look="Return all topics of a request.")
def several_topics_are_answered_one_by_one(b: Subject) -> None:
    """Each topic has its own error, so a missing topic does not affect the others."""
    name, missing = b.topic(), b.name()
    answer = b.metadata(name, missing)
    errors = {topic.name: topic.error_code for topic in answer.topics}
    b.equal(errors, {name: 0, missing: 3}, "the errors by topic", answer, "topics")


@STAGE.check("KIP-516", look="Assign a random id to each new topic, and return it from version 10 on.")
def a_topic_has_an_id(b: Subject) -> None:
    """From version 10 on, each topic has its own id. A later topic with the same name gets a different id."""
    names = b.topic(), b.topic()
    answer = b.metadata(*names, version=10)
    ids = {bytes(topic.topic_id) for topic in answer.topics}
    b.holds(bytes(ZERO_UUID) not in ids and len(ids) == len(names), "two ids that differ", answer, "topics[0].topic_id")


@STAGE.check("KIP-516", look="Find topics by id from version 12 on.")
def a_topic_is_found_by_its_id(b: Subject) -> None:
    """A request of version 12 can identify a topic by its id alone, and the response has the topic's name."""
    name = b.topic()
    topic = MetadataRequestTopic(name=None, topic_id=b.metadata(name, version=12).topics[0].topic_id)
    answer = b.ask(MetadataRequest(topics=[topic]), 12)
    b.same(answer, "topics[0].name", name)


@STAGE.check("KIP-516", look="Return UNKNOWN_TOPIC_ID for an unknown id.")
def an_unknown_id_has_error_100(b: Subject) -> None:
    """The id of a deleted topic gets UNKNOWN_TOPIC_ID, so that clients do not confuse the topic with its successor."""
    unknown = MetadataRequestTopic(name=None, topic_id=b"\x11" * 16)
    answer = b.ask(MetadataRequest(topics=[unknown]), 12)
    b.same(answer, "topics[0].error_code", 100)


@STAGE.check("KIP-700", look="Return the same brokers in DescribeCluster as in Metadata.")
def describecluster_knows_the_same_cluster(b: Subject) -> None:
    """Admin clients use DescribeCluster, which returns the same cluster id and brokers as Metadata."""
    expected = b.metadata()
    answer = b.ask(DescribeClusterRequest(include_cluster_authorized_operations=False))
    b.same(answer, "cluster_id", expected.cluster_id)
    described = {(broker.broker_id, broker.host, broker.port) for broker in answer.brokers}
    brokers = {(broker.node_id, broker.host, broker.port) for broker in expected.brokers}
    b.equal(described, brokers, "the brokers", answer, "brokers")


@STAGE.check("KafkaApis.getCoordinator", look="Choose a listed broker by the hash of the group id.")
def the_coordinator_is_one_of_the_brokers(b: Subject) -> None:
    """FindCoordinator returns the broker that coordinates a group, with the same id and address as in Metadata."""
    answer = b.until(
        lambda: b.ask(FindCoordinatorRequest(key="grade")),
        lambda answer: answer.error_code not in {14, 15},
        "a coordinator",
    )
    b.same(answer, "error_code", 0)
    brokers = {(broker.node_id, broker.host, broker.port) for broker in b.metadata().brokers}
    coordinator = (answer.node_id, answer.host, answer.port)
    b.holds(coordinator in brokers, "the id and the address of a listed broker", answer, "node_id")
