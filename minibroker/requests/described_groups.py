"""Descriptions of groups of the newer protocols: the same loop, with what each protocol says of a group."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from minibroker.requests.authorized_operations import authorized_operations
from minibroker.requests.call import Call
from minibroker.security.authorization.acls import ResourceType
from minibroker.support.slices import Steps


class _Request(Protocol):
    group_ids: list[str]
    include_authorized_operations: bool


class _Described(Protocol):
    error_code: int
    group_id: str
    authorized_operations: int


D = TypeVar("D", bound=_Described)


def described_groups(request: _Request, call: Call, describe: Callable[[str, Call], Steps[D]]) -> Steps[list[D]]:
    """Describe each group by itself; with the client's operations on it, if the request asks for them (KIP-430)."""
    described: list[D] = []
    for group_id in request.group_ids:
        each = yield from describe(group_id, call)
        if request.include_authorized_operations and not each.error_code:
            each.authorized_operations = authorized_operations(call, ResourceType.GROUP, each.group_id)
        described.append(each)
        yield
    return described
