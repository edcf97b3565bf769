"""DescribeShareGroupOffsets: the offsets at which share groups begin, and how far they are behind (KIP-932, KIP-1226).

Versions 0-1: the lag comes with version 1. Null topics are all that have a state. What a group has not begun to read,
or that the share coordinator fails to read, has offset -1 and no error, as in Kafka. UNSUPPORTED_VERSION while the
feature share.version is off.
"""

from collections.abc import Iterable
from typing import Final

from minibroker.coordinators.groups.share.offsets import ShareOffsets, StartOffset
from minibroker.requests.call import Call
from minibroker.requests.declarations import Refusal, topics_at
from minibroker.requests.requirements import asked_by_handler
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

NAMES: Final = topics_at("groups.topics.topic_name", "partitions")
NEEDS: Final = asked_by_handler("DESCRIBE on each group and on each topic; all topics: those it may describe")
REFUSAL: Final = Refusal(explained=True)
_NO_TOPIC: Final = bytes(16)


def handle(request: DescribeShareGroupOffsetsRequest, call: Call) -> Steps[DescribeShareGroupOffsetsResponse]:
    """Describe each group by itself (`GroupCoordinatorService.describeShareGroupOffsets`)."""
    described: list[DescribeShareGroupOffsetsResponseGroup] = []
    for each in request.groups:
        described.append((yield from _describe(each, call)))
        yield
    return DescribeShareGroupOffsetsResponse(groups=described)


def _describe(
    requested: DescribeShareGroupOffsetsRequestGroup, call: Call
) -> Steps[DescribeShareGroupOffsetsResponseGroup]:
    group_id = requested.group_id
    response = DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=[], error_code=ErrorCode.NONE)
    coordinator = call.services.groups
    code = ErrorCode.NONE
    if not coordinator.shares.is_enabled:
        code = ErrorCode.UNSUPPORTED_VERSION
    elif not call.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif requested.topics is None or requested.topics:
        code = coordinator.store.readiness(group_id, call.node)
    if code:
        response.error_code = code
        return response
    offsets = coordinator.share_offsets
    if requested.topics is None:
        named = [(name, indexes) for name, indexes in offsets.initialized(group_id).items()]
        named = [each for each in named if call.allows(Operation.DESCRIBE, ResourceType.TOPIC, each[0])]
    else:
        named = _merged(requested.topics, call)
    for name, indexes in named:
        response.topics.append((yield from _topic(offsets, group_id, name, indexes, call)))
        yield
    return response


def _merged(topics: Iterable[DescribeShareGroupOffsetsRequestTopic], call: Call) -> list[tuple[str, list[int]]]:
    """The partitions of each topic; of one that is there each is named once, as Kafka's share coordinator has it."""
    found: list[tuple[str, list[int]]] = []
    known: dict[str, dict[int, None]] = {}
    for each in topics:
        name = each.topic_name
        if call.core.topics.get(name) is None or not call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            found.append((name, each.partitions))
        else:
            known.setdefault(name, {}).update(dict.fromkeys(each.partitions))
    return [*found, *((name, list(indexes)) for name, indexes in known.items())]


def _topic(
    offsets: ShareOffsets, group_id: str, name: str, indexes: list[int], call: Call
) -> Steps[DescribeShareGroupOffsetsResponseTopic]:
    allowed = call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
    topic = call.core.topics.get(name) if allowed else None
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = []
    for index in indexes:
        found = StartOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if allowed:
            found = offsets.start_of(group_id, name, index)
        partitions.append(
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=found.start_offset,
                leader_epoch=found.leader_epoch,
                lag=found.lag,
                error_code=found.code,
                error_message=found.code.meaning if found.code else None,
            )
        )
        yield
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=_NO_TOPIC if topic is None else topic.id, partitions=partitions
    )
