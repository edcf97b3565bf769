from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker.cluster.errors import OperationError
from minibroker.operations.settings import Resource
from minibroker.security.authorization.acls import Operation, PatternType, PermissionType, ResourceType
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.harness import batch, produce_request
from tests.broker.socket_client import SocketClient

GUARDED = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.fixture
def guarded() -> Iterator[Broker]:
    """A broker with an authorizer."""
    with Broker(config=GUARDED, topics=["orders"]) as running:
        yield running


def produced(broker: Broker) -> int:
    """Produce with a client that is not authenticated, and return the error code."""
    host, port = broker.bootstrap_servers.split(":")
    with SocketClient((host, int(port))) as client:
        response = client.ask(produce_request(batch(b"a"), "orders"), 9)
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def test_who_is_allowed_may(guarded: Broker) -> None:
    assert produced(guarded) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (acl,) = guarded.allow("ANONYMOUS", "write", topic="ord", prefixed=True)
    assert (acl.principal, acl.pattern_type, acl.host) == ("User:ANONYMOUS", PatternType.PREFIXED, "*")
    assert produced(guarded) == 0
    guarded.deny("User:ANONYMOUS", "write", topic="orders", host="127.0.0.1")
    assert produced(guarded) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    guarded.remove_acls(guarded.acls()[1:])
    assert produced(guarded) == 0


def test_a_reset_brings_the_first_rules_back(guarded: Broker) -> None:
    guarded.allow("User:ANONYMOUS", "write", topic="orders")
    guarded.reset()
    assert guarded.acls() == []
    assert produced(guarded) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_snapshot_has_the_rules_of_its_moment(guarded: Broker, tmp_path: Path) -> None:
    first = guarded.allow("User:ANONYMOUS", "write", topic="orders")
    snapshot = guarded.snapshot(str(tmp_path / "kept"))
    guarded.remove_acls(first)
    guarded.deny("User:bob", "all", group="*")
    assert produced(guarded) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    guarded.restore(snapshot)
    assert guarded.acls() == first
    assert produced(guarded) == 0


@pytest.mark.parametrize(
    ("resource", "kind", "name"),
    [
        (Resource(topic="*"), ResourceType.TOPIC, "*"),
        (Resource(group="g"), ResourceType.GROUP, "g"),
        (Resource(transactional_id="x"), ResourceType.TRANSACTIONAL_ID, "x"),
        (Resource(cluster=True), ResourceType.CLUSTER, "kafka-cluster"),
    ],
)
def test_a_rule_is_about_one_resource(resource: Resource, kind: ResourceType, name: str, guarded: Broker) -> None:
    acls = guarded.deny("User:alice", "DescribeConfigs", "describe_configs", "all", **resource)
    assert [(each.resource_type, each.resource_name, each.permission_type) for each in acls] == [
        (kind, name, PermissionType.DENY)
    ] * 3
    assert [each.operation for each in guarded.acls()] == [Operation.DESCRIBE_CONFIGS, Operation.ALL]


@pytest.mark.parametrize(
    ("operations", "resource", "because"),
    [
        (["fly"], Resource(topic="t"), "operation 'fly' is not known"),
        (["any"], Resource(topic="t"), "operation 'any' is not known"),
        ([], Resource(topic="t"), "no operation was named"),
        (["read"], Resource(), "a rule is about one topic"),
        (["read"], Resource(topic="t", group="g"), "a rule is about one topic"),
        (["read"], Resource(topic=""), "Invalid empty resource name"),
    ],
)
def test_what_is_no_rule_is_refused(operations: list[str], resource: Resource, because: str, guarded: Broker) -> None:
    with pytest.raises(OperationError, match=because):
        guarded.allow("User:alice", *operations, **resource)


def test_a_broker_without_an_authorizer_has_no_rules() -> None:
    with Broker() as running, pytest.raises(OperationError, match=r"set authorizer\.class\.name"):
        running.allow("User:alice", "read", topic="orders")
