"""OffsetForLeaderEpoch: where the epoch of a leader has ended, for consumers that look for truncation (KIP-320).

Versions 0-4. The answer is the largest epoch that is not above the one asked for, and the offset at which it ended; for
the current one the log's end, and -1 for both where the log knows none. Only the leader answers
(NOT_LEADER_OR_FOLLOWER), who from version 2 on is held against the epoch that the client believes in
(FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH).
"""

from typing import Final

from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.routing.slices import Steps
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.requirements import on_each
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_offsets import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

NAMES: Final = topics_at("topics.topic", "partitions.partition")
NEEDS: Final = on_each(Operation.DESCRIBE, ResourceType.TOPIC, Operation.CLUSTER_ACTION)


def handle(request: OffsetForLeaderEpochRequest, call: Call) -> Steps[OffsetForLeaderEpochResponse]:
    """Look every partition up by itself (`ReplicaManager.lastOffsetForLeaderEpoch`)."""
    response = OffsetForLeaderEpochResponse(topics=[])
    for topic in request.topics:
        result = OffsetForLeaderTopicResult(topic=topic.topic, partitions=[])
        response.topics.append(result)
        for asked in topic.partitions:
            result.partitions.append(_epoch_end(topic.topic, asked, call))
            yield
    return response


def _epoch_end(name: str, requested: OffsetForLeaderPartition, call: Call) -> EpochEndOffset:
    response = EpochEndOffset(error_code=ErrorCode.NONE, partition=requested.partition)
    topic = call.core.topics.get(name)
    partition = topic.partition(requested.partition) if topic is not None else None
    if partition is None:
        response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return response
    response.error_code = partition.access_error(call.node, requested.current_leader_epoch)
    if not response.error_code:
        try:
            response.leader_epoch, response.end_offset = partition.end_of_epoch(requested.leader_epoch)
        except MAPPED as error:
            response.error_code = error_code_of(error)
    return response
