"""Responses to clients without any right, and with one of them: Kafka's held against ours."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.cluster.routing.routes import ROUTES
from minibroker.security.authorization.acls import Operation, ResourceType
from tests.broker.harness import Harness
from tests.broker.security.authorization.attempts import Attempt, Names, attempts
from tests.broker.security.authorization.rules import guarded
from tests.kafka import jars
from tests.kafka.fixtures import or_skip
from tests.kafka.rights import PLACEHOLDERS, RIGHTS, ask_until_ready, create_topic, differences, told_by
from tests.kafka.secured_kafka import SecuredKafka
from tests.sweeps import one_in

NOT_FOR_CLIENTS = {
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "ControlledShutdown",
    "AlterPartition",
    "Envelope",
    "AllocateProducerIds",
    "UnregisterController",
}
"""A broker of a KRaft cluster closes the connection, or knows no such API."""

OTHERWISE_IN_3_9 = {
    "OffsetFetch-1": "3.9 forgets to answer at all; 4.0 has the error at each partition",
    "ConsumerGroupHeartbeat-0": "3.9 does not serve groups of the consumer protocol unless it is told to",
    "ConsumerGroupDescribe-0": "the same",
}
SERVED_BY_3_9 = {route.message for route in ROUTES if not route.history.startswith("4.")}
"""Kafka 3.9 closes the connection on the other APIs."""


def compared() -> list[Attempt]:
    return [
        each
        for each in attempts(PLACEHOLDERS)
        if each.api in SERVED_BY_3_9 and each.api not in NOT_FOR_CLIENTS and each.title not in OTHERWISE_IN_3_9
    ]


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A Kafka with an authorizer, where alice and bob may do nothing yet; its coordinators are ready."""
    or_skip(jars.java)
    made = SecuredKafka(tmp_path_factory.mktemp("kafka"), kafka_libs, ("alice", "bob"))
    try:
        made.start()
        with made.client() as admin:
            ask_until_ready(admin)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A broker of ours of the same kind."""
    made = guarded(tmp_path_factory.mktemp("ours"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def there(kafka: SecuredKafka, ours: Harness) -> tuple[Names, Names]:
    """The resources, by Kafka's ids and by ours."""
    return create_topic(kafka, ours)


@pytest.mark.parametrize("title", [each.title for each in compared()])
def test_who_has_no_rights_hears_the_same(
    title: str, kafka: SecuredKafka, ours: Harness, there: tuple[Names, Names]
) -> None:
    theirs, mine = (next(each for each in attempts(names) if each.title == title) for names in there)
    ours.user = "bob"
    try:
        with kafka.client("bob") as client:
            assert told_by(ours, mine) == told_by(client, theirs)
    finally:
        ours.user = None


@pytest.mark.parametrize(("operation", "kind"), one_in(2, RIGHTS))
def test_who_has_one_right_hears_the_same(
    operation: Operation, kind: ResourceType, kafka: SecuredKafka, ours: Harness
) -> None:
    assert differences(kafka, ours, operation, kind, {each.title for each in compared()}) == {}
