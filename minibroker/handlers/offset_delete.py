"""OffsetDelete: forget how far a group has read some partitions (KIP-496).

Version 0. A group without members lets go of any; one of consumers keeps what its members are subscribed to
(GROUP_SUBSCRIBED_TO_TOPIC), and any other one everything (NON_EMPTY_GROUP). GROUP_ID_NOT_FOUND without the group.
Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION; when there are no others, the group is not looked at.
"""

from minibroker.call import Call
from minibroker.groups.group import CONSUMER, Group, GroupState
from minibroker.groups.offsets import TopicPartition
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    """Forget the offsets, with a tombstone for each."""
    state = call.state
    codes: dict[TopicPartition, ErrorCode] = {}
    for wanted in request.topics:
        topic = state.topics.get(wanted.name)
        for each in wanted.partitions:
            exists = topic is not None and topic.partition(each.partition_index) is not None
            key = wanted.name, each.partition_index
            codes[key] = ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if ErrorCode.NONE in codes.values():
        group, code = _group(request.group_id, call)
        if group is None:
            return OffsetDeleteResponse(error_code=code, topics=[])
        subscribed = group.subscribed_topics()  # None when it cannot be known
        for key, code in codes.items():
            if not code and group.state is not GroupState.EMPTY and (subscribed is None or key[0] in subscribed):
                codes[key] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        written = state.groups.store.delete_offsets(group, [key for key, code in codes.items() if not code])
        if written:
            return OffsetDeleteResponse(error_code=written, topics=[])
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            OffsetDeleteResponseTopic(
                name=wanted.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index, error_code=codes[wanted.name, each.partition_index]
                    )
                    for each in wanted.partitions
                ],
            )
            for wanted in request.topics
        ],
    )


def _group(group_id: str, call: Call) -> tuple[Group | None, ErrorCode]:
    """The group, if offsets of it may be deleted at all."""
    store = call.state.groups.store
    code = ErrorCode.INVALID_GROUP_ID if not group_id else store.readiness(group_id)
    if code:
        return None, code
    group = store.get(group_id)
    if group is None or group.state is GroupState.DEAD:
        return None, ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        return None, ErrorCode.NON_EMPTY_GROUP
    return group, ErrorCode.NONE
