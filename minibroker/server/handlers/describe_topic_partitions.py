"""DescribeTopicPartitions: the partitions of topics, page by page (KIP-966).

Version 0. Topics come in the order of their names; without any, all that the client may see. A page has as
many partitions as the client wants, but no more than `max.request.partition.size.limit`. A cursor says with which
partition the page begins, and the answer's says with which the next one will. INVALID_REQUEST for a cursor whose
topic is not among those asked for, or whose partition is below 0. A partition without a leader is not an error. The
lists of eligible leader replicas are empty: replicas share one log, so all that are up are in sync.
"""

from typing import Final

from minibroker.cluster.node import NO_NODE
from minibroker.cluster.routing.slices import Steps
from minibroker.cluster.topics import Topic, topic_name_error
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.authorized_operations import authorized_operations
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import INTERNAL_TOPICS
from minibroker_protocol.messages.topics import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from minibroker_protocol.primitives import ZERO_UUID

NAMES: Final = topics_at("topics.name")
NEEDS: Final = asked_by_handler("DESCRIBE on each topic, or it is hidden")


def handle(request: DescribeTopicPartitionsRequest, call: Call) -> Steps[DescribeTopicPartitionsResponse]:
    """Describe topics until the page is full."""
    cursor = request.cursor
    names = _names(request, call)
    if cursor is not None and (cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)):
        return refuse(request, call.api_version, ErrorCode.INVALID_REQUEST)
    limit = min(call.core.config.integer("max.request.partition.size.limit"), request.response_partition_limit)
    left = max(limit, 1)
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        yield
        if not _may_describe(name, call):
            continue
        if left <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = call.core.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name, call))
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        end = min(len(topic.partitions), first + left)
        response.topics.append(_describe(topic, first, end, call))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        left -= max(end - first, 0)
    response.topics += [_refused(name) for name in names if not _may_describe(name, call)]
    return response


def refuse(request: DescribeTopicPartitionsRequest, _version: int, code: ErrorCode) -> DescribeTopicPartitionsResponse:
    """The error stands at each topic."""
    topics = [
        DescribeTopicPartitionsResponseTopic(error_code=code, name=each.name, topic_id=ZERO_UUID, partitions=[])
        for each in request.topics
    ]
    return DescribeTopicPartitionsResponse(topics=topics)


def _names(request: DescribeTopicPartitionsRequest, call: Call) -> list[str]:
    """The names that the page may have, in order, from that of the cursor on."""
    first = "" if request.cursor is None else request.cursor.topic_name
    if request.topics:
        named = {topic.name for topic in request.topics}
    else:
        named = {topic.name for topic in call.core.topics if _may_describe(topic.name, call)}
    return sorted(name for name in named if name >= first)


def _may_describe(name: str, call: Call) -> bool:
    return call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _describe(topic: Topic, first: int, end: int, call: Call) -> DescribeTopicPartitionsResponseTopic:
    nodes = call.core.cluster.nodes
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.NONE,
                partition_index=each.index,
                leader_id=NO_NODE if each.leader is None else each.leader.id,
                leader_epoch=each.leader_epoch,
                replica_nodes=list(each.replicas),
                isr_nodes=list(each.isr),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=[node_id for node_id in each.replicas if not nodes[node_id].is_up],
            )
            for each in topic.partitions[first:end]
        ],
        topic_authorized_operations=authorized_operations(call, ResourceType.TOPIC, topic.name),
    )


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    """The refusal of a topic that the client may not describe, whether it exists or not."""
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=False,
        partitions=[],
    )


def _unknown(name: str, call: Call) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_error(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=authorized_operations(call, ResourceType.TOPIC, name),
    )
