"""Responses to clients without any right, and with one of them: Kafka's held against ours."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker.requests.requirements import AUTHORIZATION_FAILED
from minibroker.routing.routes import ROUTES
from minibroker.security.authorization.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclBinding,
    Operation,
    ResourceType,
)
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from minibroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minibroker_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from minibroker_protocol.messages.describe_acls import DescribeAclsRequest
from minibroker_protocol.messages.describe_groups import DescribeGroupsRequest
from minibroker_protocol.messages.describe_transactions import DescribeTransactionsRequest
from minibroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.harness import Harness
from tests.broker.security.authorization.attempts import Attempt, Names, attempts, codes_in
from tests.broker.security.authorization.rules import guarded, rule
from tests.broker.socket_client import SocketClient
from tests.kafka import jars
from tests.kafka.fixtures import or_skip
from tests.kafka.secured_kafka import SecuredKafka

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
PLACEHOLDERS = Names("t", b"\x01" * 16, "g", "x")
REFUSALS = frozenset(int(code) for code in AUTHORIZATION_FAILED.values())
RIGHTS = [
    pytest.param(operation, kind, id=f"{operation.name}-{kind.name}")
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)
    for operation in SUPPORTED_OPERATIONS[kind]
]
LOOKS = 2000
"""So many until something must be there: Kafka's brokers hear of rules and topics a moment after they were made."""


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
    create = CreateTopicsRequest(
        topics=[CreatableTopic(name="secret", num_partitions=1, replication_factor=1)], timeout_ms=10_000
    )
    with kafka.client() as admin:
        (theirs,) = admin.ask(create, 7).topics
    (made,) = ours.ask(create, 7).topics
    assert (theirs.error_code, made.error_code) == (0, 0)
    names = Names("secret", theirs.topic_id, "readers", "sender")
    return names, names._replace(topic_id=made.topic_id)


def ask_until_ready(admin: SocketClient) -> None:
    """Have both kinds of coordinators made, and wait until they answer."""
    group = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    sender = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    assert any(
        all(admin.ask(each, 4).coordinators[0].error_code == 0 for each in (group, sender)) for _ in range(LOOKS)
    )
    described = DescribeGroupsRequest(groups=["g"])
    listed = DescribeTransactionsRequest(transactional_ids=["x"])
    assert any(
        admin.ask(described, 5).groups[0].error_code == 0
        and admin.ask(listed, 0).transaction_states[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        for _ in range(LOOKS)
    )


def told_by(broker: Any, attempt: Attempt) -> list[tuple[str, int]]:
    return codes_in(broker.ask(attempt.request(), attempt.version))


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


@pytest.mark.parametrize(("operation", "kind"), RIGHTS)
def test_who_has_one_right_hears_the_same(
    operation: Operation, kind: ResourceType, kafka: SecuredKafka, ours: Harness
) -> None:
    # Names of its own for each right: what alice creates with one of them is not there for the next one.
    own = f"{operation.name}-{kind.name}".lower()
    names = Names(f"t-{own}", b"\x01" * 16, f"g-{own}", f"x-{own}")
    resource = {
        ResourceType.TOPIC: names.topic,
        ResourceType.GROUP: names.group,
        ResourceType.TRANSACTIONAL_ID: names.transactional_id,
        ResourceType.CLUSTER: CLUSTER_NAME,
    }[kind]
    user = "alice" if kind is not ResourceType.CLUSTER else "bob"
    acl = rule(operation, kind, resource, user=user)
    with kafka.client() as admin, kafka.client(user) as client:
        add(admin, acl)
        assert ours.services.authorizer is not None
        ours.services.authorizer.add([acl])
        ours.user = user
        try:
            titles = {each.title for each in compared()}
            heard = {
                each.title: (refusals(ours, each), refusals(client, each))
                for each in attempts(names)
                if each.title in titles
            }
        finally:
            ours.user = None
            ours.services.authorizer.remove([acl])
            remove(admin, acl)
    assert {title: both for title, both in heard.items() if both[0] != both[1]} == {}


def refusals(broker: Any, attempt: Attempt) -> set[tuple[str, int]]:
    """The refusals for want of rights, and the authorized requests; other errors do not matter here."""
    response = broker.ask(attempt.request(), attempt.version)
    refused = {(path, code) for path, code in codes_in(response) if code in REFUSALS}
    return refused | set(codes_in(response, ending="authorized_operations"))


def add(admin: SocketClient, acl: AclBinding) -> None:
    """Make a rule, and wait until brokers know of it."""
    creation = AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
    (result,) = admin.ask(CreateAclsRequest(creations=[creation]), 3).results
    assert result.error_code == 0
    wait_until(admin, acl, known=True)


def remove(admin: SocketClient, acl: AclBinding) -> None:
    """Forget a rule, and wait until brokers have."""
    (result,) = admin.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**as_filter(acl))]), 3).filter_results
    assert len(result.matching_acls) == 1
    wait_until(admin, acl, known=False)


def wait_until(admin: SocketClient, acl: AclBinding, *, known: bool) -> None:
    request = DescribeAclsRequest(**as_filter(acl))
    assert any(bool(admin.ask(request, 3).resources) is known for _ in range(LOOKS))


def as_filter(acl: AclBinding) -> dict[str, Any]:
    return {
        "resource_type_filter": acl.resource_type,
        "resource_name_filter": acl.resource_name,
        "pattern_type_filter": acl.pattern_type,
        "principal_filter": acl.principal,
        "host_filter": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission_type,
    }
