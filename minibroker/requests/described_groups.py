"""Descriptions of groups of the newer protocols: the same loop, with what each protocol says of a group."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from minibroker.coordinators.groups.modern.answers import GroupRefusedError
from minibroker.requests.authorized_operations import authorized_operations
from minibroker.requests.call import Call
from minibroker.security.authorization.acls import ResourceType
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode

G_co = TypeVar("G_co", covariant=True)


class _Request(Protocol):
    group_ids: list[str]
    include_authorized_operations: bool


class _Described(Protocol):
    error_code: int
    group_id: str
    authorized_operations: int


class _Groups(Protocol[G_co]):
    @property
    def is_enabled(self) -> bool: ...

    def existing(self, group_id: str, /) -> G_co: ...


G = TypeVar("G")
D = TypeVar("D", bound=_Described)


def described_groups(
    request: _Request,
    call: Call,
    groups: _Groups[G],
    describe: Callable[[G, Call], Steps[D]],
    make: Callable[..., D],
) -> Steps[list[D]]:
    """Describe each group by itself; with the client's operations on it, if the request asks for them (KIP-430).

    Args:
        request: names the groups.
        call: asks for them.
        groups: all groups of the protocol.
        describe: describes a group. GroupRefusedError.
        make: makes the description of a group that is refused: the class, with what only this protocol has.
    """
    described: list[D] = []
    for group_id in request.group_ids:
        try:
            each = yield from describe(_existing(groups, group_id, call), call)
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


def _existing(groups: _Groups[G], group_id: str, call: Call) -> G:
    """The group. GroupRefusedError: UNSUPPORTED_VERSION, GROUP_ID_NOT_FOUND, or what `GroupCoordinator.status` says."""
    code = call.services.groups.status(group_id, call.node) if groups.is_enabled else ErrorCode.UNSUPPORTED_VERSION
    if code:
        raise GroupRefusedError(code)
    return groups.existing(group_id)
