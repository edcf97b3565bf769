"""DeleteRecords: the log start offset of partitions moves up.

Versions 0-2. Offset -1 is the high watermark. The answer's low watermark is the new log start offset, since there are
no other replicas. Whole segments below it go at once, and the offset is on disk before that. Only topics whose
`cleanup.policy` has `delete` lose records this way: others are POLICY_VIOLATION, Kafka's own topics INVALID_TOPIC. A
broker that does not lead the partition answers NOT_LEADER_OR_FOLLOWER.
"""

from typing import Final

from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.slices import Steps
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.requirements import on_each
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_offsets import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from minibroker_storage.log import LogShape, shape_of

_HIGH_WATERMARK: Final = -1

NAMES: Final = topics_at("topics.name", "partitions.partition_index")
NEEDS: Final = on_each(Operation.DELETE, ResourceType.TOPIC)


def handle(request: DeleteRecordsRequest, call: Call) -> Steps[DeleteRecordsResponse]:
    """Move each partition's log start offset; of a partition that is named twice, the last offset counts."""
    topics: dict[str, dict[int, DeleteRecordsPartitionResult]] = {}
    moved: dict[Partition, LogShape] = {}
    offsets = {(topic.name, each.partition_index): each.offset for topic in request.topics for each in topic.partitions}
    for (name, index), offset in offsets.items():
        topics.setdefault(name, {})[index] = _delete(name, index, offset, call, moved)
        yield
    yield from call.core.logs.starts_moved(moved)
    for partition, before in moved.items():
        call.core.hooks.records_deleted(partition, before)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=name, partitions=list(partitions.values()))
            for name, partitions in topics.items()
        ]
    )


def _delete(
    name: str, index: int, offset: int, call: Call, moved: dict[Partition, LogShape]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=index, error_code=ErrorCode.NONE)
    topic = call.core.topics.get(name)
    partition = topic.partition(index) if topic is not None else None
    if topic is None or partition is None:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif topic.is_internal:
        result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif not topic.log_config.delete:
        result.error_code = ErrorCode.POLICY_VIOLATION
    elif offset < _HIGH_WATERMARK:
        result.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    elif partition.leader is not call.node:
        result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        try:
            log = partition.log
            before = shape_of(log)
            log.advance_log_start_offset(log.high_watermark if offset == _HIGH_WATERMARK else offset)
            result.low_watermark = log.log_start_offset
            moved[partition] = before
        except MAPPED as error:
            result.error_code = error_code_of(error)
    return result
