"""DeleteShareGroupOffsets: forget how far an empty share group has read some topics (KIP-932).

Version 0. NON_EMPTY_GROUP for a group with members, GROUP_ID_NOT_FOUND for what is not a share group. A topic that the
group has no offsets of is UNKNOWN_TOPIC_OR_PARTITION. UNSUPPORTED_VERSION while the feature share.version is off.
"""

from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.groups.modern.coordinator import GroupRefusedError
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, topics_at
from minibroker.server.requests.requirements import on_each, on_group
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_group import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

NAMES: Final = topics_at("topics.topic_name")
NEEDS: Final = on_group(Operation.DELETE) & on_each(Operation.READ, ResourceType.TOPIC)
REFUSAL: Final = Refusal(explained=True)
_NO_TOPIC: Final = bytes(16)


def handle(request: DeleteShareGroupOffsetsRequest, call: Call) -> Steps[DeleteShareGroupOffsetsResponse]:
    """Delete the states of all partitions of the topics (`GroupCoordinatorService.deleteShareGroupOffsets`)."""
    coordinator = call.services.groups
    code = ErrorCode.UNSUPPORTED_VERSION
    if coordinator.shares.is_enabled:
        code = coordinator.status(request.group_id, call.node)
    if code:
        return _refused(code)
    if not request.topics and call.services.is_before("4.2"):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=[])
    names = list(dict.fromkeys(each.topic_name for each in request.topics))
    try:
        outcomes = yield from coordinator.share_offsets.delete(request.group_id, names)
    except GroupRefusedError as error:
        return _refused(error.code, error.message)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []
    for name, outcome in outcomes.items():
        topic = call.core.topics.get(name)
        responses.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=_NO_TOPIC if topic is None else topic.id,
                error_code=outcome.code,
                error_message=outcome.message,
            )
        )
    return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=responses)


def _refused(code: ErrorCode, message: str | None = None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=message, responses=[])
