from collections.abc import Callable
from typing import Any

import pytest

from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.acls import AclCreation, AclCreationResult, CreateAclsRequest, DescribeAclsRequest
from tests.broker.harness import Harness
from tests.broker.security.authorization.rules import AUTHORIZER

Configured = Callable[[dict[str, str]], Harness]


@pytest.fixture
def guarded(configured: Configured) -> Harness:
    """A broker with an authorizer; requests come from a super user."""
    return configured(dict(AUTHORIZER))


def creation(**fields: Any) -> AclCreation:
    known = {
        "resource_type": 2,
        "resource_name": "orders",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AclCreation(**{**known, **fields})


def create(harness: Harness, *creations: AclCreation, version: int = 3) -> list[AclCreationResult]:
    results: list[AclCreationResult] = harness.ask(CreateAclsRequest(creations=list(creations)), version).results
    return results


def count(harness: Harness) -> int:
    request = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return sum(len(each.acls) for each in harness.ask(request, 3).resources)


@pytest.mark.parametrize("version", range(4))
def test_a_rule_is_made_once(version: int, guarded: Harness) -> None:
    for _ in range(2):
        assert [each.error_code for each in create(guarded, creation(), creation(), version=version)] == [0, 0]
        assert count(guarded) == 1


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
        (
            {"resource_type": 4, "resource_name": "*"},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
    ],
)
def test_a_rule_that_cannot_be_is_refused_in_kafkas_words(
    fields: dict[str, Any], message: str, guarded: Harness
) -> None:
    refused, made = create(guarded, creation(**fields), creation())
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert (made.error_code, count(guarded)) == (0, 1)


@pytest.mark.parametrize(
    "fields",
    [{"resource_type": 1}, {"resource_pattern_type": 1}, {"resource_pattern_type": 2}, {"operation": 1}],
)
def test_a_filters_number_spoils_the_whole_request(fields: dict[str, Any], guarded: Harness) -> None:
    results = create(guarded, creation(), creation(**fields))
    assert [each.error_code for each in results] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert count(guarded) == 0


@pytest.mark.parametrize(
    "fields", [{"resource_type": 0}, {"resource_pattern_type": 0}, {"operation": 0}, {"permission_type": 0}]
)
def test_the_number_of_what_is_unknown_closes_the_connection(fields: dict[str, Any], guarded: Harness) -> None:
    with pytest.raises(UnservedRequestError):
        create(guarded, creation(**fields))


def test_rules_outlive_the_broker(guarded: Harness) -> None:
    create(guarded, creation(), creation(operation=4))
    guarded.crash()
    assert count(guarded) == 2


def test_without_an_authorizer_there_are_no_rules(harness: Harness) -> None:
    (result,) = create(harness, creation())
    assert (result.error_code, result.error_message) == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def test_who_may_not_alter_the_cluster_makes_no_rules(guarded: Harness) -> None:
    guarded.user = "alice"
    results = create(guarded, creation(), creation(resource_name=""))
    assert [each.error_code for each in results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    guarded.user = None
    assert count(guarded) == 0


def test_a_disk_that_refuses_leaves_the_rules_as_they_were(guarded: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_section: str, _value: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(guarded.core.metadata, "write", full)
    (result,) = create(guarded, creation())
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert count(guarded) == 0


def test_more_rules_than_kafka_writes_together_are_refused(guarded: Harness) -> None:
    results = create(guarded, *[creation()] * 10_001)
    assert {each.error_code for each in results} == {ErrorCode.POLICY_VIOLATION}
    assert count(guarded) == 0
