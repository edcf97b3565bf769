"""DescribeGroups: the state and the members of groups.

Versions 0-6: instance ids from version 4 on. A group that is not known is described as Dead, without an error before
version 6 and as GROUP_ID_NOT_FOUND from there on (KIP-1043). What members offer and were given is returned for stable
groups only. From version 3 on a client can ask for its authorized operations.
"""

from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.groups.classic.group import Group, GroupState, Member
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.authorized_operations import authorized_operations
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import groups_at
from minibroker.server.requests.requirements import on_each
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from minibroker_protocol.schema import first_version

_NO_AUTHORIZED_OPERATIONS: Final = -(2**31)
_FIRST_WITH_UNKNOWN_GROUPS: Final = first_version(DescribedGroup, "error_message")

NAMES: Final = groups_at("groups")
NEEDS: Final = on_each(Operation.DESCRIBE, ResourceType.GROUP)


def handle(request: DescribeGroupsRequest, call: Call) -> Steps[DescribeGroupsResponse]:
    """Describe each group by itself (`GroupCoordinator.handleDescribeGroup`)."""
    described: list[DescribedGroup] = []
    for group_id in request.groups:
        each = _describe(group_id, call)
        if request.include_authorized_operations and not each.error_code:
            each.authorized_operations = authorized_operations(call, ResourceType.GROUP, each.group_id)
        described.append(each)
        yield
    return DescribeGroupsResponse(groups=described)


def _describe(group_id: str, call: Call) -> DescribedGroup:
    store = call.services.groups.store
    code = store.readiness(group_id, call.node)
    group = None if code else store.get(group_id)
    described = DescribedGroup(
        error_code=code,
        group_id=group_id,
        group_state="" if code else GroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=[],
        authorized_operations=_NO_AUTHORIZED_OPERATIONS,
    )
    if group is None and not code and call.api_version >= _FIRST_WITH_UNKNOWN_GROUPS:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        exists = store.find(group_id) is not None
        described.error_message = f"Group {group_id} {'is not a classic group' if exists else 'not found'}."
    if group is not None:
        described.group_state = group.state.value
        described.protocol_type = group.protocol_type or ""
        described.protocol_data = (group.protocol_name or "") if group.is_in(GroupState.STABLE) else ""
        is_before_4 = call.services.is_before("4.0")
        shows_assignment = group.is_in(GroupState.STABLE) or not is_before_4
        described.members = [_member(group, each, shows_assignment=shows_assignment) for each in group.members.values()]
    return described


def _member(group: Group, member: Member, *, shows_assignment: bool) -> DescribedGroupMember:
    stable = group.is_in(GroupState.STABLE)
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name) if stable else b"",
        member_assignment=member.assignment if shows_assignment else b"",
    )
