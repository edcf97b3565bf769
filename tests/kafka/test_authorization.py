"""Responses to clients without any right, and with one of them: Kafka's held against ours."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from minibroker.cluster.routing.routes import ROUTES
from minibroker.security.authorization.acls import Operation, ResourceType
from tests.broker.harness import Harness
from tests.broker.security.authorization.attempts import attempts
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


SERVED = {
    jars.VERSION: SERVED_BY_3_9 - NOT_FOR_CLIENTS,
    jars.NEWEST: {route.message for route in ROUTES} - SERVED_BY_3_9 - NOT_FOR_CLIENTS,
}
"""What is compared with each release: with the newest one the APIs that came after 3.9."""
STATES = "share.coordinator.state.topic"
PROPERTIES = {
    jars.VERSION: {},
    jars.NEWEST: {f"{STATES}.replication.factor": "1", f"{STATES}.min.isr": "1", f"{STATES}.num.partitions": "1"},
}


@pytest.fixture(scope="module", params=one_in(2, SERVED))
def release(request: pytest.FixtureRequest) -> str:
    """Of Kafka."""
    version: str = request.param
    return version


@pytest.fixture(scope="module")
def titles(release: str) -> set[str]:
    """The attempts that are compared."""
    titles = {each.title for each in attempts(PLACEHOLDERS) if each.api in SERVED[release]}
    return titles - OTHERWISE_IN_3_9.keys() if release == jars.VERSION else titles


@pytest.fixture(scope="module")
def kafka(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A Kafka with an authorizer, where alice and bob may do nothing yet; its coordinators are ready."""
    libs = or_skip(lambda: jars.find(version=release))
    made = SecuredKafka(tmp_path_factory.mktemp("kafka"), libs, ("alice", "bob"), PROPERTIES[release])
    with closing(made):
        made.start()
        with made.client() as admin:
            ask_until_ready(admin)
        yield made


@pytest.fixture(scope="module")
def ours(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A broker of ours of the same kind."""
    with closing(guarded(tmp_path_factory.mktemp(f"ours-{release}"))) as made:
        yield made


def test_who_has_no_rights_hears_the_same(titles: set[str], kafka: SecuredKafka, ours: Harness) -> None:
    theirs, mine = (
        {each.title: each for each in attempts(names) if each.title in titles} for names in create_topic(kafka, ours)
    )
    ours.user = "bob"
    try:
        with kafka.client("bob") as client:
            for title in theirs:
                assert told_by(ours, mine[title]) == told_by(client, theirs[title]), title
    finally:
        ours.user = None


@pytest.mark.parametrize(("operation", "kind"), one_in(2, RIGHTS))
def test_who_has_one_right_hears_the_same(
    operation: Operation, kind: ResourceType, titles: set[str], kafka: SecuredKafka, ours: Harness
) -> None:
    assert differences(kafka, ours, operation, kind, titles) == {}
