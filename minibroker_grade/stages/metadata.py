"""Stage 3: Metadata, the map of the cluster."""

from typing import Final

from minibroker_grade.check import Stage
from minibroker_grade.subject import Subject
from minibroker_protocol.messages.cluster import DescribeClusterRequest
from minibroker_protocol.messages.groups import FindCoordinatorRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from minibroker_protocol.primitives import ZERO_UUID

STAGE: Final = Stage(
    "metadata", "3 Metadata", "Clients learn from it which brokers there are and who leads a partition."
)
_SOURCE: Final = "KafkaApis.handleTopicMetadataRequest"


def _ask(b: Subject, *names: str, create: bool = False) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
    answer: MetadataResponse = b.ask(request)
    return answer


@STAGE.check(_SOURCE, look="List at least yourself.")
def the_brokers_are_listed(b: Subject) -> None:
    """Each broker comes with its id, and the host and port that clients reach it at."""
    answer = _ask(b)
    b.holds(answer.brokers, "at least one broker", answer, "brokers")
    b.holds(answer.brokers[0].host, "a host", answer, "brokers[0].host")
    ports = [broker.port for broker in answer.brokers]
    b.holds(all(0 < port < 1 << 16 for port in ports), "a port from 1 to 65535", answer, "brokers[0].port")


@STAGE.check("advertised.listeners", look="Advertise an address that the client can reach, not 0.0.0.0.")
def the_advertised_address_leads_back(b: Subject) -> None:
    """A client leaves its bootstrap address and connects to the one in Metadata; a broker has to be there."""
    answer = _ask(b)
    addresses = {(broker.host, broker.port) for broker in answer.brokers}
    for index, (host, port) in enumerate(sorted(addresses)):
        b.holds(b.reaches((host, port)), "an address that accepts connections", answer, f"brokers[{index}].port")


@STAGE.check(_SOURCE, look="Name a broker of the list as the controller.")
def the_controller_is_one_of_the_brokers(b: Subject) -> None:
    """Admin clients send changes to the controller; its id has to be among the brokers."""
    answer = _ask(b)
    b.holds(
        answer.controller_id in {broker.node_id for broker in answer.brokers},
        "the id of a listed broker",
        answer,
        "controller_id",
    )


@STAGE.check("KIP-78", look="Make an id once, and keep it in meta.properties.")
def the_cluster_has_an_id(b: Subject) -> None:
    """The id of the cluster is there from version 2 on and does not change."""
    first, second = _ask(b), _ask(b)
    b.holds(first.cluster_id, "an id", first, "cluster_id")
    b.same(second, "cluster_id", first.cluster_id)


@STAGE.check(_SOURCE, look="An empty array asks for no topic from version 1 on; version 0 alone means all.")
def an_empty_list_asks_for_no_topic(b: Subject) -> None:
    """From version 1 on clients ask for the brokers alone with an empty list."""
    b.topic()
    answer = _ask(b)
    b.equal(len(answer.topics), 0, "the number of topics", answer, "topics")


@STAGE.check(_SOURCE, look="Take null as all topics.")
def null_asks_for_all_topics(b: Subject) -> None:
    """Null instead of a list asks for every topic."""
    names = {b.topic(), b.topic()}
    answer = b.ask(MetadataRequest(topics=None))
    b.equal(
        sorted(names - {topic.name for topic in answer.topics}), [], "the topics that are missing", answer, "topics"
    )


@STAGE.check(_SOURCE, look="Answer for each asked topic, with UNKNOWN_TOPIC_OR_PARTITION for what is not there.")
def an_unknown_topic_has_error_3(b: Subject) -> None:
    """A topic that does not exist is an element with error 3 and no partitions."""
    answer = _ask(b, b.name())
    b.same(answer, "topics[0].error_code", 3)
    b.equal(len(answer.topics[0].partitions), 0, "the number of partitions", answer, "topics[0].partitions")


@STAGE.check("KIP-361, MetadataRequest.allowAutoTopicCreation", look="Create nothing when the request forbids it.")
def asking_creates_nothing_when_that_is_forbidden(b: Subject) -> None:
    """A consumer that only looks must not create the topic that it looks for."""
    name = b.name()
    _ask(b, name)
    answer = _ask(b, name)
    b.same(answer, "topics[0].error_code", 3)


@STAGE.check("Topic.validate", look="Check names: letters, digits, dot, underscore and minus, at most 249 of them.")
def a_name_that_no_topic_can_have_has_error_17(b: Subject) -> None:
    """A name with other characters is refused with INVALID_TOPIC_EXCEPTION, not created."""
    answer = _ask(b, "grade no/topic", create=True)
    b.same(answer, "topics[0].error_code", 17)


@STAGE.check(_SOURCE, look="List each partition once, from 0 on.")
def all_partitions_are_listed(b: Subject) -> None:
    """A topic of three partitions has the partitions 0, 1 and 2, in any order."""
    answer = _ask(b, b.topic(3))
    indexes = sorted(partition.partition_index for partition in answer.topics[0].partitions)
    b.equal(indexes, [0, 1, 2], "the sorted partitions", answer, "topics[0].partitions")


@STAGE.check(_SOURCE, look="Give each partition a leader out of its replicas, and the replicas in sync.")
def leader_replicas_and_isr_fit_together(b: Subject) -> None:
    """The leader is one of the replicas in sync, those are replicas, and replicas are brokers."""
    answer = _ask(b, b.topic())
    partition = answer.topics[0].partitions[0]
    path = "topics[0].partitions[0]"
    brokers = {broker.node_id for broker in answer.brokers}
    b.same(answer, f"{path}.error_code", 0)
    leader, in_sync, replicas = partition.leader_id, set(partition.isr_nodes), set(partition.replica_nodes)
    came = f"leader {leader}, in sync {sorted(in_sync)}, replicas {sorted(replicas)}, brokers {sorted(brokers)}"
    b.holds(leader in in_sync, "a leader in sync", answer, f"{path}.leader_id", came=came)
    b.holds(in_sync <= replicas, "replicas in sync that are replicas", answer, f"{path}.isr_nodes", came=came)
    b.holds(replicas <= brokers, "replicas that are listed brokers", answer, f"{path}.replica_nodes", came=came)
    b.equal(len(partition.replica_nodes), 1, "the number of replicas", answer, f"{path}.replica_nodes")


@STAGE.check("KIP-320", look="Begin with epoch 0, and tell it from version 7 on.")
def the_leader_epoch_is_told(b: Subject) -> None:
    """From version 7 on each partition has the epoch of its leader, which fences clients with old metadata."""
    b.newest(MetadataRequest)
    answer = b.ask(MetadataRequest(topics=[MetadataRequestTopic(name=b.topic())]), 7)
    b.holds(
        answer.topics[0].partitions[0].leader_epoch >= 0, "0 or more", answer, "topics[0].partitions[0].leader_epoch"
    )


@STAGE.check(_SOURCE, look="Answer for all topics of a request.")
def several_topics_are_answered_one_by_one(b: Subject) -> None:
    """Each topic has its own error: one that is missing spoils no other."""
    name, missing = b.topic(), b.name()
    answer = _ask(b, name, missing)
    errors = {topic.name: topic.error_code for topic in answer.topics}
    b.equal(errors, {name: 0, missing: 3}, "the errors by topic", answer, "topics")


@STAGE.check("KIP-516", look="Give each topic a random id when it is created, and tell it from version 10 on.")
def a_topic_has_an_id(b: Subject) -> None:
    """From version 10 on a topic has an id that is its own: a topic with the same name later gets another one."""
    one, two = b.topic(), b.topic()
    topics = [MetadataRequestTopic(name=one), MetadataRequestTopic(name=two)]
    answer = b.ask(MetadataRequest(topics=topics), 10)
    ids = {bytes(topic.topic_id) for topic in answer.topics}
    b.holds(
        bytes(ZERO_UUID) not in ids and len(ids) == len(topics), "two ids that differ", answer, "topics[0].topic_id"
    )


@STAGE.check("KIP-516", look="Find topics by id from version 12 on.")
def a_topic_is_found_by_its_id(b: Subject) -> None:
    """A request of version 12 may name a topic by its id alone, and the answer has its name."""
    name = b.topic()
    found = b.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=found.topics[0].topic_id)])
    answer = b.ask(by_id, 12)
    b.same(answer, "topics[0].name", name)


@STAGE.check("KIP-516", look="Answer UNKNOWN_TOPIC_ID for an id that no topic has.")
def an_unknown_id_has_error_100(b: Subject) -> None:
    """An id of a topic that is gone is UNKNOWN_TOPIC_ID, so that the client does not confuse it with its successor."""
    unknown = MetadataRequestTopic(name=None, topic_id=b"\x11" * 16)
    answer = b.ask(MetadataRequest(topics=[unknown]), 12)
    b.same(answer, "topics[0].error_code", 100)


@STAGE.check("KIP-700", look="Tell the same brokers in DescribeCluster as in Metadata.")
def describecluster_knows_the_same_cluster(b: Subject) -> None:
    """Admin clients ask DescribeCluster; it tells the id and the brokers of Metadata."""
    expected = _ask(b)
    answer = b.ask(DescribeClusterRequest(include_cluster_authorized_operations=False))
    b.same(answer, "cluster_id", expected.cluster_id)
    found = {(broker.broker_id, broker.host, broker.port) for broker in answer.brokers}
    brokers = {(broker.node_id, broker.host, broker.port) for broker in expected.brokers}
    b.equal(found, brokers, "the brokers", answer, "brokers")


@STAGE.check("KafkaApis.getCoordinator", look="Choose a broker of the list by the hash of the group's id.")
def the_coordinator_is_one_of_the_brokers(b: Subject) -> None:
    """FindCoordinator names the broker that keeps a group; its id and address are those of Metadata."""
    answer = b.until(
        lambda: b.ask(FindCoordinatorRequest(key="grade")),
        lambda found: found.error_code not in {14, 15},
        "a coordinator",
    )
    b.same(answer, "error_code", 0)
    brokers = {(broker.node_id, broker.host, broker.port) for broker in _ask(b).brokers}
    found = (answer.node_id, answer.host, answer.port)
    b.holds(found in brokers, "the id and the address of a listed broker", answer, "node_id")
