"""Rights of users, and what brokers answer to those who lack them: Kafka's answers are held against ours."""

from collections.abc import Collection
from typing import Any

import pytest

from minibroker.security.authorization.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclBinding,
    Operation,
    ResourceType,
)
from minibroker.server.requests.requirements import AUTHORIZATION_FAILED
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from minibroker_protocol.messages.describe_transactions import DescribeTransactionsRequest
from minibroker_protocol.messages.groups import DescribeGroupsRequest, FindCoordinatorRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.broker.harness import Harness
from tests.broker.security.authorization.attempts import Attempt, Names, attempts, codes_in
from tests.broker.security.authorization.rules import rule
from tests.broker.socket_client import SocketClient
from tests.kafka.secured_kafka import SecuredKafka
from tests.patience import eventually

PLACEHOLDERS = Names("t", b"\x01" * 16, "g", "x")
REFUSALS = frozenset(int(code) for code in AUTHORIZATION_FAILED.values())
RIGHTS = [
    pytest.param(operation, kind, id=f"{operation.name}-{kind.name}")
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)
    for operation in SUPPORTED_OPERATIONS[kind]
]


def create_topic(kafka: SecuredKafka, ours: Harness) -> tuple[Names, Names]:
    """The resources for a user without rights, by Kafka's ids and by ours; the topic is made."""
    create = CreateTopicsRequest(
        topics=[CreatableTopic(name="secret", num_partitions=1, replication_factor=1)], timeout_ms=10_000
    )
    with kafka.client() as admin:
        (theirs,) = admin.ask(create, 7).topics
        assert theirs.error_code == 0
        known = MetadataRequest(topics=[MetadataRequestTopic(topic_id=theirs.topic_id, name=None)])
        eventually(lambda: admin.ask(known, 12).topics[0].error_code == 0)
    (made,) = ours.ask(create, 7).topics
    assert made.error_code == 0
    names = Names("secret", theirs.topic_id, "readers", "sender")
    return names, names._replace(topic_id=made.topic_id)


def ask_until_ready(admin: SocketClient) -> None:
    """Have both kinds of coordinators made, and wait until they answer."""
    group = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    sender = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    eventually(lambda: all(admin.ask(each, 4).coordinators[0].error_code == 0 for each in (group, sender)))
    described = DescribeGroupsRequest(groups=["g"])
    listed = DescribeTransactionsRequest(transactional_ids=["x"])
    eventually(
        lambda: (
            admin.ask(described, 5).groups[0].error_code == 0
            and admin.ask(listed, 0).transaction_states[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    )


def told_by(broker: Any, attempt: Attempt) -> list[tuple[str, int]]:
    return codes_in(broker.ask(attempt.request(), attempt.version))


Answer = set[tuple[str, int]]


def differences(
    kafka: SecuredKafka, ours: Harness, operation: Operation, kind: ResourceType, titles: Collection[str]
) -> dict[str, tuple[Answer, Answer]]:
    """The attempts in which a user with one right is refused otherwise by us than by Kafka."""
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
            heard = {
                each.title: (refusals(ours, each), refusals(client, each))
                for each in attempts(names)
                if each.title in titles
            }
        finally:
            ours.user = None
            ours.services.authorizer.remove([acl])
            remove(admin, acl)
    return {title: both for title, both in heard.items() if both[0] != both[1]}


def refusals(broker: Any, attempt: Attempt) -> Answer:
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
    eventually(lambda: bool(admin.ask(request, 3).resources) is known)


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
