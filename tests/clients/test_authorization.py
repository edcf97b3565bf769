"""Clients that log in and are allowed some things: what librdkafka and kafka-python make of our answers."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports what it has imported
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaProducer  # type: ignore[import-untyped]  # it has no types
from kafka.errors import TopicAuthorizationFailedError  # type: ignore[import-untyped]  # it has no types

from minibroker import Broker, Security
from tests.broker.security.authorization.rules import AUTHORIZER
from tests.patience import PATIENCE_S

USERS = {"admin": "rules", "alice": "secret", "bob": "hidden"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    """A broker that asks for passwords; alice may write orders and read them in the group billing."""
    security = Security("SASL_PLAINTEXT", users=USERS)
    with Broker(config=AUTHORIZER, security=security, topics=["orders", "payments"]) as running:
        running.allow("User:alice", "write", "read", topic="orders")
        running.allow("User:alice", "read", group="billing")
        running.allow("User:alice", "write", transactional_id="sender")
        yield running


def configuration(broker: Broker, user: str) -> dict[str, Any]:
    assert broker.security is not None
    return {"bootstrap.servers": broker.bootstrap_servers, **broker.security.librdkafka(user)}


def outcome(broker: Broker, user: str, topic: str) -> int:
    """The error of one record, 0 for none."""
    errors: list[int] = []
    producer = Producer({**configuration(broker, user), "enable.idempotence": False})
    producer.produce(topic, b"a", on_delivery=lambda error, _: errors.append(0 if error is None else error.code()))
    producer.flush(PATIENCE_S)
    return errors[0]


def test_records_are_taken_from_who_may_write(guarded: Broker) -> None:
    assert outcome(guarded, "alice", "orders") == 0
    assert outcome(guarded, "alice", "payments") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert outcome(guarded, "bob", "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert outcome(guarded, "admin", "payments") == 0


def test_who_may_write_to_a_topic_may_do_so_idempotently_and_in_transactions(guarded: Broker) -> None:
    producer = Producer({**configuration(guarded, "alice"), "transactional.id": "sender"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("orders", b"b")
    producer.commit_transaction(PATIENCE_S)
    other = Producer({**configuration(guarded, "alice"), "transactional.id": "other"})
    with pytest.raises(KafkaException) as refused:
        other.init_transactions(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def poll_error(broker: Broker, user: str, group: str, topic: str) -> int:
    """The first error that a member is told, 0 for a record."""
    consumer = Consumer({**configuration(broker, user), "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        error = message.error()
        return 0 if error is None else error.code()
    finally:
        consumer.close()


def test_records_are_read_by_who_may_read_in_a_group_of_its_own(guarded: Broker) -> None:
    outcome(guarded, "admin", "orders")
    assert poll_error(guarded, "alice", "billing", "orders") == 0
    assert poll_error(guarded, "alice", "others", "orders") == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert poll_error(guarded, "alice", "billing", "payments") == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_groups_are_listed_for_who_may_describe_them(guarded: Broker) -> None:
    outcome(guarded, "admin", "orders")
    poll_error(guarded, "alice", "billing", "orders")

    def listed(user: str) -> set[str]:
        admin = AdminClient(configuration(guarded, user))
        return {each.group_id for each in admin.list_consumer_groups().result(PATIENCE_S).valid}

    assert listed("admin") == listed("alice") == {"billing"}
    assert listed("bob") == set()


def test_topics_are_listed_for_who_may_describe_them(guarded: Broker) -> None:
    def listed(user: str) -> set[str]:
        topics = AdminClient(configuration(guarded, user)).list_topics(timeout=PATIENCE_S).topics
        return {name for name in topics if not name.startswith("__")}

    assert listed("admin") == {"orders", "payments"}
    assert listed("alice") == {"orders"}
    assert listed("bob") == set()


def test_an_admin_client_makes_finds_and_removes_rules(guarded: Broker) -> None:
    admin = AdminClient(configuration(guarded, "admin"))
    rule = ResourceType.TOPIC, "made-by-client", ResourcePatternType.LITERAL, "User:bob", "*", AclOperation.READ
    binding = AclBinding(*rule, AclPermissionType.ALLOW)
    for each in admin.create_acls([binding]).values():
        each.result(PATIENCE_S)
    looked = AclBindingFilter(*rule, AclPermissionType.ALLOW)
    assert admin.describe_acls(looked).result(PATIENCE_S) == [binding]
    assert [each.result(PATIENCE_S) for each in admin.delete_acls([looked]).values()] == [[binding]]
    alice = AdminClient(configuration(guarded, "alice"))
    with pytest.raises(KafkaException) as refused:
        alice.create_acls([binding])[binding].result(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_kafka_python_hears_the_same(guarded: Broker) -> None:
    assert guarded.security is not None
    settings = guarded.security.kafka_python("alice")
    producer = KafkaProducer(bootstrap_servers=guarded.bootstrap_servers, enable_idempotence=False, **settings)
    producer.send("orders", b"a").get(PATIENCE_S)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send("payments", b"a").get(PATIENCE_S)
    producer.close()
