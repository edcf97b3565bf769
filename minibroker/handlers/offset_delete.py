"""OffsetDelete: forget how far a group has read some partitions (KIP-496).

Version 0. A group without members lets go of any; one of consumers keeps what its members are subscribed to
(GROUP_SUBSCRIBED_TO_TOPIC), and any other one everything (NON_EMPTY_GROUP). GROUP_ID_NOT_FOUND without the group.
Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION.
"""

from typing import Final

from minibroker.coordinators.groups.classic.group import CONSUMER, GroupState
from minibroker.coordinators.groups.commits import by_topic
from minibroker.coordinators.groups.kinds import AnyGroup
from minibroker.requests.call import Call
from minibroker.requests.declarations import topics_at
from minibroker.requests.requirements import on_each, on_group
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from minibroker_storage.data_directory.names import TopicPartition

NAMES: Final = topics_at("topics.name", "partitions.partition_index")
NEEDS: Final = on_group(Operation.DELETE) & on_each(Operation.READ, ResourceType.TOPIC)


def handle(request: OffsetDeleteRequest, call: Call) -> Steps[OffsetDeleteResponse]:
    """Forget the offsets, with a tombstone for each."""
    core = call.core
    group, code = _group(request.group_id, call)
    if group is None:
        return OffsetDeleteResponse(error_code=code, topics=[])
    subscribed = set[str]() if group.is_empty else group.subscribed_topics()
    codes: list[tuple[TopicPartition, ErrorCode]] = []
    for requested in request.topics:
        topic = core.topics.get(requested.name)
        for each in requested.partitions:
            code = ErrorCode.NONE
            if topic is None or topic.partition(each.partition_index) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif subscribed is None or requested.name in subscribed:  # it is None when it cannot be known
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            codes.append(((requested.name, each.partition_index), code))
            yield
    deleted = [key for key, code in codes if not code]
    code = call.services.groups.store.delete_offsets(group, deleted) if deleted else ErrorCode.NONE
    if code:
        return OffsetDeleteResponse(error_code=code, topics=[])
    outcomes = yield from by_topic(codes)
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            OffsetDeleteResponseTopic(
                name=name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index, code in partitions
                ],
            )
            for name, partitions in outcomes.items()
        ],
    )


def _group(group_id: str, call: Call) -> tuple[AnyGroup | None, ErrorCode]:
    """The group, if offsets of it may be deleted at all."""
    store = call.services.groups.store
    code = ErrorCode.INVALID_GROUP_ID if not group_id else store.readiness(group_id, call.node)
    if code:
        return None, code
    group = store.find(group_id)
    if group is None or group.state is GroupState.DEAD:
        return None, ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_empty and group.protocol_type != CONSUMER:
        return None, ErrorCode.NON_EMPTY_GROUP
    return group, ErrorCode.NONE
