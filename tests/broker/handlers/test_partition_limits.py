"""Limits of one request: partitions and replicas; codes and sentences as in Kafka's controller."""

from collections.abc import Callable

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.handlers.test_create_partitions import grown, size
from tests.broker.handlers.test_create_topics import created, topic
from tests.broker.harness import Harness

Configured = Callable[[dict[str, str]], Harness]
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
    assert [(each.error_code, each.error_message) for each in results] == [TOO_MANY] * 4
    assert len(harness.core.topics) == 1


def test_the_default_number_of_partitions_and_replicas_placed_by_hand_count(configured: Configured) -> None:
    harness = configured({"num.partitions": "9999"})
    by_hand = topic("b", -1, -1, assignments={0: [1], 1: [1]})
    results = created(harness, topic("a", -1), by_hand)
    assert [(each.error_code, each.error_message) for each in results] == [TOO_MANY] * 2


def test_a_topic_that_is_named_twice_does_not_count(harness: Harness) -> None:
    results = created(harness, topic("a", 9000), topic("a", 9000), topic("b"), validate_only=True)
    assert {(each.name, each.error_code) for each in results} == {("a", ErrorCode.INVALID_REQUEST), ("b", 0)}


def test_topics_and_their_configurations_count_as_records_beside_partitions(harness: Harness) -> None:
    assert created(harness, topic("a", 9999), validate_only=True)[0].error_code == 0
    for requested in (topic("a", 10_000), topic("a", 9999, retention_ms="1")):
        (result,) = created(harness, requested, validate_only=True)
        assert (result.error_code, result.error_message) == TOO_LARGE


@pytest.mark.parametrize("validate_only", [False, True])
def test_partitions_that_are_too_many_together_are_all_refused(harness: Harness, *, validate_only: bool) -> None:
    harness.create("u")
    results = grown(harness, ("t", 5001), ("u", 5002), ("missing", 3), validate_only=validate_only)
    assert [(each.error_code, each.error_message) for each in results] == [TOO_LARGE] * 3
    (alone,) = grown(harness, ("t", 2**31 - 1))
    assert (alone.error_code, alone.error_message) == TOO_LARGE
    assert (size(harness), size(harness, "u")) == (1, 1)
    assert {each.error_code for each in grown(harness, ("t", 5001), ("u", 5001), validate_only=True)} == {0}


# Replicas on a broker that is alone.


def test_a_broker_that_is_alone_takes_any_factor_unless_it_is_strict(harness: Harness) -> None:
    (result,) = created(harness, topic("new", 1, 3))
    assert (result.error_code, result.replication_factor) == (0, 1)


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
    # As Kafka 3.9.1 and 4.4.0, whose brokers do not wait for the controller's refusal.
    assert harness.ask(request, 9).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(harness.core.topics) == 1


def test_the_coordinators_of_a_strict_broker_have_their_topics(configured: Configured) -> None:
    harness = configured(STRICT)
    assert harness.services.groups.store.log.ensure().partitions[0].replicas == (1,)
