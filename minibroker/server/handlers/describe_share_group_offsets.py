"""DescribeShareGroupOffsets: the offsets at which share groups begin, and how far they are behind (KIP-932, KIP-1226).

Versions 0-1: the lag comes with version 1. Null topics are all that have a state. What a group has not begun to read,
or that the share coordinator fails to read, has offset -1 and no error, as in Kafka. UNSUPPORTED_VERSION while the
feature share.version is off.
"""

from collections.abc import Iterable
from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.groups.share.offsets import StartOffset
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, topics_at
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_group import (
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
    for requested in request.groups:
        code, topics = _topics_of(requested, call)
        response = DescribeShareGroupOffsetsResponseGroup(group_id=requested.group_id, topics=[], error_code=code)
        for name, indexes in topics:
            is_allowed = call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
            topic = call.core.topics.get(name) if is_allowed else None
            partitions: list[DescribeShareGroupOffsetsResponsePartition] = []
            for index in indexes:
                start = StartOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if is_allowed:
                    start = call.services.groups.share_offsets.start_of(requested.group_id, name, index)
                partitions.append(_partition(index, start))
                yield
            response.topics.append(
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=name, topic_id=_NO_TOPIC if topic is None else topic.id, partitions=partitions
                )
            )
        described.append(response)
        yield
    return DescribeShareGroupOffsetsResponse(groups=described)


def _topics_of(
    requested: DescribeShareGroupOffsetsRequestGroup, call: Call
) -> tuple[ErrorCode, list[tuple[str, list[int]]]]:
    """Return the error of a group, or NONE, and the partitions to describe."""
    group_id = requested.group_id
    coordinator = call.services.groups
    code = ErrorCode.NONE
    if not coordinator.shares.is_enabled:
        code = ErrorCode.UNSUPPORTED_VERSION
    elif not call.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif requested.topics is None or requested.topics:
        code = coordinator.store.readiness(group_id, call.node)
    if code:
        return code, []
    if requested.topics is not None:
        return code, _merged(requested.topics, call)
    initialized = coordinator.share_offsets.initialized(group_id).items()
    return code, [each for each in initialized if call.allows(Operation.DESCRIBE, ResourceType.TOPIC, each[0])]


def _merged(topics: Iterable[DescribeShareGroupOffsetsRequestTopic], call: Call) -> list[tuple[str, list[int]]]:
    """Return the partitions of each topic; each partition of a topic that exists once, as Kafka's share coordinator."""
    found: list[tuple[str, list[int]]] = []
    known: dict[str, dict[int, None]] = {}
    for each in topics:
        name = each.topic_name
        if call.core.topics.get(name) is None or not call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            found.append((name, each.partitions))
        else:
            known.setdefault(name, {}).update(dict.fromkeys(each.partitions))
    return [*found, *((name, list(indexes)) for name, indexes in known.items())]


def _partition(index: int, start: StartOffset) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=start.start_offset,
        leader_epoch=start.leader_epoch,
        lag=start.lag,
        error_code=start.code,
        error_message=start.code.meaning if start.code else None,
    )
