"""The authorized operations of a resource, as responses list them for a client (KIP-430)."""

from minibroker.requests.call import Call
from minibroker.security.authorization.acls import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType, bits_of


def authorized_operations(call: Call, resource_type: ResourceType, name: str) -> int:
    """The operations as bits, each at the place of its number; all that there are without an authorizer."""
    authorizer = call.services.authorizer
    if authorizer is None:
        return bits_of(SUPPORTED_OPERATIONS[resource_type])
    return authorizer.operations(call.session, resource_type, name)


def authorized_cluster_operations(call: Call) -> int:
    """Those on the cluster; none for a client that may not describe it."""
    if not call.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(call, ResourceType.CLUSTER, CLUSTER_NAME)
