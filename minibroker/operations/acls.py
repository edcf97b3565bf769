"""Access control lists without a client."""

from collections.abc import Iterable
from typing import Literal, TypedDict

from minibroker.errors import OperationError
from minibroker.security.authorization.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclFilter,
    InvalidAclError,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from minibroker.security.authorization.authorizer import Authorizer
from minibroker.security.principals import USER
from minibroker.services import Services


class Resource(TypedDict, total=False):
    """The resource of a rule, and the hosts: one topic, group, transactional id or the cluster.

    `prefixed` is for all resources whose names begin so, `*` as a name for all of a type, and `host` an address.
    """

    topic: str
    group: str
    transactional_id: str
    cluster: bool
    prefixed: bool
    host: str


def make_rules(
    services: Services,
    permission: Literal["ALLOW", "DENY"],
    principal: str,
    operations: Iterable[str],
    resource: Resource,
) -> list[AclBinding]:
    """Permit or deny operations. `OperationError` for what is not a rule, and without an authorizer."""
    authorizer = _authorizer(services)
    kind, name = _named(resource)
    made = [
        AclBinding(
            kind,
            name,
            PatternType.PREFIXED if resource.get("prefixed") else PatternType.LITERAL,
            principal if ":" in principal else f"{USER}:{principal}",
            resource.get("host", WILDCARD),
            _operation(each),
            PermissionType[permission],
        )
        for each in operations
    ]
    if not made:
        raise OperationError('no operation was named; "all" is all of them')
    try:
        authorizer.add(made)
    except InvalidAclError as error:
        raise OperationError(str(error)) from None
    return made


def find_rules(services: Services) -> list[AclBinding]:
    """All rules. `OperationError` without an authorizer."""
    return _authorizer(services).find(AclFilter())


def remove_rules(services: Services, acls: Iterable[AclBinding]) -> None:
    """Forget rules. `OperationError` without an authorizer."""
    _authorizer(services).remove(acls)


def _authorizer(services: Services) -> Authorizer:
    if services.authorizer is None:
        raise OperationError("the broker has no authorizer: its configuration lacks authorizer.class.name")
    return services.authorizer


def _named(resource: Resource) -> tuple[ResourceType, str]:
    named = [
        (kind, name)
        for kind, name in (
            (ResourceType.TOPIC, resource.get("topic")),
            (ResourceType.GROUP, resource.get("group")),
            (ResourceType.TRANSACTIONAL_ID, resource.get("transactional_id")),
            (ResourceType.CLUSTER, CLUSTER_NAME if resource.get("cluster") else None),
        )
        if name is not None
    ]
    if len(named) != 1:
        raise OperationError("a rule is about one topic, group or transactional_id, or about the cluster")
    return named[0]


def _operation(text: str) -> Operation:
    """By its name, in any case, with or without underscores ("describe_configs", "DescribeConfigs")."""
    requested = str(text).replace("_", "").upper()
    for each in Operation:
        if each > Operation.ANY and each.name.replace("_", "") == requested:
            return each
    known = ", ".join(each.name.lower() for each in Operation if each > Operation.ANY)
    raise OperationError(f"operation {text!r} is not known; there are {known}")
