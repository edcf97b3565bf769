"""DescribeAcls: the access control lists that a filter finds (KIP-140, KIP-290).

Versions 0-3. SECURITY_DISABLED without an authorizer. A filter with a number 0 closes the connection, as in Kafka,
which cannot read the request; other unknown numbers find nothing. Rules come by their resources, in the order
in which they were made.
"""

from typing import Final

from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.security.authorization.acls import AclFilter, Operation, PatternType, PermissionType, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

NEEDS: Final = on_cluster(Operation.DESCRIBE)


def handle(request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    """Return the rules."""
    if 0 in {
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    }:
        raise UnservedRequestError("DescribeAcls: a filter for what is not known")
    authorizer = call.services.authorizer
    if authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
            resources=[],
        )
    acl_filter = AclFilter(
        ResourceType(request.resource_type_filter),
        request.resource_name_filter,
        PatternType(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        Operation(request.operation),
        PermissionType(request.permission_type),
    )
    found: dict[tuple[ResourceType, str, PatternType], list[AclDescription]] = {}
    for acl in authorizer.find(acl_filter):
        found.setdefault(acl[:3], []).append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    resources = [
        DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls)
        for (kind, name, pattern), acls in found.items()
    ]
    return DescribeAclsResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        resources=resources,
    )
