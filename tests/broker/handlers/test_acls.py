from typing import Any

import pytest

from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.security.authorization.acls import AclFilter, Operation, ResourceType
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tests.broker.harness import Configured, Harness
from tests.broker.security.authorization.rules import AUTHORIZER, rule


@pytest.fixture
def guarded(configured: Configured) -> Harness:
    """A broker with an authorizer, and requests of a super user."""
    return configured(dict(AUTHORIZER))


def creation(**fields: Any) -> AclCreation:
    defaults = {
        "resource_type": 2,
        "resource_name": "orders",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AclCreation(**{**defaults, **fields})


def create(harness: Harness, *creations: AclCreation, version: int = 3) -> list[AclCreationResult]:
    results: list[AclCreationResult] = harness.ask(CreateAclsRequest(creations=list(creations)), version).results
    return results


def left(harness: Harness) -> int:
    """Return the number of ACLs."""
    assert harness.services.authorizer is not None
    return len(harness.services.authorizer.find(AclFilter()))


@pytest.mark.parametrize("version", range(4))
def test_a_rule_is_made_once(version: int, guarded: Harness) -> None:
    for _ in range(2):
        assert [result.error_code for result in create(guarded, creation(), creation(), version=version)] == [0, 0]
        assert left(guarded) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 77}, "Invalid patternType UNKNOWN"),
        ({"operation": 55}, "Invalid operation UNKNOWN"),
        ({"permission_type": 9}, "Invalid permissionType UNKNOWN"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"host": ""}, "Host pattern cannot be null or empty"),
        (
            {"principal": "alice"},
            (
                "Could not parse principal from `alice` (no colon is present separating the principal type from the "
                "principal name)"
            ),
        ),
        ({"resource_type": 4, "resource_name": "*"}, "The only valid name for the CLUSTER resource is kafka-cluster"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_in_kafkas_words(
    fields: dict[str, Any], message: str, guarded: Harness
) -> None:
    refused, created = create(guarded, creation(**fields), creation())
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert (created.error_code, left(guarded)) == (0, 1)


@pytest.mark.parametrize(
    "fields", [{"resource_type": 1}, {"resource_pattern_type": 1}, {"resource_pattern_type": 2}, {"operation": 1}]
)
def test_a_filters_number_spoils_the_whole_request(fields: dict[str, Any], guarded: Harness) -> None:
    results = create(guarded, creation(), creation(**fields))
    assert [result.error_code for result in results] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert left(guarded) == 0


@pytest.mark.parametrize(
    "fields", [{"resource_type": 0}, {"resource_pattern_type": 0}, {"operation": 0}, {"permission_type": 0}]
)
def test_the_number_of_what_is_unknown_closes_the_connection(fields: dict[str, Any], guarded: Harness) -> None:
    with pytest.raises(UnservedRequestError):
        create(guarded, creation(**fields))


def test_rules_outlive_the_broker(guarded: Harness) -> None:
    create(guarded, creation(), creation(operation=4))
    guarded.crash()
    assert left(guarded) == 2


def test_without_an_authorizer_there_are_no_rules(harness: Harness) -> None:
    (result,) = create(harness, creation())
    assert (result.error_code, result.error_message) == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def test_who_may_not_alter_the_cluster_makes_no_rules(guarded: Harness) -> None:
    guarded.user = "alice"
    results = create(guarded, creation(), creation(resource_name=""))
    assert [result.error_code for result in results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    assert left(guarded) == 0


def test_a_disk_that_refuses_leaves_the_rules_as_they_were(guarded: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_section: str, _value: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(guarded.core.metadata, "write", full)
    (result,) = create(guarded, creation())
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert left(guarded) == 0


def test_more_rules_than_kafka_writes_together_are_refused(guarded: Harness) -> None:
    results = create(guarded, *[creation()] * 10_001)
    assert {result.error_code for result in results} == {ErrorCode.POLICY_VIOLATION}
    assert left(guarded) == 0


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
def ruled(guarded: Harness) -> Harness:
    """A broker with an authorizer and several ACLs."""
    assert guarded.services.authorizer is not None
    guarded.services.authorizer.add(
        [
            rule(Operation.READ, ResourceType.TOPIC, "orders"),
            rule(Operation.WRITE, ResourceType.TOPIC, "orders", user="bob"),
            rule(Operation.READ, ResourceType.TOPIC, "or", prefixed=True),
            rule(Operation.READ, ResourceType.TOPIC, "*", deny=True),
            rule(Operation.READ, ResourceType.GROUP, "orders"),
        ]
    )
    return guarded


def describe(harness: Harness, version: int = 3, **fields: Any) -> DescribeAclsResponse:
    response: DescribeAclsResponse = harness.ask(DescribeAclsRequest(**{**ANYTHING, **fields}), version)
    return response


def names(response: DescribeAclsResponse) -> list[tuple[int, str, int, int]]:
    return [
        (resource.resource_type, resource.resource_name, resource.pattern_type, len(resource.acls))
        for resource in response.resources
    ]


def test_rules_come_by_their_resources(ruled: Harness) -> None:
    response = describe(ruled)
    assert (response.error_code, response.error_message) == (0, "")
    assert names(response) == [(2, "orders", 3, 2), (2, "or", 4, 1), (2, "*", 3, 1), (3, "orders", 3, 1)]
    assert [(acl.principal, acl.operation) for acl in response.resources[0].acls] == [
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
def test_filters_find_rules(fields: dict[str, Any], found: list[tuple[int, str, int, int]], ruled: Harness) -> None:
    assert names(describe(ruled, **fields)) == found


def test_version_0_knows_literal_patterns_only(ruled: Harness) -> None:
    assert {name for _, name, _, _ in names(describe(ruled, 0))} == {"orders", "*"}


@pytest.mark.parametrize("field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"])
def test_a_filter_for_what_is_unknown_closes_the_connection(field: str, ruled: Harness) -> None:
    with pytest.raises(UnservedRequestError):
        describe(ruled, **{field: 0})


def test_without_an_authorizer_there_is_nothing_to_describe(harness: Harness) -> None:
    response = describe(harness)
    assert response.error_code == ErrorCode.SECURITY_DISABLED
    assert response.error_message == "No Authorizer is configured on the broker"


def test_who_may_not_describe_the_cluster_sees_no_rules(ruled: Harness) -> None:
    ruled.user = "alice"
    response = describe(ruled)
    assert (response.error_code, response.resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


def acl_filter(**fields: Any) -> DeleteAclsFilter:
    return DeleteAclsFilter(**{**ANYTHING, **fields})


def delete(harness: Harness, *filters: DeleteAclsFilter, version: int = 3) -> list[DeleteAclsFilterResult]:
    response = harness.ask(DeleteAclsRequest(filters=list(filters)), version)
    results: list[DeleteAclsFilterResult] = response.filter_results
    return results


def test_what_filters_find_is_gone_and_told(ruled: Harness) -> None:
    topics, everything = delete(ruled, acl_filter(resource_type_filter=2), acl_filter())
    assert [(acl.resource_name, acl.pattern_type) for acl in topics.matching_acls] == [
        ("orders", 3),
        ("orders", 3),
        ("or", 4),
        ("*", 3),
    ]
    assert len(everything.matching_acls) == 5
    assert left(ruled) == 0
    ruled.crash()
    assert left(ruled) == 0


def test_what_finds_nothing_removes_nothing(ruled: Harness) -> None:
    (result,) = delete(ruled, acl_filter(resource_name_filter="other"))
    assert (result.error_code, result.matching_acls, left(ruled)) == (0, [], 5)


def test_version_0_finds_literal_patterns_only(ruled: Harness) -> None:
    delete(ruled, acl_filter(resource_type_filter=2), version=0)
    assert left(ruled) == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"resource_type_filter": 88}, "Unknown patternFilter."), ({"operation": 88}, "Unknown entryFilter.")],
)
def test_a_filter_for_what_nobody_knows_is_refused(fields: dict[str, Any], message: str, ruled: Harness) -> None:
    refused, served = delete(ruled, acl_filter(**fields), acl_filter(resource_type_filter=3))
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert (served.error_code, left(ruled)) == (0, 4)


def test_a_filter_with_a_zero_closes_the_connection(ruled: Harness) -> None:
    with pytest.raises(UnservedRequestError):
        delete(ruled, acl_filter(pattern_type_filter=0))


def test_without_an_authorizer_there_is_nothing_to_remove(harness: Harness) -> None:
    (result,) = delete(harness, acl_filter())
    assert (result.error_code, result.error_message) == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def test_who_may_not_alter_the_cluster_removes_nothing(ruled: Harness) -> None:
    ruled.user = "alice"
    (result,) = delete(ruled, acl_filter())
    assert (result.error_code, left(ruled)) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 5)
