"""OffsetDelete: forget how far a group has read some partitions (KIP-496).

Version 0. A group without members lets go of any; one of consumers keeps what its members are subscribed to
(GROUP_SUBSCRIBED_TO_TOPIC), and any other one everything (NON_EMPTY_GROUP). GROUP_ID_NOT_FOUND without the group.
Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION.
"""

from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.groups.classic.group import CONSUMER, Group, GroupState
from minibroker.coordinators.groups.commits import by_topic
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.requirements import on_each, on_group
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.offsets import (
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
    group, code = _group(request.group_id, call)
    if group is None:
        return OffsetDeleteResponse(error_code=code, topics=[])
    existing: dict[TopicPartition, None] = {}
    codes: list[tuple[int, TopicPartition, ErrorCode]] = []
    for number, requested in enumerate(request.topics):
        topic = call.core.topics.get(requested.name)
        for partition in requested.partitions:
            key = requested.name, partition.partition_index
            if topic is None or topic.partition(partition.partition_index) is None:
                codes.append((number, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                codes.append((number, key, ErrorCode.NONE))
                existing[key] = None
    deletion = _Deletion(group, list(existing), call)
    if existing:
        code = yield from call.services.groups.store.forget(group, deletion.choose, may_go=isinstance(group, Group))
        if code:
            return OffsetDeleteResponse(error_code=code, topics=[])
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    concluded = ((number, key, subscribed if key in deletion.kept else code) for number, key, code in codes)
    topics = [
        OffsetDeleteResponseTopic(
            name=name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index, code in results
            ],
        )
        for name, results in by_topic(concluded, merges=call.services.is_before("4.0"))
    ]
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)


class _Deletion:
    """The deletion of offsets as far as members let go of them; they may come and go meanwhile.

    Attributes:
        kept: the partitions that a member was subscribed to when it was last asked.
    """

    def __init__(self, group: AnyGroup, partitions: list[TopicPartition], call: Call) -> None:
        self._group = group
        self._partitions = partitions
        self._call = call
        self.kept: frozenset[TopicPartition] = frozenset()

    def choose(self) -> list[TopicPartition] | ErrorCode:
        """Return the partitions whose offsets go."""
        group, code = _group(self._group.group_id, self._call)
        if group is None or group is not self._group:
            return code or ErrorCode.GROUP_ID_NOT_FOUND
        subscribed = set[str]() if group.is_empty else group.subscribed_topics()
        if subscribed is None:  # The subscriptions cannot be read.
            self.kept = frozenset(self._partitions)
            return []
        self.kept = frozenset(key for key in self._partitions if key[0] in subscribed)
        return group.offsets.known(key for key in self._partitions if key[0] not in subscribed)


def _group(group_id: str, call: Call) -> tuple[AnyGroup | None, ErrorCode]:
    """Return the group, or the reason why no offsets of it may be deleted."""
    store = call.services.groups.store
    code = ErrorCode.INVALID_GROUP_ID if not group_id else store.readiness(group_id, call.node)
    if code:
        return None, code
    group = store.find(group_id)
    if group is None or group.state is GroupState.DEAD or isinstance(group, ShareGroup):
        return None, ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_empty and group.protocol_type != CONSUMER and not isinstance(group, StreamsGroup):
        return None, ErrorCode.NON_EMPTY_GROUP
    return group, ErrorCode.NONE
