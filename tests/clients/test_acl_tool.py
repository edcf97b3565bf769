"""Kafka's kafka-acls on our broker and on Kafka: what it prints must be the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker import Broker
from tests.broker.security.authorization.rules import AUTHORIZER
from tests.kafka import jars
from tests.kafka.fixtures import or_skip
from tests.kafka.oracle import Oracle
from tests.kafka.secured_kafka import SecuredKafka

TOOL = "kafka.admin.AclCommand"
ATTEMPTS = 4
STEPS = (
    "--add --allow-principal User:alice --operation Read --operation Describe --topic orders --group billing",
    "--add --allow-principal User:alice --producer --topic ord --resource-pattern-type prefixed --transactional-id t",
    "--add --deny-principal User:bob --allow-principal User:* --deny-host 10.0.0.1 --operation All --topic *",
    "--add --allow-principal User:alice --operation Alter --cluster",
    "--add --allow-principal User:alice --operation CreateTokens --user-principal User:bob",
    "--list",
    "--list --topic orders --resource-pattern-type match",
    "--list --principal User:alice",
    "--remove --force --allow-principal User:alice --operation Read --topic orders",
    "--remove --force --topic ord --resource-pattern-type prefixed",
    "--remove --force --topic * --resource-pattern-type any",
    "--list",
)


@pytest.fixture(scope="module")
def secured_kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A Kafka with an authorizer."""
    or_skip(jars.java)
    kafka = SecuredKafka(tmp_path_factory.mktemp("kafka"), kafka_libs, ("alice",))
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.close()


def printed(oracle: Oracle, bootstrap: str, step: str) -> list[str]:
    """The lines of one call, in an order of their own: Kafka takes rules out of hash maps."""
    lines = oracle.attempt(TOOL, "--bootstrap-server", bootstrap, *step.split()).splitlines()
    return sorted(line.strip() for line in lines if not line.startswith("log4j:"))


def test_the_tool_prints_the_same_on_both(oracle: Oracle, secured_kafka: SecuredKafka) -> None:
    with Broker(config=AUTHORIZER) as ours:
        for step in STEPS:
            mine = printed(oracle, ours.bootstrap_servers, step)
            # Kafka's broker may hear of a rule only after the tool has asked for it; no step means more when repeated.
            assert any(mine == printed(oracle, secured_kafka.bootstrap, step) for _ in range(ATTEMPTS)), (step, mine)
        assert len(ours.acls()) == 7


def test_the_tool_says_that_a_broker_has_no_authorizer(oracle: Oracle, broker: Broker) -> None:
    output = oracle.attempt(TOOL, "--bootstrap-server", broker.bootstrap_servers, "--list")
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in output
