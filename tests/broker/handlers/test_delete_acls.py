from collections.abc import Callable
from typing import Any

import pytest

from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.security.authorization.acls import AclFilter, Operation, ResourceType
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest
from tests.broker.harness import Harness
from tests.broker.security.authorization.rules import AUTHORIZER, rule

Configured = Callable[[dict[str, str]], Harness]


@pytest.fixture
def guarded(configured: Configured) -> Harness:
    """A broker with an authorizer and three rules."""
    made = configured(dict(AUTHORIZER))
    assert made.services.authorizer is not None
    made.services.authorizer.add(
        [
            rule(Operation.READ, ResourceType.TOPIC, "orders"),
            rule(Operation.READ, ResourceType.TOPIC, "or", prefixed=True),
            rule(Operation.READ, ResourceType.GROUP, "orders"),
        ]
    )
    return made


def acl_filter(**fields: Any) -> DeleteAclsFilter:
    known = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return DeleteAclsFilter(**{**known, **fields})


def delete(harness: Harness, *filters: DeleteAclsFilter, version: int = 3) -> list[DeleteAclsFilterResult]:
    response = harness.ask(DeleteAclsRequest(filters=list(filters)), version)
    results: list[DeleteAclsFilterResult] = response.filter_results
    return results


def left(harness: Harness) -> int:
    assert harness.services.authorizer is not None
    return len(harness.services.authorizer.find(AclFilter()))


def test_what_filters_find_is_gone_and_told(guarded: Harness) -> None:
    topics, everything = delete(guarded, acl_filter(resource_type_filter=2), acl_filter())
    assert [(each.resource_name, each.pattern_type) for each in topics.matching_acls] == [("orders", 3), ("or", 4)]
    assert len(everything.matching_acls) == 3
    assert left(guarded) == 0
    guarded.crash()
    assert left(guarded) == 0


def test_what_finds_nothing_removes_nothing(guarded: Harness) -> None:
    (result,) = delete(guarded, acl_filter(resource_name_filter="other"))
    assert (result.error_code, result.matching_acls, left(guarded)) == (0, [], 3)


def test_version_0_finds_literal_patterns_only(guarded: Harness) -> None:
    delete(guarded, acl_filter(resource_type_filter=2), version=0)
    assert left(guarded) == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"resource_type_filter": 88}, "Unknown patternFilter."), ({"operation": 88}, "Unknown entryFilter.")],
)
def test_a_filter_for_what_nobody_knows_is_refused(fields: dict[str, Any], message: str, guarded: Harness) -> None:
    refused, served = delete(guarded, acl_filter(**fields), acl_filter(resource_type_filter=3))
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert (served.error_code, left(guarded)) == (0, 2)


def test_a_filter_with_a_zero_closes_the_connection(guarded: Harness) -> None:
    with pytest.raises(UnservedRequestError):
        delete(guarded, acl_filter(pattern_type_filter=0))


def test_without_an_authorizer_there_is_nothing_to_remove(harness: Harness) -> None:
    (result,) = delete(harness, acl_filter())
    assert (result.error_code, result.error_message) == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def test_who_may_not_alter_the_cluster_removes_nothing(guarded: Harness) -> None:
    guarded.user = "alice"
    (result,) = delete(guarded, acl_filter())
    assert (result.error_code, left(guarded)) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 3)
