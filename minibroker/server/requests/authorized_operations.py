"""The authorized operations of a resource, as responses list them for a client (KIP-430)."""

from typing import Final

from minibroker.security.authorization.acls import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType, bits_of
from minibroker.server.requests.call import Call

_OF_GROUPS_SINCE_4_0: Final = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})


def authorized_operations(call: Call, resource_type: ResourceType, name: str) -> int:
    """The operations as bits, each at the place of its number; all that there are without an authorizer."""
    operations = SUPPORTED_OPERATIONS[resource_type]
    if resource_type is ResourceType.GROUP and call.services.is_before("4.0"):
        operations = tuple(each for each in operations if each not in _OF_GROUPS_SINCE_4_0)
    authorizer = call.services.authorizer
    return bits_of(
        operations if authorizer is None else authorizer.operations(call.session, resource_type, name, operations)
    )


def authorized_cluster_operations(call: Call) -> int:
    """Those on the cluster; none for a client that may not describe it."""
    if not call.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(call, ResourceType.CLUSTER, CLUSTER_NAME)
