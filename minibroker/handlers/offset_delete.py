"""OffsetDelete: forget how far a group has read some partitions (KIP-496).

Version 0. A group without members lets go of any; one of consumers keeps what its members are subscribed to
(GROUP_SUBSCRIBED_TO_TOPIC), and any other one everything (NON_EMPTY_GROUP). GROUP_ID_NOT_FOUND without the group.
Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from minibroker.coordinators.groups.classic.group import CONSUMER, GroupState
from minibroker.coordinators.groups.commits import by_topic
from minibroker.coordinators.groups.kinds import AnyGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.streams.group import StreamsGroup
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

_OF_A_STEP: Final = 100
_AT_ONCE: Final = 5_000
"""Partitions whose offsets are deleted in one step, in about 10 ms."""

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
        for each in requested.partitions:
            key = requested.name, each.partition_index
            if topic is None or topic.partition(each.partition_index) is None:
                codes.append((number, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                codes.append((number, key, ErrorCode.NONE))
                existing[key] = None
            if not len(codes) % _OF_A_STEP:
                yield
    kept = yield from _delete(group, existing, call)
    if isinstance(kept, ErrorCode):
        return OffsetDeleteResponse(error_code=kept, topics=[])
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    concluded = ((number, key, subscribed if key in kept else code) for number, key, code in codes)
    outcomes = yield from by_topic(concluded, merges=call.services.is_before("4.0"))
    topics: list[OffsetDeleteResponseTopic] = []
    for name, results in outcomes:
        partitions: list[OffsetDeleteResponsePartition] = []
        topics.append(OffsetDeleteResponseTopic(name=name, partitions=partitions))
        for number, (index, code) in enumerate(results, 1):
            partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
            if not number % _OF_A_STEP:
                yield
        yield
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)


def _delete(
    group: AnyGroup, partitions: Iterable[TopicPartition], call: Call
) -> Steps[frozenset[TopicPartition] | ErrorCode]:
    """Delete offsets, some thousands in a step. Returns the partitions whose offsets members keep, or an error."""
    kept: list[TopicPartition] = []
    waiting = iter(partitions)
    while piece := list(islice(waiting, _AT_ONCE)):
        deletion = _Deletion(group, piece, call)
        code = yield from call.services.groups.store.delete_offsets(group, deletion.choose)
        if code:
            return code
        kept += deletion.kept
        if group.state is GroupState.DEAD:  # its last offset has gone
            break
    return frozenset(kept)


class _Deletion:
    """The deletion of offsets as far as members let go of them; they may come and go meanwhile.

    Attributes:
        kept: the partitions that a member was subscribed to when it was last asked.
    """

    def __init__(self, group: AnyGroup, partitions: list[TopicPartition], call: Call) -> None:
        self._group = group
        self._partitions = partitions
        self._call = call
        self.kept: list[TopicPartition] = []

    def choose(self) -> list[TopicPartition] | ErrorCode:
        """The partitions whose offsets go."""
        group, code = _group(self._group.group_id, self._call)
        if group is None or group is not self._group:
            return code or ErrorCode.GROUP_ID_NOT_FOUND
        subscribed = set[str]() if group.is_empty else group.subscribed_topics()
        if subscribed is None:  # it cannot be known
            self.kept = self._partitions
            return []
        self.kept = [key for key in self._partitions if key[0] in subscribed] if subscribed else []
        return group.offsets.known(key for key in self._partitions if key[0] not in subscribed)


def _group(group_id: str, call: Call) -> tuple[AnyGroup | None, ErrorCode]:
    """The group, if offsets of it may be deleted at all."""
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
