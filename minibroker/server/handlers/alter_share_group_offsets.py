"""AlterShareGroupOffsets: set the offsets at which an empty share group begins (KIP-932).

Version 0. A group that is not known is made. NON_EMPTY_GROUP for a group with members, GROUP_ID_NOT_FOUND for one of
another kind, UNSUPPORTED_VERSION while the feature share.version is off.
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
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

NAMES: Final = topics_at("topics.topic_name", "partitions.partition_index")
NEEDS: Final = on_group(Operation.READ) & on_each(Operation.READ, ResourceType.TOPIC)
REFUSAL: Final = Refusal(explained=True)
_NO_TOPIC: Final = bytes(16)


def handle(request: AlterShareGroupOffsetsRequest, call: Call) -> Steps[AlterShareGroupOffsetsResponse]:
    """Begin the states of the partitions again (`GroupCoordinatorService.alterShareGroupOffsets`)."""
    coordinator = call.services.groups
    code = ErrorCode.UNSUPPORTED_VERSION
    if coordinator.shares.is_enabled:
        code = coordinator.status(request.group_id, call.node)
    if code:
        return _refused(code)
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        by_index = offsets.setdefault(topic.topic_name, {})
        by_index.update((each.partition_index, each.start_offset) for each in topic.partitions)
    try:
        outcomes = yield from coordinator.share_offsets.alter(request.group_id, offsets)
    except GroupRefusedError as error:
        return _refused(error.code, error.message)
    responses: list[AlterShareGroupOffsetsResponseTopic] = []
    for name, by_partition in outcomes.items():
        known = call.core.topics.get(name)
        partitions = [
            AlterShareGroupOffsetsResponsePartition(
                partition_index=index, error_code=outcome.code, error_message=outcome.message
            )
            for index, outcome in by_partition.items()
        ]
        topic_id = _NO_TOPIC if known is None else known.id
        responses.append(AlterShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=partitions))
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=responses)


def _refused(code: ErrorCode, message: str | None = None) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=message, responses=[])
