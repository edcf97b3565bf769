"""DeleteAcls: remove the rules that filters find (KIP-140, KIP-290).

Versions 0-3. SECURITY_DISABLED without an authorizer. A filter for what is not known is INVALID_REQUEST, with Kafka's
reason, and one with a number 0 closes the connection. Each filter returns what it has found, also what another one has
removed.
"""

from typing import Final

from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.cluster.routing.slices import Steps
from minibroker.security.authorization.acls import (
    AclBinding,
    AclFilter,
    InvalidAclError,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from minibroker.server.requests.call import Call
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

NEEDS: Final = on_cluster(Operation.ALTER)


def handle(request: DeleteAclsRequest, call: Call) -> Steps[DeleteAclsResponse | DelayedResponse]:
    """Remove what the filters find, together."""
    for each in request.filters:
        if 0 in _numbers(each):
            raise UnservedRequestError("DeleteAcls: a filter for what is not known")
    authorizer = call.services.authorizer
    if authorizer is None:
        return _all(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    results: list[DeleteAclsFilterResult] = []
    gone: dict[AclBinding, None] = {}
    for each in request.filters:
        yield
        acl_filter = _filter(each)
        try:
            acl_filter.check()
        except InvalidAclError as error:
            results.append(_error(ErrorCode.INVALID_REQUEST, str(error)))
            continue
        acls = authorizer.find(acl_filter)
        gone.update(dict.fromkeys(acls))
        found = [_matching(acl) for acl in acls]
        results.append(DeleteAclsFilterResult(error_code=ErrorCode.NONE, error_message=None, matching_acls=found))
    try:
        authorizer.remove(gone)
    except MAPPED as error:
        return _all(request, error_code_of(error), str(error))
    return hold(DeleteAclsResponse(filter_results=results), request, call)


def _numbers(requested: DeleteAclsFilter) -> tuple[int, ...]:
    return requested.resource_type_filter, requested.pattern_type_filter, requested.operation, requested.permission_type


def _filter(requested: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        ResourceType(requested.resource_type_filter),
        requested.resource_name_filter,
        PatternType(requested.pattern_type_filter),
        requested.principal_filter,
        requested.host_filter,
        Operation(requested.operation),
        PermissionType(requested.permission_type),
    )


def _matching(acl: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _error(code: ErrorCode, message: str) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=code, error_message=message, matching_acls=[])


def _all(request: DeleteAclsRequest, code: ErrorCode, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_error(code, message) for _ in request.filters])
