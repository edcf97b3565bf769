"""CreateAcls: rules about who may do what to which resources (KIP-140, KIP-290).

Versions 0-3. SECURITY_DISABLED without an authorizer. A rule that cannot be is INVALID_REQUEST, with Kafka's reason;
the others are made, and one that there is already is not an error. As in Kafka a rule with the number of ANY or MATCH
spoils the whole request (UNKNOWN_SERVER_ERROR for each), and one with a number 0 closes the connection.
POLICY_VIOLATION for each where there are more than 10,000.
"""

from typing import Final

from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.cluster.topic_admin import MAX_RECORDS, TOO_LARGE
from minibroker.security.authorization.acls import (
    AclBinding,
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
from minibroker_protocol.messages.acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse

NEEDS: Final = on_cluster(Operation.ALTER)


def handle(request: CreateAclsRequest, call: Call) -> CreateAclsResponse | DelayedResponse:
    """Make those that can be."""
    for each in request.creations:
        if 0 in _numbers(each):
            raise UnservedRequestError("CreateAcls: a rule about what is not known")
    authorizer = call.services.authorizer
    if authorizer is None:
        return _all(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    if len(request.creations) > MAX_RECORDS:
        return _all(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    bindings = [_binding(each) for each in request.creations]
    if any(map(_is_for_filters, bindings)):
        return _all(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    results: list[AclCreationResult] = []
    valid: list[AclBinding] = []
    for acl in bindings:
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
        return _all(request, error_code_of(error), str(error))
    return hold(CreateAclsResponse(results=results), request, call)


def _numbers(creation: AclCreation) -> tuple[int, ...]:
    return creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type


def _binding(creation: AclCreation) -> AclBinding:
    return AclBinding(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        Operation(creation.operation),
        PermissionType(creation.permission_type),
    )


def _is_for_filters(acl: AclBinding) -> bool:
    return (
        acl.resource_type is ResourceType.ANY
        or acl.pattern_type in {PatternType.ANY, PatternType.MATCH}
        or acl.operation is Operation.ANY
        or acl.permission_type is PermissionType.ANY
    )


def _all(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
    )
