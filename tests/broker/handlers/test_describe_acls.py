from collections.abc import Callable
from typing import Any

import pytest

from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.acls import DescribeAclsRequest, DescribeAclsResponse
from tests.broker.harness import Harness
from tests.broker.security.authorization.rules import AUTHORIZER, rule

Configured = Callable[[dict[str, str]], Harness]
ANYTHING = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@pytest.fixture
def guarded(configured: Configured) -> Harness:
    """A broker with an authorizer and a handful of rules."""
    made = configured(dict(AUTHORIZER))
    assert made.services.authorizer is not None
    made.services.authorizer.add(
        [
            rule(Operation.READ, ResourceType.TOPIC, "orders"),
            rule(Operation.WRITE, ResourceType.TOPIC, "orders", user="bob"),
            rule(Operation.READ, ResourceType.TOPIC, "or", prefixed=True),
            rule(Operation.READ, ResourceType.TOPIC, "*", deny=True),
            rule(Operation.READ, ResourceType.GROUP, "orders"),
        ]
    )
    return made


def describe(harness: Harness, version: int = 3, **fields: Any) -> DescribeAclsResponse:
    response: DescribeAclsResponse = harness.ask(DescribeAclsRequest(**{**ANYTHING, **fields}), version)
    return response


def names(response: DescribeAclsResponse) -> list[tuple[int, str, int, int]]:
    return [(each.resource_type, each.resource_name, each.pattern_type, len(each.acls)) for each in response.resources]


def test_rules_come_by_their_resources(guarded: Harness) -> None:
    response = describe(guarded)
    assert (response.error_code, response.error_message) == (0, "")
    assert names(response) == [(2, "orders", 3, 2), (2, "or", 4, 1), (2, "*", 3, 1), (3, "orders", 3, 1)]
    assert [(each.principal, each.operation) for each in response.resources[0].acls] == [
        ("User:alice", 3),
        ("User:bob", 4),
    ]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"resource_name_filter": "orders"}, [(2, "orders", 3, 2), (3, "orders", 3, 1)]),
        (
            {"resource_name_filter": "orders", "pattern_type_filter": 2, "resource_type_filter": 2},
            [(2, "orders", 3, 2), (2, "or", 4, 1), (2, "*", 3, 1)],
        ),
        ({"pattern_type_filter": 4}, [(2, "or", 4, 1)]),
        ({"principal_filter": "User:bob"}, [(2, "orders", 3, 1)]),
        ({"host_filter": "10.0.0.1"}, []),
        ({"operation": 4}, [(2, "orders", 3, 1)]),
        ({"permission_type": 2}, [(2, "*", 3, 1)]),
        ({"resource_type_filter": 88}, []),
    ],
)
def test_filters_find_rules(fields: dict[str, Any], found: list[tuple[int, str, int, int]], guarded: Harness) -> None:
    assert names(describe(guarded, **fields)) == found


def test_version_0_knows_literal_patterns_only(guarded: Harness) -> None:
    assert {name for _, name, _, _ in names(describe(guarded, 0))} == {"orders", "*"}


@pytest.mark.parametrize("field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"])
def test_a_filter_for_what_is_unknown_closes_the_connection(field: str, guarded: Harness) -> None:
    with pytest.raises(UnservedRequestError):
        describe(guarded, **{field: 0})


def test_without_an_authorizer_there_is_nothing_to_describe(harness: Harness) -> None:
    response = describe(harness)
    assert response.error_code == ErrorCode.SECURITY_DISABLED
    assert response.error_message == "No Authorizer is configured on the broker"


def test_who_may_not_describe_the_cluster_sees_no_rules(guarded: Harness) -> None:
    guarded.user = "alice"
    response = describe(guarded)
    assert (response.error_code, response.resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
