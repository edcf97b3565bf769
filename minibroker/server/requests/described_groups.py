"""Descriptions of modern groups: the same loop for each kind, with the description of a group by the kind."""

from collections.abc import Callable
from typing import Any, TypeVar

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.groups.modern.coordinator import GroupRefusedError, ModernGroups
from minibroker.coordinators.groups.registry import AnyModernGroup
from minibroker.security.authorization.acls import ResourceType
from minibroker.server.requests.authorized_operations import authorized_operations
from minibroker.server.requests.call import Call
from minibroker_protocol.error_codes import ErrorCode

G = TypeVar("G", bound=AnyModernGroup)
D = TypeVar("D")


def described_groups(
    request: Any,
    call: Call,
    groups: ModernGroups[G],
    describe: Callable[[G, Call], D],
    make: Callable[..., D],
) -> Steps[list[D]]:
    """Describe each group, with the client's operations on it if the request asks for them (KIP-430).

    Args:
        request: has `group_ids` and `include_authorized_operations`.
        call: the context of the request.
        groups: all groups of the kind.
        describe: describes a group, or raises GroupRefusedError.
        make: makes the description of a group that is refused: the class, with fields that only this kind has.
    """
    described: list[D] = []
    for group_id in request.group_ids:
        try:
            each: Any = describe(_existing(groups, group_id, call), call)
        except GroupRefusedError as error:
            each = make(
                error_code=error.code,
                error_message=error.message,
                group_id=group_id,
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                members=[],
            )
        if request.include_authorized_operations and not each.error_code:
            each.authorized_operations = authorized_operations(call, ResourceType.GROUP, each.group_id)
        described.append(each)
        yield
    return described


def _existing(groups: ModernGroups[G], group_id: str, call: Call) -> G:
    """Return the group. Raise GroupRefusedError: UNSUPPORTED_VERSION, GROUP_ID_NOT_FOUND, or the group's status."""
    code = call.services.groups.status(group_id, call.node) if groups.is_enabled else ErrorCode.UNSUPPORTED_VERSION
    if code:
        raise GroupRefusedError(code)
    return groups.existing(group_id)
