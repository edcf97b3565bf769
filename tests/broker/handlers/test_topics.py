"""CreateTopics, CreatePartitions and DeleteTopics, compared with Kafka 3.9.1.

The limits of partitions and replicas per request have the error codes and messages of Kafka's controller. These tests
are one file because their handlers are one module.
"""

import os
from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from minibroker_protocol.primitives import ZERO_UUID, new_uuid
from tests.broker.harness import Configured, Harness, batch, values_in
from tests.kafka.newer_keys import NEWER_OF_TOPICS


def topic(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    *,
    assignments: dict[int, list[int]] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()],
    )


def created(
    harness: Harness, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    results: list[CreatableTopicResult] = harness.ask(request, version).topics
    return results


def refused(harness: Harness, requested: CreatableTopic) -> tuple[ErrorCode, str]:
    """Return the error of a topic that must not be created."""
    (result,) = created(harness, requested)
    assert (result.name, result.topic_id, result.num_partitions, result.configs) == (requested.name, ZERO_UUID, -1, [])
    assert len(harness.core.topics) == 1
    return ErrorCode(result.error_code), result.error_message or ""


@pytest.mark.parametrize("version", range(8))
def test_every_version_creates_a_topic_that_can_be_produced_to(harness: Harness, version: int) -> None:
    (result,) = created(harness, topic("new", 2), version=version)
    assert (result.name, result.error_code, result.error_message) == ("new", 0, None)
    assert result.topic_id == (harness.topic("new").id if version >= 7 else ZERO_UUID)
    assert (result.num_partitions, result.replication_factor) == ((2, 1) if version >= 5 else (-1, -1))
    assert harness.produce(batch(b"a"), "new", 1).error_code == 0


def test_the_directory_of_a_partition_is_there_when_its_first_records_are_acknowledged(harness: Harness) -> None:
    created(harness, topic("new", 2))
    assert not any(os.path.exists(f"{harness.data_dir}/new-{partition}") for partition in (0, 1))
    for partition in (0, 1):
        harness.produce(batch(b"a"), "new", partition)
        files = os.listdir(f"{harness.data_dir}/new-{partition}")
        assert "00000000000000000000.log" in files
        assert "partition.metadata" in files


def test_several_topics_have_an_outcome_each(harness: Harness) -> None:
    results = created(harness, topic("a"), topic("t"), topic("b"), topic("b b"))
    assert [(result.name, result.error_code) for result in results] == [
        ("a", 0),
        ("t", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("b", 0),
        ("b b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


def test_ids_differ(harness: Harness) -> None:
    results = created(harness, *(topic(f"n{index}") for index in range(20)))
    assert len({result.topic_id for result in results}) == 20


@pytest.mark.parametrize("version", range(1, 8))
def test_validation_alone_creates_nothing(harness: Harness, version: int) -> None:
    (result,) = created(harness, topic("new", 3), version=version, validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 3 if version >= 5 else -1)
    assert (result.topic_id == ZERO_UUID) == (version < 7)  # Its id would be set.
    assert harness.core.topics.get("new") is None
    assert not os.path.exists(f"{harness.data_dir}/new-0")
    (result,) = created(harness, topic("t"), version=version, validate_only=True)
    assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_numbers_are_left_to_the_broker_with_minus_1(configured: Configured) -> None:
    harness = configured({"num.partitions": "4", "default.replication.factor": "3"})
    (result,) = created(harness, topic("new", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 1)


@pytest.mark.parametrize("replication_factor", [1, 3, 100])
def test_any_replication_factor_is_accepted_and_reported_as_1(harness: Harness, replication_factor: int) -> None:
    (result,) = created(harness, topic("new", 1, replication_factor))
    assert (result.error_code, result.replication_factor) == (0, 1)


def test_a_topic_that_exists_is_refused(harness: Harness) -> None:
    assert refused(harness, topic("t")) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
    # The error does not depend on other errors.
    assert refused(harness, topic("t", -1, -1, assignments={7: []}))[0] is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "x" * 250, "a/b", "a\n"])
def test_an_impossible_name_is_refused(harness: Harness, name: str) -> None:
    code, message = refused(harness, topic(name))
    assert code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert message.startswith("Topic name is invalid: ")


def test_a_name_of_249_characters_is_the_longest(harness: Harness) -> None:
    (result,) = created(harness, topic("x" * 249))
    assert result.error_code == 0


def test_names_that_differ_in_dots_and_underscores_collide(harness: Harness) -> None:
    created(harness, topic("a.b_c"))
    (result,) = created(harness, topic("a_b.c"))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result.error_message == "Topic 'a_b.c' collides with existing topic: a.b_c"


def test_the_topic_of_the_metadata_log_is_not_to_be_had(harness: Harness) -> None:
    assert refused(harness, topic("__cluster_metadata"))[0] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("partitions", "replication_factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (10_001, 1, ErrorCode.POLICY_VIOLATION),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (0, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_impossible_numbers_are_refused(
    harness: Harness, partitions: int, replication_factor: int, code: ErrorCode
) -> None:
    assert refused(harness, topic("new", partitions, replication_factor))[0] == code


def test_replicas_placed_by_hand_are_counted(harness: Harness) -> None:
    (result,) = created(harness, topic("new", -1, -1, assignments={1: [1, 2], 0: [2, 3], 2: [3]}))
    assert (result.error_code, result.num_partitions) == (0, 3)


@pytest.mark.parametrize(
    ("requested", "code"),
    [
        (topic("new", 1, -1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (topic("new", -1, 1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (topic("new", -1, -1, assignments={0: [1], 2: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("new", -1, -1, assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("new", -1, -1, assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_replicas_placed_by_hand_in_an_impossible_form_are_refused(
    harness: Harness, requested: CreatableTopic, code: ErrorCode
) -> None:
    assert refused(harness, requested)[0] == code


def test_a_partition_that_is_placed_twice_is_refused(harness: Harness) -> None:
    requested = topic("new", -1, -1, assignments={0: [1]})
    requested.assignments *= 2
    assert refused(harness, requested)[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("configs", "word"),
    [
        ({"no_such_key": "1"}, "no.such.key"),
        ({"segment_bytes": "1"}, "segment.bytes"),
        ({"segment_bytes": "many"}, "segment.bytes"),
        ({"retention_ms": None}, "retention.ms"),
        ({"cleanup_policy": "burn"}, "cleanup.policy"),
    ],
)
def test_a_configuration_that_is_not_allowed_is_refused(harness: Harness, configs: dict[str, Any], word: str) -> None:
    code, message = refused(harness, topic("new", **configs))
    assert code == ErrorCode.INVALID_CONFIG
    assert word in message


@pytest.mark.parametrize("version", range(8))
def test_the_whole_configuration_is_told_from_version_5_on(harness: Harness, version: int) -> None:
    (result,) = created(harness, topic("new", retention_ms="60000"), version=version)
    if version < 5:
        assert result.configs is None
        return
    configs = {config.name: config for config in result.configs or ()}
    assert len(configs) == 36 + len(NEWER_OF_TOPICS)  # those of Kafka 3.9, and newer ones
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("60000", 1)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("1073741824", 5)
    assert not any(config.read_only or config.is_sensitive for config in configs.values())


def test_a_broker_setting_is_told_as_such(configured: Configured) -> None:
    (result,) = created(configured({"log.segment.bytes": "2000"}), topic("new"))
    configs = {config.name: (config.value, config.config_source) for config in result.configs or ()}
    assert configs["segment.bytes"] == ("2000", 4)


def test_when_the_disk_refuses_no_topic_of_the_request_is_created(harness: Harness) -> None:
    os.makedirs(f"{harness.data_dir}/b-1/in the way")
    results = created(harness, topic("a"), topic("b", 3), topic("b b"))
    assert [(result.name, result.error_code) for result in results] == [
        ("a", ErrorCode.KAFKA_STORAGE_ERROR),
        ("b", ErrorCode.KAFKA_STORAGE_ERROR),
        ("b b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert [existing.name for existing in harness.core.topics] == ["t"]
    assert sorted(name for name in os.listdir(harness.data_dir) if "-" in name and name[0] in "ab") == ["b-1"]
    os.removedirs(f"{harness.data_dir}/b-1/in the way")
    assert [result.error_code for result in created(harness, topic("a"), topic("b", 3))] == [0, 0]


def grown(
    harness: Harness,
    *topics: tuple[str, int],
    version: int = 3,
    validate_only: bool = False,
    assignments: list[list[int]] | None = None,
) -> list[CreatePartitionsTopicResult]:
    placed = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    requested_topics = [CreatePartitionsTopic(name=name, count=count, assignments=placed) for name, count in topics]
    request = CreatePartitionsRequest(topics=requested_topics, timeout_ms=1000, validate_only=validate_only)
    results: list[CreatePartitionsTopicResult] = harness.ask(request, version).results
    return results


def size(harness: Harness, name: str = "t") -> int:
    return len(harness.topic(name).partitions)


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_to_a_new_total(harness: Harness, version: int) -> None:
    (result,) = grown(harness, ("t", 3), version=version)
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert size(harness) == 3
    assert harness.produce(batch(b"a"), "t", 2).base_offset == 0


def test_records_stay_where_they_are(harness: Harness) -> None:
    harness.produce(batch(b"a"))
    grown(harness, ("t", 2))
    assert harness.fetch_one().high_watermark == 1
    assert harness.fetch_one(0, "t", 1).high_watermark == 0


def test_new_partitions_outlive_a_restart(harness: Harness) -> None:
    grown(harness, ("t", 3))
    harness.restart()
    assert size(harness) == 3


@pytest.mark.parametrize(("count", "word"), [(2, "already has 2"), (1, "increase"), (0, "increase"), (-1, "increase")])
def test_a_total_that_is_no_increase_is_refused(harness: Harness, count: int, word: str) -> None:
    harness.create("two", 2)
    (result,) = grown(harness, ("two", count))
    assert result.error_code == ErrorCode.INVALID_PARTITIONS
    assert word in (result.error_message or "")
    assert size(harness, "two") == 2


@pytest.mark.parametrize("name", ["missing", "", "a b"])
def test_an_unknown_topic_is_said_so(harness: Harness, name: str) -> None:
    assert [result.error_code for result in grown(harness, (name, 2))] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_replicas_of_new_partitions_are_counted(harness: Harness) -> None:
    assert [result.error_code for result in grown(harness, ("t", 3), assignments=[[1], [2, 1]])] == [0]
    assert size(harness) == 3


@pytest.mark.parametrize("assignments", [[], [[1]], [[1], [1], [1]], [[1], []]])
def test_replicas_placed_by_hand_must_fit_the_new_partitions(harness: Harness, assignments: list[list[int]]) -> None:
    (result,) = grown(harness, ("t", 3), assignments=assignments)
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert size(harness) == 1


def test_validation_alone_lets_nothing_grow(harness: Harness) -> None:
    assert [result.error_code for result in grown(harness, ("t", 3), validate_only=True)] == [0]
    assert size(harness) == 1
    assert [result.error_code for result in grown(harness, ("t", 1), validate_only=True)] == [
        ErrorCode.INVALID_PARTITIONS
    ]


def test_when_the_disk_refuses_the_topic_is_as_it_was(harness: Harness) -> None:
    os.makedirs(f"{harness.data_dir}/t-2/in the way")
    assert [result.error_code for result in grown(harness, ("t", 4))] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert size(harness) == 1
    assert not os.path.exists(f"{harness.data_dir}/t-1")
    os.removedirs(f"{harness.data_dir}/t-2/in the way")
    assert [result.error_code for result in grown(harness, ("t", 4))] == [0]


DELETING_VERSIONS = range(7)


def deleted(harness: Harness, *names: str, version: int = 6) -> list[DeletableTopicResult]:
    """Delete topics by name, in the form of the version."""
    if version >= 6:
        return deleted_states(harness, *((name, ZERO_UUID) for name in names))
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)
    results: list[DeletableTopicResult] = harness.ask(request, version).responses
    return results


def deleted_states(harness: Harness, *states: tuple[str | None, bytes]) -> list[DeletableTopicResult]:
    topics = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states]
    results: list[DeletableTopicResult] = harness.ask(DeleteTopicsRequest(topics=topics, timeout_ms=1000), 6).responses
    return results


def codes(results: list[DeletableTopicResult]) -> list[tuple[str | None, int]]:
    return [(result.name, result.error_code) for result in results]


@pytest.mark.parametrize("version", DELETING_VERSIONS)
def test_a_deleted_topic_is_gone_with_its_files(harness: Harness, version: int) -> None:
    harness.produce(batch(b"a"))
    topic_id = harness.topic().id
    (result,) = deleted(harness, "t", version=version)
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert result.topic_id == (topic_id if version >= 6 else ZERO_UUID)
    assert harness.fetch_one().error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [name for name in os.listdir(harness.data_dir) if name.startswith("t-")] == []


def test_a_topic_that_nobody_has_used_is_deleted_as_well(harness: Harness) -> None:
    harness.create("unused", 3)
    assert codes(deleted(harness, "unused")) == [("unused", 0)]
    assert not any(name.startswith("unused") for name in os.listdir(harness.data_dir))


def test_a_topic_is_deleted_by_its_id(harness: Harness) -> None:
    topic_id = harness.topic().id
    (result,) = deleted_states(harness, (None, topic_id))
    assert (result.name, result.topic_id, result.error_code) == ("t", topic_id, 0)
    assert len(harness.core.topics) == 0


def test_a_deleted_topic_stays_deleted_after_a_restart(harness: Harness) -> None:
    deleted(harness, "t")
    harness.restart()
    assert len(harness.core.topics) == 0


def test_a_new_topic_of_the_same_name_is_another_and_empty(harness: Harness) -> None:
    harness.produce(batch(b"a"))
    before = harness.topic().id
    deleted(harness, "t")
    harness.create("t")
    assert harness.topic().id != before
    assert harness.produce(batch(b"b")).base_offset == 0
    assert values_in(harness.fetch_one().records) == [(0, b"b")]


@pytest.mark.parametrize("version", DELETING_VERSIONS)
@pytest.mark.parametrize("name", ["missing", "", "a b"])
def test_a_topic_that_is_not_there_is_unknown(harness: Harness, name: str, version: int) -> None:
    (result,) = deleted(harness, name, version=version)
    assert (result.name, result.error_code) == (name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (result.error_message is None) is (version < 5)


def test_an_id_that_is_not_there_is_unknown(harness: Harness) -> None:
    unknown = new_uuid()
    (result,) = deleted_states(harness, (None, unknown))
    assert (result.name, result.topic_id, result.error_code) == (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID)


def test_name_and_id_together_and_neither_of_them_are_refused(harness: Harness) -> None:
    both = ("t", harness.topic().id)
    assert codes(deleted_states(harness, both, (None, ZERO_UUID))) == [
        ("t", ErrorCode.INVALID_REQUEST),
        (None, ErrorCode.INVALID_REQUEST),
    ]
    assert len(harness.core.topics) == 1


@pytest.mark.parametrize("version", DELETING_VERSIONS)
def test_a_topic_that_is_named_twice_is_refused_once_and_stays(harness: Harness, version: int) -> None:
    harness.create("other")
    assert sorted(codes(deleted(harness, "t", "other", "t", version=version))) == [
        ("other", 0),
        ("t", ErrorCode.INVALID_REQUEST),
    ]
    assert [topic.name for topic in harness.core.topics] == ["t"]


def test_a_topic_that_is_named_by_name_and_by_id_is_refused_and_stays(harness: Harness) -> None:
    results = deleted_states(harness, ("t", ZERO_UUID), (None, harness.topic().id))
    assert {result.error_code for result in results} == {ErrorCode.INVALID_REQUEST}
    assert len(harness.core.topics) == 1


@pytest.mark.parametrize("version", DELETING_VERSIONS)
def test_nothing_is_deleted_when_the_broker_is_told_not_to(configured: Configured, version: int) -> None:
    harness = configured({"delete.topic.enable": "false"})
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert codes(deleted(harness, "t", "missing", version=version)) == [("t", code), ("missing", code)]
    assert len(harness.core.topics) == 1


def test_an_empty_request_is_answered_empty(harness: Harness) -> None:
    assert deleted(harness) == []


TOO_MANY = ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."


TOO_LARGE = ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."


STRICT = {"minibroker.replication.factor.strict": "true"}


ONLY_ONE = (
    ErrorCode.INVALID_REPLICATION_FACTOR,
    (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
        "only 1 broker(s) are registered."
    ),
)


@pytest.mark.parametrize("validate_only", [False, True])
def test_topics_with_too_many_partitions_together_are_all_refused(harness: Harness, *, validate_only: bool) -> None:
    requested = [topic("a", 5000), topic("b", 5000), topic("c"), topic("not a name")]
    results = created(harness, *requested, validate_only=validate_only)
    assert [(result.error_code, result.error_message) for result in results] == [TOO_MANY] * 4
    assert len(harness.core.topics) == 1


def test_the_default_number_of_partitions_and_replicas_placed_by_hand_count(configured: Configured) -> None:
    harness = configured({"num.partitions": "9999"})
    by_hand = topic("b", -1, -1, assignments={0: [1], 1: [1]})
    results = created(harness, topic("a", -1), by_hand)
    assert [(result.error_code, result.error_message) for result in results] == [TOO_MANY] * 2


def test_a_topic_that_is_named_twice_does_not_count(harness: Harness) -> None:
    results = created(harness, topic("a", 9000), topic("a", 9000), topic("b"), validate_only=True)
    assert {(result.name, result.error_code) for result in results} == {("a", ErrorCode.INVALID_REQUEST), ("b", 0)}


def test_topics_and_their_configurations_count_as_records_beside_partitions(harness: Harness) -> None:
    assert created(harness, topic("a", 9999), validate_only=True)[0].error_code == 0
    for requested in (topic("a", 10_000), topic("a", 9999, retention_ms="1")):
        (result,) = created(harness, requested, validate_only=True)
        assert (result.error_code, result.error_message) == TOO_LARGE


@pytest.mark.parametrize("validate_only", [False, True])
def test_partitions_that_are_too_many_together_are_all_refused(harness: Harness, *, validate_only: bool) -> None:
    harness.create("u")
    results = grown(harness, ("t", 5001), ("u", 5002), ("missing", 3), validate_only=validate_only)
    assert [(result.error_code, result.error_message) for result in results] == [TOO_LARGE] * 3
    (alone,) = grown(harness, ("t", 2**31 - 1))
    assert (alone.error_code, alone.error_message) == TOO_LARGE
    assert (size(harness), size(harness, "u")) == (1, 1)
    assert {result.error_code for result in grown(harness, ("t", 5001), ("u", 5001), validate_only=True)} == {0}


def test_a_strict_broker_refuses_more_replicas_than_brokers(configured: Configured) -> None:
    harness = configured(STRICT)
    (result,) = created(harness, topic("new", 1, 3))
    assert (result.error_code, result.error_message) == ONLY_ONE
    assert created(harness, topic("new", 1, 1))[0].error_code == 0
    assert created(harness, topic("other", 1, -1))[0].error_code == 0


def test_a_strict_broker_refuses_unknown_brokers_and_brokers_named_twice(configured: Configured) -> None:
    harness = configured(STRICT)
    for replicas, message in (
        ([1, 2], "The manual partition assignment includes broker 2, but no such broker is registered."),
        ([1, 1], "The manual partition assignment includes the broker 1 more than once."),
    ):
        expected = ErrorCode.INVALID_REPLICA_ASSIGNMENT, message
        (result,) = created(harness, topic("new", -1, -1, assignments={0: replicas}))
        assert (result.error_code, result.error_message) == expected
        (more,) = grown(harness, ("t", 2), assignments=[replicas])
        assert (more.error_code, more.error_message) == expected
    assert created(harness, topic("new", -1, -1, assignments={0: [1]}))[0].error_code == 0
    assert grown(harness, ("t", 2), assignments=[[1]])[0].error_code == 0


def test_a_strict_broker_does_not_create_topics_with_a_default_that_is_too_large(configured: Configured) -> None:
    harness = configured({**STRICT, "default.replication.factor": "3"})
    (result,) = created(harness, topic("new", 1, -1))
    assert (result.error_code, result.error_message) == ONLY_ONE
    request = MetadataRequest(topics=[MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
    # Like Kafka 3.9.1 and 4.4.0, whose brokers do not wait for the controller's refusal.
    assert harness.ask(request, 9).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(harness.core.topics) == 1


def test_the_coordinators_of_a_strict_broker_have_their_topics(configured: Configured) -> None:
    harness = configured(STRICT)
    assert harness.services.groups.store.log.ensure().partitions[0].replicas == (1,)
