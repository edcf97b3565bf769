"""Brokers with an authorizer, and rules for them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from minibroker.security.authorization.acls import AclBinding, Operation, PatternType, PermissionType, ResourceType
from tests.broker.harness import Harness

AUTHORIZER: Final[Mapping[str, str]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}
"""An authorizer whose super users are admin and the anonymous user, which most tests use."""


def guarded(directory: Path, **config: str) -> Harness:
    """Return a broker without sockets and with an authorizer, where only super users have rights."""
    return Harness(str(directory), {**AUTHORIZER, **{name.replace("_", "."): value for name, value in config.items()}})


def rule(
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    *,
    user: str = "alice",
    deny: bool = False,
    prefixed: bool = False,
    host: str = "*",
) -> AclBinding:
    """Return a rule for a user."""
    return AclBinding(
        resource_type,
        name,
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        f"User:{user}",
        host,
        operation,
        PermissionType.DENY if deny else PermissionType.ALLOW,
    )


def allow(harness: Harness, operation: Operation, resource_type: ResourceType, name: str) -> None:
    """Allow an operation to alice."""
    assert harness.services.authorizer is not None
    harness.services.authorizer.add([rule(operation, resource_type, name)])
