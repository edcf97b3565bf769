"""DeleteGroups: forget groups that have no members, with their offsets (KIP-229).

Versions 0-3. NON_EMPTY_GROUP for a group with members, GROUP_ID_NOT_FOUND for one that is not known. Kafka answers NONE
also when the deletion could not be written; here that is an error and the group stays.
"""

from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import groups_at
from minibroker.server.requests.requirements import on_each
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

NAMES: Final = groups_at("groups_names")
NEEDS: Final = on_each(Operation.DELETE, ResourceType.GROUP)


def handle(request: DeleteGroupsRequest, call: Call) -> Steps[DeleteGroupsResponse]:
    """Delete each group by itself; one that is named twice is deleted once (`GroupCoordinator.handleDeleteGroups`)."""
    results: list[DeletableGroupResult] = []
    for group_id in dict.fromkeys(request.groups_names):
        code = yield from _delete(group_id, call)
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        yield
    return DeleteGroupsResponse(results=results)


def _delete(group_id: str, call: Call) -> Steps[ErrorCode]:
    store = call.services.groups.store
    code = store.readiness(group_id, call.node)
    if code:
        return code
    group = store.find(group_id)

    def refusal() -> ErrorCode:
        code = store.readiness(group_id, call.node)
        if code:
            return code
        if group is None or store.find(group_id) is not group:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP

    if isinstance(group, ShareGroup):
        code = yield from call.services.groups.share_offsets.delete_states(group)
        if code:
            return code
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    offsets = group.offsets
    return (yield from store.forget(group, lambda: refusal() or offsets.everything(), wholly=True))
