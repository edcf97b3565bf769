"""Requirements: the rights that a client needs for a request (`KafkaApis`, `ControllerApis`).

Each handler declares them (`declarations.handles`) with the functions of this module:

    needs=on_group(Operation.READ) & on_each(Operation.READ, ResourceType.TOPIC)

The guard checks rules about the whole request, and about each topic, group or transactional id in it, before the
handler runs. If rights depend on more than names, or only hide parts of a response, the handler calls `Call.allows`,
and `asked_by_handler` describes the rights in words. `python -m minibroker.server.requests.endpoints` prints the table
in docs/security.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from minibroker.security.authorization.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Operation,
    ResourceType,
    to_bit_field,
)
from minibroker.server.requests.call import Call
from minibroker_protocol.error_codes import ErrorCode

AUTHORIZATION_FAILED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error for a missing right, by resource type."""

Check = Callable[[Any, "Call"], ErrorCode]
"""Checks a whole request, and returns an error code or NONE."""


class RequestRule(NamedTuple):
    """A rule about a whole request, and its text in the documentation."""

    check: Check
    text: str


class ElementRule(NamedTuple):
    """The right needed for each topic, group or transactional id of a request. Only elements without it are refused.

    Attributes:
        operation: The operation.
        resource_type: The type of the resources.
        exempt: An operation on the cluster that replaces the individual rights, or None.
    """

    operation: Operation
    resource_type: ResourceType
    exempt: Operation | None = None

    @property
    def text(self) -> str:
        """The text in the documentation."""
        description = f"{self.operation.name} on each {_WORDS[self.resource_type]}"
        return description if self.exempt is None else f"{self.exempt.name} on the cluster, or {description}"


class Requirement(NamedTuple):
    """The rights needed for one API. `&` combines two requirements.

    Attributes:
        whole: The rules about the whole request, in the order of their checks.
        each: The right needed on each object that a request names. For FindCoordinator this right depends on the
            kind of keys.
        handler: A description of the rights that the handler checks, or empty.
    """

    whole: tuple[RequestRule, ...] = ()
    each: ElementRule | None = None
    handler: str = ""

    def __and__(self, other: Requirement) -> Requirement:
        return Requirement(self.whole + other.whole, self.each or other.each, self.handler or other.handler)

    def rule_for_each(self, request: Any) -> ElementRule | None:
        """Return the right needed on each object that this request names, or None."""
        if self.each is None or self.each.resource_type is not ResourceType.ANY:
            return self.each
        kind = _KEYS.get(request.key_type)
        return None if kind is None else ElementRule(self.each.operation, kind)

    @property
    def text(self) -> str:
        """The text about the API's rights in the documentation."""
        parts = [*(rule.text for rule in self.whole), *([self.each.text] if self.each else []), self.handler]
        return "; ".join(filter(None, parts)) or "nothing"


_WORDS: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.ANY: "group or transactional id",
}
_KEYS: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
"""The resource types of FindCoordinator's keys, by `key_type`."""

NOTHING: Final = Requirement()
"""Every client may send the request."""


def on_each(operation: Operation, resource_type: ResourceType, exempt: Operation | None = None) -> Requirement:
    """Require a right on each topic, group or transactional id, or instead the right `exempt` on the cluster."""
    return Requirement(each=ElementRule(operation, resource_type, exempt))


def on_cluster(*any_of: Operation) -> Requirement:
    """Require one of the given rights on the cluster."""

    def check(_request: Any, call: Call) -> ErrorCode:
        allowed = any(call.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME) for operation in any_of)
        return ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    return on_request(check, f"{' or '.join(operation.name for operation in any_of)} on the cluster")


def on_group(operation: Operation) -> Requirement:
    """Require a right on the group `group_id`."""
    return on_request(
        lambda request, call: check_right(call, operation, ResourceType.GROUP, request.group_id),
        f"{operation.name} on the group",
    )


def on_transactional_id(operation: Operation) -> Requirement:
    """Require a right on `transactional_id`."""
    return on_request(
        lambda request, call: check_right(call, operation, ResourceType.TRANSACTIONAL_ID, request.transactional_id),
        f"{operation.name} on the transactional id",
    )


def on_request(check: Check, text: str) -> Requirement:
    """Declare a rule for the whole request, with its text in the documentation."""
    return Requirement((RequestRule(check, text),))


def asked_by_handler(text: str) -> Requirement:
    """Declare, in words, rights that the handler checks itself."""
    return Requirement(handler=text)


def check_right(call: Call, operation: Operation, resource_type: ResourceType, name: str | None) -> ErrorCode:
    """Return the error for a right that the client lacks, or NONE if the client has the right."""
    return ErrorCode.NONE if call.allows(operation, resource_type, name or "") else AUTHORIZATION_FAILED[resource_type]


def check_can_subscribe(call: Call, group_id: str, topics: Iterable[str]) -> ErrorCode:
    """Return the error for a client that may not read in a group or describe its subscribed topics, or NONE."""
    code = check_right(call, Operation.READ, ResourceType.GROUP, group_id)
    if code or all(call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        return code
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


TO_SUBSCRIBE: Final = on_request(
    lambda request, call: check_can_subscribe(call, request.group_id, request.subscribed_topic_names or ()),
    "READ on the group; DESCRIBE on all topics that the member subscribes to",
)
"""The rights of a heartbeat with `subscribed_topic_names`."""


def may_create_topic(call: Call, name: str) -> bool:
    """Return whether the client may create a topic, by a right on the cluster or on the topic."""
    return call.allows(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or call.allows(
        Operation.CREATE, ResourceType.TOPIC, name
    )


_OF_GROUPS_SINCE_4_0: Final = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})


def authorized_operations(call: Call, resource_type: ResourceType, name: str) -> int:
    """Return the client's authorized operations on a resource as a bit field.

    Each operation's code is its bit position. Without an authorizer, all supported operations are set.
    """
    operations = SUPPORTED_OPERATIONS[resource_type]
    if resource_type is ResourceType.GROUP and call.services.is_before("4.0"):
        operations = tuple(operation for operation in operations if operation not in _OF_GROUPS_SINCE_4_0)
    authorizer = call.services.authorizer
    return to_bit_field(
        operations if authorizer is None else authorizer.operations(call.session, resource_type, name, operations)
    )


def authorized_cluster_operations(call: Call) -> int:
    """Return the client's authorized operations on the cluster, or 0 for a client that may not describe it."""
    if not call.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(call, ResourceType.CLUSTER, CLUSTER_NAME)
