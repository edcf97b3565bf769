"""A client without rights calls every API that names a resource, and gets no data and no information."""

from collections.abc import Iterator

import pytest

from minibroker.cluster.routing.routes import ROUTES
from minibroker.server.requests.endpoints import endpoint
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.transactions import InitProducerIdRequest
from tests.broker.coordinators.groups.driver import Members
from tests.broker.harness import Harness, batch
from tests.broker.security.authorization.attempts import Attempt, Names, attempts, codes_in, visible
from tests.broker.security.authorization.rules import guarded

ABSENT = Names("absent", b"\x01" * 16, "absent-group", "absent-id")
REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
IDS_ARE_NO_SECRET = {"Fetch-13-by-id", "Metadata-12-by-id", "DeleteTopics-6-by-id"}
"""Kafka tells every client that no topic has a given id."""
HIDDEN = {"Metadata-12-all", "ListGroups-4", "ListTransactions-0", "DescribeTopicPartitions-0-all"}
"""Hidden resources are omitted without an error."""
FOR_EVERYBODY = {"DescribeCluster-1"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A broker with a topic with records, a group with a member, and a transactional id. bob sends the requests."""
    made = guarded(tmp_path_factory.mktemp("guarded"))
    made.create("secret")
    made.produce(batch(b"a"), "secret")
    Members(made, "readers").alone()
    init = InitProducerIdRequest(transactional_id="sender", transaction_timeout_ms=60_000)
    assert made.ask(init, 4).error_code == 0
    made.user = "bob"
    yield made
    made.close()


@pytest.fixture(scope="module")
def present(broker: Harness) -> Names:
    """The names of existing resources."""
    topic = broker.services.core.topics.get("secret")
    assert topic is not None
    return Names("secret", topic.id, "readers", "sender")


def served() -> list[Attempt]:
    return [each for each in attempts(ABSENT) if each.is_served]


def twin(attempt: Attempt, names: Names) -> Attempt:
    """Return the same attempt with other names."""
    return next(each for each in attempts(names) if each.title == attempt.title)


def test_every_api_that_needs_a_right_is_tried() -> None:
    tried = {each.api for each in attempts(ABSENT)}
    # A client without a login gets no tokens, which have their own tests.
    needing = {route.message for route in ROUTES if endpoint(route.key).needs.text != "nothing"}
    assert {api for api in needing if "DelegationToken" not in api} == tried


@pytest.mark.parametrize("attempt", served(), ids=lambda each: each.title)
def test_who_has_no_rights_is_refused(attempt: Attempt, broker: Harness, present: Names) -> None:
    response = broker.ask(twin(attempt, present).request(), attempt.version)
    codes = {code for _, code in codes_in(response)} - {0}
    if attempt.title in HIDDEN | FOR_EVERYBODY:
        assert codes == set()
    else:
        assert codes, response
        assert codes <= REFUSALS


@pytest.mark.parametrize("attempt", served(), ids=lambda each: each.title)
def test_an_answer_does_not_tell_what_there_is(attempt: Attempt, broker: Harness, present: Names) -> None:
    here = visible(broker.ask(twin(attempt, present).request(), attempt.version), present)
    nowhere = visible(broker.ask(attempt.request(), attempt.version), ABSENT)
    if attempt.title not in IDS_ARE_NO_SECRET:
        assert here == nowhere
    assert "secret" not in repr(here)


def test_nothing_has_changed_after_all_attempts(broker: Harness, present: Names) -> None:
    for each in attempts(present):
        if each.is_served:
            broker.ask(each.request(), each.version)
    broker.user = None
    topic = broker.services.core.topics.get("secret")
    assert topic is not None
    assert (topic.id, len(topic.partitions)) == (present.topic_id, 1)
    assert {each.name for each in broker.services.core.topics} == {
        "secret",
        "__consumer_offsets",
        "__transaction_state",
    }
    data = broker.fetch_one(topic="secret")
    assert (data.error_code, data.high_watermark) == (0, 1)
    broker.user = "bob"
