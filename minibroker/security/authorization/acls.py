"""Access control lists (ACLs) as data: rules that allow or deny operations, and filters that find rules.

Numbers and names are those of `org.apache.kafka.common.acl` and `.resource` (KIP-11, KIP-290). As in Kafka, an unknown
number becomes UNKNOWN.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Self


class _Coded(IntEnum):
    """The base class of numeric codes on the wire. 0 is UNKNOWN, which also represents all numbers without a name."""

    __hash__ = int.__hash__  # Enum's own __hash__ is too slow for looking up thousands of rules.

    @classmethod
    def _missing_(cls, value: object) -> "Self | None":
        return cls(0) if isinstance(value, int) else None


class ResourceType(_Coded):
    """The types of resources. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Coded):
    """The ways to match a rule's name: LITERAL (`*` is all resources), PREFIXED. ANY and MATCH are only for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Coded):
    """The operations on a resource. A rule for ALL applies to every operation. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(_Coded):
    """The effect of a rule. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""

WILDCARD: Final = "*"
"""Stands for all resources as the name of a LITERAL rule, and for all hosts as a host."""

SUPPORTED_OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations considered when a client requests its authorized operations (`AclEntry.supportedOperations`)."""


def to_bit_field(operations: "tuple[Operation, ...] | list[Operation]") -> int:
    """Return operations as a 32-bit field, with one bit per operation number (KIP-430)."""
    return sum(1 << operation for operation in operations)


class InvalidAclError(ValueError):
    """An invalid rule or filter. The message is Kafka's."""


class AclBinding(NamedTuple):
    """A rule that allows or denies an operation of a principal on the resources of a pattern.

    Attributes:
        principal: Type and name, such as "User:alice"; "User:*" is every user.
        host: An IP address, or `*` for all hosts. Host names match nothing.
    """

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission_type: PermissionType

    def check(self) -> None:
        """Check that this is a valid rule (`AclApis`, `AclControlManager.validateNewAcl`).

        Raises:
            InvalidAclError: The rule is invalid.
        """
        if self.resource_type is ResourceType.CLUSTER and self.resource_name != CLUSTER_NAME:
            raise InvalidAclError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
        if not self.resource_name:
            raise InvalidAclError("Invalid empty resource name")
        for field, value, forbidden in (
            ("resourceType", self.resource_type, {ResourceType.UNKNOWN, ResourceType.ANY}),
            ("patternType", self.pattern_type, {PatternType.UNKNOWN, PatternType.ANY, PatternType.MATCH}),
            ("operation", self.operation, {Operation.UNKNOWN, Operation.ANY}),
            ("permissionType", self.permission_type, {PermissionType.UNKNOWN, PermissionType.ANY}),
        ):
            if value in forbidden:
                raise InvalidAclError(f"Invalid {field} {value.name}")
        if ":" not in self.principal:
            raise InvalidAclError(
                f"Could not parse principal from `{self.principal}` "
                "(no colon is present separating the principal type from the principal name)"
            )


class AclFilter(NamedTuple):
    """A filter for rules. None and ANY match everything (`AclBindingFilter`)."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission_type: PermissionType = PermissionType.ANY

    def check(self) -> None:
        """Check that the filter has no unknown values (`AclControlManager.validateFilter`).

        Raises:
            InvalidAclError: A value is unknown.
        """
        if ResourceType.UNKNOWN is self.resource_type or PatternType.UNKNOWN is self.pattern_type:
            raise InvalidAclError("Unknown patternFilter.")
        if Operation.UNKNOWN is self.operation or PermissionType.UNKNOWN is self.permission_type:
            raise InvalidAclError("Unknown entryFilter.")

    @property
    def only_match(self) -> AclBinding | None:
        """The only rule that can match, or None if several can."""
        name, principal, host = self.resource_name, self.principal, self.host
        if (
            name is None
            or principal is None
            or host is None
            or self.resource_type is ResourceType.ANY
            or self.pattern_type not in {PatternType.LITERAL, PatternType.PREFIXED}
            or self.operation is Operation.ANY
            or self.permission_type is PermissionType.ANY
        ):
            return None
        return AclBinding(
            self.resource_type, name, self.pattern_type, principal, host, self.operation, self.permission_type
        )

    def matches(self, acl: AclBinding) -> bool:
        """Return whether the filter matches a rule."""
        return (
            self._matches_pattern(acl)
            and self.principal in {None, acl.principal}
            and self.host in {None, acl.host}
            and self.operation in {Operation.ANY, acl.operation}
            and self.permission_type in {PermissionType.ANY, acl.permission_type}
        )

    def _matches_pattern(self, acl: AclBinding) -> bool:
        """Return whether a rule's resource pattern matches, like `ResourcePatternFilter.matches`.

        MATCH finds all rules that apply to the resource with the given name.
        """
        if self.resource_type not in {ResourceType.ANY, acl.resource_type}:
            return False
        if self.pattern_type not in {PatternType.ANY, PatternType.MATCH, acl.pattern_type}:
            return False
        name = self.resource_name
        if name is None or name == acl.resource_name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if acl.pattern_type is PatternType.LITERAL:
            return acl.resource_name == WILDCARD
        return name.startswith(acl.resource_name)
