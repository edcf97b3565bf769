"""Handlers for access control lists (KIP-140, KIP-290)."""

from typing import Final

from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import RefusedRequestError, UnservedRequestError
from minibroker.cluster.routing.slices import ForEach, Served
from minibroker.cluster.topic_admin import MAX_RECORDS, TOO_LARGE
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
from minibroker.server.requests.declarations import handles
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

_ANY: Final = 1
"""The number of ANY among resource types, pattern types, operations and permission types."""


@handles(ApiKey.DESCRIBE_ACLS, needs=on_cluster(Operation.DESCRIBE))
def describe_acls(request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    """DescribeAcls: return the access control lists that match a filter (KIP-140, KIP-290).

    Versions 0-3 are served. Without an authorizer the error is SECURITY_DISABLED. A filter with an enum value of 0
    closes the connection, because Kafka cannot read that request either. Other unknown enum values match nothing.
    ACLs are grouped by resource, in the order of their creation.
    """
    if 0 in _enums_of_filter(request):
        raise UnservedRequestError("DescribeAcls: a filter for what is not known")
    authorizer = call.services.authorizer
    if authorizer is None:
        raise RefusedRequestError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    descriptions: dict[tuple[ResourceType, str, PatternType], list[AclDescription]] = {}
    for acl in authorizer.find(_filter_of(request)):
        descriptions.setdefault(acl[:3], []).append(
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
            )
        )
    resources = [
        DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls)
        for (kind, name, pattern), acls in descriptions.items()
    ]
    return DescribeAclsResponse(error_code=ErrorCode.NONE, error_message="", resources=resources)


@handles(ApiKey.CREATE_ACLS, needs=on_cluster(Operation.ALTER))
def create_acls(request: CreateAclsRequest, call: Call) -> CreateAclsResponse | DelayedResponse:
    """CreateAcls: create access control lists (KIP-140, KIP-290).

    Versions 0-3 are served. Creating an ACL that already exists is not an error. As in Kafka, an ACL with the enum
    value of ANY or MATCH fails the whole request, and one with an enum value of 0 closes the connection.

    Error codes:

    - SECURITY_DISABLED: there is no authorizer.
    - INVALID_REQUEST: the ACL is invalid. The message is Kafka's. The other ACLs of the request are created.
    - UNKNOWN_SERVER_ERROR: for each ACL of a request with ANY or MATCH.
    - POLICY_VIOLATION: for each ACL if the request has more than 10,000.
    """
    for creation in request.creations:
        if 0 in _enums_of_creation(creation):
            raise UnservedRequestError("CreateAcls: a rule about what is not known")
    authorizer = call.services.authorizer
    if authorizer is None:
        raise RefusedRequestError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    if len(request.creations) > MAX_RECORDS:
        raise RefusedRequestError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    if any(
        _ANY in _enums_of_creation(creation) or creation.resource_pattern_type == PatternType.MATCH
        for creation in request.creations
    ):
        raise RefusedRequestError(ErrorCode.UNKNOWN_SERVER_ERROR)
    results: list[AclCreationResult] = []
    valid: list[AclBinding] = []
    for creation in request.creations:
        acl = _binding_of(creation)
        try:
            acl.check()
            if not acl.host and not call.services.is_before("4.4"):
                raise InvalidAclError("Host pattern cannot be null or empty")  # noqa: TRY301 - the next line answers it
        except InvalidAclError as error:
            results.append(AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=str(error)))
        else:
            valid.append(acl)
            results.append(AclCreationResult(error_code=ErrorCode.NONE, error_message=""))
    try:
        authorizer.add(valid)
    except MAPPED as error:
        raise RefusedRequestError(error_code_of(error), str(error)) from None
    return hold(CreateAclsResponse(results=results), request, call)


def _enums_of_creation(creation: AclCreation) -> tuple[int, ...]:
    return creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type


def _binding_of(creation: AclCreation) -> AclBinding:
    return AclBinding(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        Operation(creation.operation),
        PermissionType(creation.permission_type),
    )


@handles(ApiKey.DELETE_ACLS, needs=on_cluster(Operation.ALTER))
def delete_acls(request: DeleteAclsRequest, call: Call) -> Served[DeleteAclsResponse | DelayedResponse]:
    """DeleteAcls: delete the access control lists that match filters (KIP-140, KIP-290).

    Versions 0-3 are served. Without an authorizer the error is SECURITY_DISABLED. A filter for an unknown type or
    operation gets INVALID_REQUEST, with Kafka's message. A filter with an enum value of 0 closes the connection.
    Each filter returns all of its matches, including ACLs that another filter deletes.
    """
    for acl_filter in request.filters:
        if 0 in _enums_of_filter(acl_filter):
            raise UnservedRequestError("DeleteAcls: a filter for what is not known")
    authorizer = call.services.authorizer
    if authorizer is None:
        raise RefusedRequestError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    deleted: dict[AclBinding, None] = {}

    def find(requested: DeleteAclsFilter) -> DeleteAclsFilterResult:
        acl_filter = _filter_of(requested)
        try:
            acl_filter.check()
        except InvalidAclError as error:
            return DeleteAclsFilterResult(
                error_code=ErrorCode.INVALID_REQUEST, error_message=str(error), matching_acls=[]
            )
        acls = authorizer.find(acl_filter)
        deleted.update(dict.fromkeys(acls))
        matching = [
            DeleteAclsMatchingAcl(error_code=ErrorCode.NONE, error_message=None, **acl._asdict()) for acl in acls
        ]
        return DeleteAclsFilterResult(error_code=ErrorCode.NONE, error_message=None, matching_acls=matching)

    def remove(results: list[DeleteAclsFilterResult]) -> DeleteAclsResponse | DelayedResponse:
        try:
            authorizer.remove(deleted)
        except MAPPED as error:
            raise RefusedRequestError(error_code_of(error), str(error)) from None
        return hold(DeleteAclsResponse(filter_results=results), request, call)

    return ForEach(request.filters, find, remove)


def _enums_of_filter(requested: DescribeAclsRequest | DeleteAclsFilter) -> tuple[int, ...]:
    return requested.resource_type_filter, requested.pattern_type_filter, requested.operation, requested.permission_type


def _filter_of(requested: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        ResourceType(requested.resource_type_filter),
        requested.resource_name_filter,
        PatternType(requested.pattern_type_filter),
        requested.principal_filter,
        requested.host_filter,
        Operation(requested.operation),
        PermissionType(requested.permission_type),
    )
