"""Responses of the APIs that came after Kafka 3.9 to clients without rights, and with one: Kafka 4.4 beside us."""

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

_STATES = "share.coordinator.state.topic"
_SINCE_4 = {route.message for route in ROUTES if route.history.startswith("4.")} - {"UnregisterController"}
"""The last of them is for controllers."""
_TITLES = [each.title for each in attempts(PLACEHOLDERS) if each.api in _SINCE_4]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    libs = or_skip(lambda: jars.find(version=jars.NEWEST))
    one = {f"{_STATES}.replication.factor": "1", f"{_STATES}.min.isr": "1", f"{_STATES}.num.partitions": "1"}
    with closing(SecuredKafka(tmp_path_factory.mktemp("kafka"), libs, ("alice", "bob"), one)) as made:
        made.start()
        with made.client() as admin:
            ask_until_ready(admin)
        yield made


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with closing(guarded(tmp_path_factory.mktemp("ours"))) as made:
        yield made


def test_who_has_no_rights_hears_the_same(kafka: SecuredKafka, ours: Harness) -> None:
    theirs, mine = (
        {each.title: each for each in attempts(names) if each.title in _TITLES} for names in create_topic(kafka, ours)
    )
    ours.user = "bob"
    try:
        with kafka.client("bob") as client:
            for title in _TITLES:
                assert told_by(ours, mine[title]) == told_by(client, theirs[title]), title
    finally:
        ours.user = None


@pytest.mark.parametrize(("operation", "kind"), RIGHTS)
def test_who_has_one_right_hears_the_same(
    operation: Operation, kind: ResourceType, kafka: SecuredKafka, ours: Harness
) -> None:
    assert differences(kafka, ours, operation, kind, _TITLES) == {}
