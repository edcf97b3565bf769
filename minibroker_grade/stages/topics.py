"""Stage 4: topics, made, changed and deleted."""

from typing import Any, Final

from minibroker_grade.check import Stage
from minibroker_grade.subject import Subject, shown
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementallyAlteredConfig,
    IncrementallyAlteredResource,
)
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)

STAGE: Final = Stage(
    "topics", "4 Topics", "Admin clients create, change and delete topics, and read their configuration."
)
_SOURCE: Final = "ReplicationControlManager.createTopics"
_TOPIC: Final = 2
_MINUTE: Final = 60000


def _topic(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> CreatableTopic:
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=settings)


def _create(b: Subject, *topics: CreatableTopic, validate_only: bool = False) -> Any:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=_MINUTE, validate_only=validate_only)
    return b.ask(request)


def _delete(b: Subject, *names: str) -> Any:
    return b.ask(DeleteTopicsRequest(topic_names=list(names), timeout_ms=_MINUTE))


def _metadata(b: Subject, name: str) -> Any:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return b.ask(request)


def _config(b: Subject, name: str, key: str) -> Any:
    resource = DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=[key])
    return b.ask(DescribeConfigsRequest(resources=[resource]))


def _partitions(b: Subject, name: str, count: int) -> Any:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=_MINUTE)
    return b.ask(request)


@STAGE.check(_SOURCE, look="Make the partitions before you answer, and show the topic in Metadata.")
def a_topic_is_created_with_its_partitions(b: Subject) -> None:
    """CreateTopics answers with error 0 for the topic, and Metadata soon knows it with all its partitions."""
    name = b.name()
    b.same(_create(b, _topic(name, 3)), "topics[0].error_code", 0)
    b.wait_for_leaders(name, 3)


@STAGE.check(_SOURCE, look="Answer with the name that was asked.")
def the_answer_names_the_topic(b: Subject) -> None:
    """Results come by name: a client looks each of its topics up."""
    one, two = b.name(), b.name()
    answer = _create(b, _topic(one), _topic(two))
    b.equal(sorted(topic.name for topic in answer.topics), sorted([one, two]), "the names", answer, "topics")


@STAGE.check(_SOURCE, look="Refuse a name that is taken with TOPIC_ALREADY_EXISTS.")
def a_topic_that_exists_has_error_36(b: Subject) -> None:
    """A second CreateTopics for the same name is refused, and the topic stays as it is."""
    name = b.topic(2)
    b.same(_create(b, _topic(name, 5)), "topics[0].error_code", 36)
    b.equal(len(_metadata(b, name).topics[0].partitions), 2, "the number of partitions")


@STAGE.check("Topic.validate", look="Check the name before anything is made.")
def an_impossible_name_has_error_17(b: Subject) -> None:
    """Names have letters, digits, dots, underscores and minus signs: INVALID_TOPIC_EXCEPTION for others."""
    b.same(_create(b, _topic("grade no/topic")), "topics[0].error_code", 17)


@STAGE.check("Topic.validate", look="Refuse names of 250 characters and more, '.', '..' and the empty one.")
def a_name_that_is_too_long_has_error_17(b: Subject) -> None:
    """A partition's directory has the topic's name, so a name has at most 249 characters."""
    b.same(_create(b, _topic("n" * 250)), "topics[0].error_code", 17)


@STAGE.check(_SOURCE, look="Refuse a number of partitions below 1, but for -1 without an assignment.")
def no_partitions_has_error_37(b: Subject) -> None:
    """A topic has at least one partition: INVALID_PARTITIONS for 0."""
    b.same(_create(b, _topic(b.name(), 0)), "topics[0].error_code", 37)


@STAGE.check("KIP-464", look="Take num.partitions and default.replication.factor for -1.")
def minus_one_asks_for_the_defaults(b: Subject) -> None:
    """From version 4 on -1 leaves partitions and replicas to the broker's defaults."""
    name = b.name()
    b.same(_create(b, _topic(name, -1, -1)), "topics[0].error_code", 0)
    answer = b.until(lambda: _metadata(b, name), lambda found: found.topics[0].partitions, "partitions in Metadata")
    b.holds(answer.topics[0].partitions, "at least one partition", answer, "topics[0].partitions")


@STAGE.check(_SOURCE, look="Do all the checks, and make nothing.")
def validate_only_creates_nothing(b: Subject) -> None:
    """With validate_only a request is checked and answered as usual, and no topic comes of it."""
    name = b.name()
    b.same(_create(b, _topic(name), validate_only=True), "topics[0].error_code", 0)
    b.same(_metadata(b, name), "topics[0].error_code", 3)


@STAGE.check("ReplicationControlManager.createTopics", look="Judge each topic for itself.")
def one_bad_topic_spoils_no_other(b: Subject) -> None:
    """Topics of a request are made one by one: each has its own error."""
    good, bad = b.name(), b.topic()
    answer = _create(b, _topic(good), _topic(bad))
    errors = {topic.name: topic.error_code for topic in answer.topics}
    b.equal(errors, {good: 0, bad: 36}, "the errors by topic", answer, "topics")


@STAGE.check(_SOURCE, look="Use the partitions of the assignment, and refuse a number beside them.")
def a_given_assignment_is_used(b: Subject) -> None:
    """With an assignment, -1 stands for the number of partitions and the factor: the assignment has them."""
    name = b.name()
    brokers = b.ask(MetadataRequest(topics=[])).brokers
    given = [CreatableReplicaAssignment(partition_index=index, broker_ids=[brokers[0].node_id]) for index in range(2)]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=given)
    b.same(_create(b, topic), "topics[0].error_code", 0)
    b.wait_for_leaders(name, 2)


@STAGE.check("ConfigurationControlManager", look="Check each value against the type of its key.")
def a_bad_configuration_has_error_40(b: Subject) -> None:
    """A value that its key cannot have is INVALID_CONFIG, and no topic is made."""
    name = b.name()
    b.same(_create(b, _topic(name, retention_ms="soon")), "topics[0].error_code", 40)
    b.same(_metadata(b, name), "topics[0].error_code", 3)


@STAGE.check("ConfigHelper.describeConfigs", look="Keep a topic's own values, and tell them in DescribeConfigs.")
def describeconfigs_tells_what_was_set(b: Subject) -> None:
    """DescribeConfigs returns what CreateTopics has set, with the topic as its source."""
    name = b.topic(retention_ms="86400000")
    answer = b.until(lambda: _config(b, name, "retention.ms"), lambda found: found.results[0].configs, "the key")
    b.same(answer, "results[0].configs[0].value", "86400000")
    b.same(answer, "results[0].configs[0].config_source", 1, "DYNAMIC_TOPIC_CONFIG")


@STAGE.check("KIP-339", look="Change the named key alone, and leave the others.")
def incrementalalterconfigs_changes_one_key(b: Subject) -> None:
    """An incremental change sets one key; all others keep their values."""
    name = b.topic(retention_ms="86400000")
    change = IncrementallyAlteredConfig(name="segment.bytes", config_operation=0, value="1048576")
    resource = IncrementallyAlteredResource(resource_type=_TOPIC, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    b.same(b.ask(request), "responses[0].error_code", 0)
    b.until(
        lambda: _config(b, name, "segment.bytes"),
        lambda found: found.results[0].configs[0].value == "1048576",
        "1048576 as segment.bytes",
        lambda found: f"{found.results[0].configs[0].value} as segment.bytes",
    )
    b.same(_config(b, name, "retention.ms"), "results[0].configs[0].value", "86400000")


@STAGE.check("KIP-195, ReplicationControlManager.createPartitions", look="Add partitions behind those that are there.")
def partitions_can_be_added(b: Subject) -> None:
    """CreatePartitions gets the number of partitions that there shall be afterwards."""
    name = b.topic()
    b.same(_partitions(b, name, 3), "results[0].error_code", 0)
    b.wait_for_leaders(name, 3)


@STAGE.check("ReplicationControlManager.createPartitions", look="Refuse a number that is not above the present one.")
def fewer_partitions_has_error_37(b: Subject) -> None:
    """Partitions cannot be taken away: INVALID_PARTITIONS."""
    b.same(_partitions(b, b.topic(3), 2), "results[0].error_code", 37)


@STAGE.check("ReplicationControlManager.deleteTopics", look="Drop the topic from Metadata, then its files.")
def a_deleted_topic_is_gone(b: Subject) -> None:
    """After DeleteTopics the topic is unknown to Metadata, and its name is free."""
    name = b.topic()
    b.same(_delete(b, name), "responses[0].error_code", 0)
    b.until(
        lambda: _metadata(b, name),
        lambda found: found.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "3 UNKNOWN_TOPIC_OR_PARTITION in Metadata",
        lambda found: shown("topics[0].error_code", found.topics[0].error_code),
    )
    b.same(_create(b, _topic(name)), "topics[0].error_code", 0)


@STAGE.check("ReplicationControlManager.deleteTopics", look="Answer UNKNOWN_TOPIC_OR_PARTITION.")
def deleting_what_is_not_there_has_error_3(b: Subject) -> None:
    """A topic that does not exist cannot be deleted."""
    b.same(_delete(b, b.name()), "responses[0].error_code", 3)
