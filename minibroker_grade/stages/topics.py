"""Stage 4: creating, changing and deleting topics."""

from typing import Any, Final

from minibroker_grade.check import Stage
from minibroker_grade.subject import Subject, creatable_topic, field_text
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementallyAlteredConfig,
    IncrementallyAlteredResource,
)
from minibroker_protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)

STAGE: Final = Stage(
    "topics", "4 Topics", "Admin clients create, change and delete topics, and read their configuration."
)
_SOURCE: Final = "ReplicationControlManager.createTopics"
_TOPIC_RESOURCE: Final = 2
_TIMEOUT_MS: Final = 60000


def _create_topics(b: Subject, *topics: CreatableTopic, validate_only: bool = False) -> Any:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=_TIMEOUT_MS, validate_only=validate_only)
    return b.ask(request)


def _delete_topics(b: Subject, *names: str) -> Any:
    return b.ask(DeleteTopicsRequest(topic_names=list(names), timeout_ms=_TIMEOUT_MS))


def _describe_config(b: Subject, name: str, key: str) -> Any:
    resource = DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=[key])
    return b.ask(DescribeConfigsRequest(resources=[resource]))


def _create_partitions(b: Subject, name: str, count: int) -> Any:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
    return b.ask(request)


@STAGE.check(_SOURCE, look="Create the partitions before responding, and show the topic in Metadata.")
def a_topic_is_created_with_its_partitions(b: Subject) -> None:
    """CreateTopics returns error 0 for the topic, and Metadata soon shows it with all its partitions."""
    name = b.name()
    b.same(_create_topics(b, creatable_topic(name, 3)), "topics[0].error_code", 0)
    b.wait_for_leaders(name, 3)


@STAGE.check(_SOURCE, look="Return the requested name.")
def the_answer_names_the_topic(b: Subject) -> None:
    """Results are identified by topic name, because clients look up each of their topics."""
    first, second = b.name(), b.name()
    answer = _create_topics(b, creatable_topic(first), creatable_topic(second))
    b.equal(sorted(topic.name for topic in answer.topics), sorted([first, second]), "the names", answer, "topics")


@STAGE.check(_SOURCE, look="Reject an existing name with TOPIC_ALREADY_EXISTS.")
def a_topic_that_exists_has_error_36(b: Subject) -> None:
    """A second CreateTopics with the same name is rejected, and the topic is unchanged."""
    name = b.topic(2)
    b.same(_create_topics(b, creatable_topic(name, 5)), "topics[0].error_code", 36)
    b.equal(len(b.metadata(name).topics[0].partitions), 2, "the number of partitions")


@STAGE.check("Topic.validate", look="Check the name before creating anything.")
def an_impossible_name_has_error_17(b: Subject) -> None:
    """A name with anything besides letters, digits, '.', '_' and '-' is rejected with INVALID_TOPIC_EXCEPTION."""
    b.same(_create_topics(b, creatable_topic("grade no/topic")), "topics[0].error_code", 17)


@STAGE.check("Topic.validate", look="Reject empty names, '.', '..' and names of 250 or more characters.")
def a_name_that_is_too_long_has_error_17(b: Subject) -> None:
    """A topic name is part of the partition's directory name, so it has at most 249 characters."""
    b.same(_create_topics(b, creatable_topic("n" * 250)), "topics[0].error_code", 17)


@STAGE.check(_SOURCE, look="Reject a number of partitions below 1, except -1.")
def no_partitions_has_error_37(b: Subject) -> None:
    """A topic has at least one partition, so 0 is rejected with INVALID_PARTITIONS."""
    b.same(_create_topics(b, creatable_topic(b.name(), 0)), "topics[0].error_code", 37)


@STAGE.check("KIP-464", look="Use num.partitions and default.replication.factor for -1.")
def minus_one_asks_for_the_defaults(b: Subject) -> None:
    """From version 4 on, -1 selects the broker's defaults for the number of partitions and replicas."""
    name = b.name()
    b.same(_create_topics(b, creatable_topic(name, -1, -1)), "topics[0].error_code", 0)
    answer = b.until(lambda: b.metadata(name), lambda info: info.topics[0].partitions, "partitions in Metadata")
    b.holds(answer.topics[0].partitions, "at least one partition", answer, "topics[0].partitions")


@STAGE.check(_SOURCE, look="Run all checks, but do not create the topic.")
def validate_only_creates_nothing(b: Subject) -> None:
    """With validate_only, a request is checked and answered as usual, but no topic is created."""
    name = b.name()
    b.same(_create_topics(b, creatable_topic(name), validate_only=True), "topics[0].error_code", 0)
    b.same(b.metadata(name), "topics[0].error_code", 3)


@STAGE.check("ReplicationControlManager.createTopics", look="Process each topic independently.")
def one_bad_topic_spoils_no_other(b: Subject) -> None:
    """The topics of a request are created independently of each other, and each has its own error."""
    good, bad = b.name(), b.topic()
    answer = _create_topics(b, creatable_topic(good), creatable_topic(bad))
    errors = {topic.name: topic.error_code for topic in answer.topics}
    b.equal(errors, {good: 0, bad: 36}, "the errors by topic", answer, "topics")


@STAGE.check(_SOURCE, look="Use the partitions of the assignment, and reject an additional partition count.")
def a_given_assignment_is_used(b: Subject) -> None:
    """An assignment defines the partition count and the replication factor, so the request has -1 for both."""
    name = b.name()
    brokers = b.metadata().brokers
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=[brokers[0].node_id]) for index in range(2)
    ]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    b.same(_create_topics(b, topic), "topics[0].error_code", 0)
    b.wait_for_leaders(name, 2)


@STAGE.check("ConfigurationControlManager", look="Check each value against the type of its key.")
def a_bad_configuration_has_error_40(b: Subject) -> None:
    """A config value that is invalid for its key is rejected with INVALID_CONFIG, and no topic is created."""
    name = b.name()
    b.same(_create_topics(b, creatable_topic(name, retention_ms="soon")), "topics[0].error_code", 40)
    b.same(b.metadata(name), "topics[0].error_code", 3)


@STAGE.check("ConfigHelper.describeConfigs", look="Store a topic's own values, and return them in DescribeConfigs.")
def describeconfigs_tells_what_was_set(b: Subject) -> None:
    """DescribeConfigs returns the values set by CreateTopics, with the topic as their source."""
    name = b.topic(retention_ms="86400000")
    answer = b.until(
        lambda: _describe_config(b, name, "retention.ms"), lambda answer: answer.results[0].configs, "the key"
    )
    b.same(answer, "results[0].configs[0].value", "86400000")
    b.same(answer, "results[0].configs[0].config_source", 1, "DYNAMIC_TOPIC_CONFIG")


@STAGE.check("KIP-339", look="Change only the given key.")
def incrementalalterconfigs_changes_one_key(b: Subject) -> None:
    """An incremental change sets one key, and all other keys keep their values."""
    name = b.topic(retention_ms="86400000")
    change = IncrementallyAlteredConfig(name="segment.bytes", config_operation=0, value="1048576")
    resource = IncrementallyAlteredResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    b.same(b.ask(request), "responses[0].error_code", 0)
    b.until(
        lambda: _describe_config(b, name, "segment.bytes"),
        lambda answer: answer.results[0].configs[0].value == "1048576",
        "1048576 as segment.bytes",
        lambda answer: f"{answer.results[0].configs[0].value} as segment.bytes",
    )
    b.same(_describe_config(b, name, "retention.ms"), "results[0].configs[0].value", "86400000")


@STAGE.check("KIP-195, ReplicationControlManager.createPartitions", look="Append partitions after the existing ones.")
def partitions_can_be_added(b: Subject) -> None:
    """CreatePartitions takes the new total number of partitions."""
    name = b.topic()
    b.same(_create_partitions(b, name, 3), "results[0].error_code", 0)
    b.wait_for_leaders(name, 3)


@STAGE.check("ReplicationControlManager.createPartitions", look="Reject a number not larger than the current one.")
def fewer_partitions_has_error_37(b: Subject) -> None:
    """Partitions cannot be removed, so a smaller number is rejected with INVALID_PARTITIONS."""
    b.same(_create_partitions(b, b.topic(3), 2), "results[0].error_code", 37)


@STAGE.check("ReplicationControlManager.deleteTopics", look="Remove the topic from Metadata, then delete its files.")
def a_deleted_topic_is_gone(b: Subject) -> None:
    """After DeleteTopics, Metadata no longer returns the topic, and its name is available again."""
    name = b.topic()
    b.same(_delete_topics(b, name), "responses[0].error_code", 0)
    b.until(
        lambda: b.metadata(name),
        lambda answer: answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "3 UNKNOWN_TOPIC_OR_PARTITION in Metadata",
        lambda answer: field_text("topics[0].error_code", answer.topics[0].error_code),
    )
    b.same(_create_topics(b, creatable_topic(name)), "topics[0].error_code", 0)


@STAGE.check("ReplicationControlManager.deleteTopics", look="Return UNKNOWN_TOPIC_OR_PARTITION.")
def deleting_what_is_not_there_has_error_3(b: Subject) -> None:
    """A topic that does not exist cannot be deleted."""
    b.same(_delete_topics(b, b.name()), "responses[0].error_code", 3)
