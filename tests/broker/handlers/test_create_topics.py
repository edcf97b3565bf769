"""CreateTopics: what becomes a topic, and what is refused with which error; compared with Kafka 3.9.1."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from minibroker_protocol.primitives import ZERO_UUID
from tests.broker.harness import Harness, batch
from tests.kafka.newer_keys import NEWER_OF_TOPICS

VERSIONS = range(8)


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
    """The error for a topic that must not come into being."""
    (result,) = created(harness, requested)
    assert (result.name, result.topic_id, result.num_partitions, result.configs) == (requested.name, ZERO_UUID, -1, [])
    assert len(harness.core.topics) == 1
    return ErrorCode(result.error_code), result.error_message or ""


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_creates_a_topic_that_can_be_produced_to(harness: Harness, version: int) -> None:
    (result,) = created(harness, topic("new", 2), version=version)
    assert (result.name, result.error_code, result.error_message) == ("new", 0, None)
    known = harness.core.topics.get("new")
    assert known is not None
    assert result.topic_id == (known.id if version >= 7 else ZERO_UUID)
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
    assert (result.topic_id == ZERO_UUID) == (version < 7)  # it would have one
    assert harness.core.topics.get("new") is None
    assert not os.path.exists(f"{harness.data_dir}/new-0")
    (result,) = created(harness, topic("t"), version=version, validate_only=True)
    assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_numbers_are_left_to_the_broker_with_minus_1(configured: Callable[[dict[str, str]], Harness]) -> None:
    harness = configured({"num.partitions": "4", "default.replication.factor": "3"})
    (result,) = created(harness, topic("new", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 1)


@pytest.mark.parametrize("replication_factor", [1, 3, 100])
def test_any_replication_factor_is_accepted_and_reported_as_1(harness: Harness, replication_factor: int) -> None:
    (result,) = created(harness, topic("new", 1, replication_factor))
    assert (result.error_code, result.replication_factor) == (0, 1)


def test_a_topic_that_exists_is_refused(harness: Harness) -> None:
    assert refused(harness, topic("t")) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
    assert (
        refused(harness, topic("t", -1, -1, assignments={7: []}))[0] is ErrorCode.TOPIC_ALREADY_EXISTS
    )  # whatever else is wrong


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


def test_a_topic_that_is_named_twice_is_refused_once(harness: Harness) -> None:
    results = created(harness, topic("new"), topic("new", 2), topic("other"))
    assert sorted((result.name, result.error_code) for result in results) == [
        ("new", ErrorCode.INVALID_REQUEST),
        ("other", 0),
    ]
    assert harness.core.topics.get("new") is None


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


@pytest.mark.parametrize("version", VERSIONS)
def test_the_whole_configuration_is_told_from_version_5_on(harness: Harness, version: int) -> None:
    (result,) = created(harness, topic("new", retention_ms="60000"), version=version)
    if version < 5:
        assert result.configs is None
        return
    configs = {config.name: config for config in result.configs or ()}
    assert len(configs) == 36 + len(NEWER_OF_TOPICS)  # as many as Kafka 3.9 tells, and newer ones
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("60000", 1)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("1073741824", 5)
    assert not any(config.read_only or config.is_sensitive for config in configs.values())


def test_a_broker_setting_is_told_as_such(configured: Callable[[dict[str, str]], Harness]) -> None:
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
    assert [known.name for known in harness.core.topics] == ["t"]
    assert sorted(name for name in os.listdir(harness.data_dir) if "-" in name and name[0] in "ab") == ["b-1"]
    os.removedirs(f"{harness.data_dir}/b-1/in the way")
    assert [result.error_code for result in created(harness, topic("a"), topic("b", 3))] == [0, 0]
