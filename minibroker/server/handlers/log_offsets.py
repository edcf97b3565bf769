"""Handlers that look up log offsets by timestamp or leader epoch, and that delete records."""

import os
from collections import Counter
from collections.abc import Collection
from functools import partial
from typing import Any, Final

from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.slices import ForEach, catch_errors, then
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import handles, topics_at
from minibroker.server.requests.elements import for_each_partition
from minibroker.server.requests.requirements import on_each
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_offsets import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from minibroker_storage.data_directory.names import TopicPartition
from minibroker_storage.log import Log, LogShape, shape_of
from minibroker_storage.lookup import TimestampOffset, search_by_timestamp, search_max_timestamp
from minibroker_storage.segment import LogSegment

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_FIRST_VERSIONS: Final = {_LATEST: 1, _EARLIEST: 1, _MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, -5: 9, -6: 11}
"""The special timestamps of requests, and the first version that supports each."""
_FIRST_WITH_UNCERTAIN_ENDS: Final = 5
_READ_COMMITTED: Final = 1
_ISOLATION_LEVELS: Final = (0, _READ_COMMITTED)
_ANY_REPLICA: Final = -2
"""The replica id of a client that accepts a response from any replica."""


@handles(
    ApiKey.LIST_OFFSETS,
    needs=on_each(Operation.DESCRIBE, ResourceType.TOPIC),
    names=topics_at("topics.name", "partitions.partition_index"),
)
def list_offsets(request: ListOffsetsRequest, call: Call) -> ForEach[ListOffsetsResponse]:
    """ListOffsets: look up the start and end of logs, and offsets by timestamp.

    Versions 0-11 are served. The timestamp of a partition in the request selects its offset:

    - -1 is the end of the log. For readers of committed data it is the last stable offset.
    - -2 is the log start offset.
    - -3 is the first record with the largest timestamp (version 7, KIP-734).
    - -4 is the start of the local log (version 8). Without tiered storage it is the log start offset.
    - -5 is the last tiered offset (version 9), and -6 the first offset waiting to be tiered (version 11). Neither
      exists here.
    - Any other timestamp selects the first record at or after it. If there is none, offset and timestamp are -1.

    Version 0 returns start offsets of segments, newest first, like Kafka's `legacyFetchOffsetsBefore`. A timestamp
    selects the segments that were last written before it.

    Since version 4 the response has a leader epoch: the epoch of the batch that was found, of the first batch for the
    log start, or of the current leader for the log end. Only the leader serves the request, unless its replica id is
    -2. Then any replica does.

    Error codes:

    - INVALID_REQUEST: a partition is requested more than once. Each occurrence gets this error.
    - NOT_LEADER_OR_FOLLOWER: the broker does not lead the partition, or with replica id -2 has no replica of it.
    - FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH: the client has a different leader epoch.
    - OFFSET_NOT_AVAILABLE, before version 5 LEADER_NOT_AVAILABLE: while the high watermark is held, see `Log.hold`, a
      new leader does not know the end yet (KIP-207).
    """
    repeated = _find_repeated_partitions(request) if call.api_version > 0 else ()

    def look_up(topic: ListOffsetsTopic, requested: ListOffsetsPartition) -> Any:
        result = ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=ErrorCode.NONE)
        if request.isolation_level not in _ISOLATION_LEVELS:
            result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        elif (topic.name, requested.partition_index) in repeated:
            result.error_code = ErrorCode.INVALID_REQUEST
        else:
            return _look_up(topic.name, requested, request, call, result)
        return result

    return for_each_partition(
        request.topics,
        "partitions",
        look_up,
        lambda topic, partitions: ListOffsetsTopicResponse(name=topic.name, partitions=partitions),
        lambda topics: ListOffsetsResponse(topics=topics),
    )


def _find_repeated_partitions(request: ListOffsetsRequest) -> Collection[TopicPartition]:
    """Return the partitions that a request names more than once, which only version 0 allows."""
    counts = Counter(
        (topic.name, requested.partition_index) for topic in request.topics for requested in topic.partitions
    )
    return {partition for partition, count in counts.items() if count > 1}


def _look_up(
    topic_name: str,
    requested: ListOffsetsPartition,
    request: ListOffsetsRequest,
    call: Call,
    response: ListOffsetsPartitionResponse,
) -> Any:
    """Look up the offset of a partition and store it in `response`. Return `response`, or work that returns it."""
    try:
        work = _begin_look_up(topic_name, requested, request, call, response)
    except MAPPED as error:
        return _set_error(response, error)
    return response if work is None else catch_errors(lambda: work, MAPPED, partial(_set_error, response))


def _set_error(response: ListOffsetsPartitionResponse, error: Exception) -> ListOffsetsPartitionResponse:
    response.error_code = error_code_of(error)
    return response


def _begin_look_up(
    topic_name: str,
    requested: ListOffsetsPartition,
    request: ListOffsetsRequest,
    call: Call,
    response: ListOffsetsPartitionResponse,
) -> Any:
    """Look up the offset of a partition. Return work if many records may have to be read for that, otherwise None."""
    timestamp = requested.timestamp
    partition = call.core.topics.find_partition(topic_name, requested.partition_index)
    if call.api_version > 0 > timestamp and call.api_version < _FIRST_VERSIONS.get(timestamp, call.api_version + 1):
        response.error_code = ErrorCode.UNSUPPORTED_VERSION  # Like Kafka, check the version before the partition.
        return None
    if partition is None:
        response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None
    leader_only = request.replica_id != _ANY_REPLICA
    response.error_code = partition.access_error(call.node, requested.current_leader_epoch, leader_only=leader_only)
    if response.error_code:
        return None
    log = partition.log
    committed = request.isolation_level == _READ_COMMITTED
    if call.api_version == 0:
        if timestamp < _EARLIEST:
            response.error_code = ErrorCode.UNSUPPORTED_VERSION
        else:
            response.old_style_offsets = _segment_offsets(log, requested, call.core.clock.now_ms())
    elif timestamp == _LATEST:
        response.error_code = _end_error(partition, call)
        if not response.error_code:
            response.offset, response.leader_epoch = _readable_end(log, committed=committed), partition.leader_epoch
    elif timestamp in {_EARLIEST, _EARLIEST_LOCAL}:
        response.offset = log.log_start_offset
        response.leader_epoch = _start_epoch(partition)
    elif timestamp >= 0 or timestamp == _MAX_TIMESTAMP:
        if timestamp == _MAX_TIMESTAMP:
            search = search_max_timestamp(log.segments)
        else:
            search = search_by_timestamp(log.segments, timestamp, log.log_start_offset)
        return then(search, partial(_set_found, partition, call, response, committed=committed))
    return None


def _set_found(
    partition: Partition,
    call: Call,
    response: ListOffsetsPartitionResponse,
    result: TimestampOffset | None,
    *,
    committed: bool,
) -> ListOffsetsPartitionResponse:
    """Set the record that a search by timestamp has found unless it is not readable yet."""
    if result is not None and result.offset < _readable_end(partition.log, committed=committed):
        response.timestamp, response.offset, response.leader_epoch = result
    else:
        response.error_code = _end_error(partition, call)
    return response


def _readable_end(log: Log, *, committed: bool) -> int:
    return log.last_stable_offset if committed else log.high_watermark


def _end_error(partition: Partition, call: Call) -> ErrorCode:
    """Return the error while a new leader does not know the high watermark yet (KIP-207), or NONE."""
    if not partition.is_end_uncertain:
        return ErrorCode.NONE
    is_known = call.api_version >= _FIRST_WITH_UNCERTAIN_ENDS
    return ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE


def _start_epoch(partition: Partition) -> int:
    """Return the leader epoch of the first record. An empty log has the epoch that its leader recorded on election."""
    log = partition.log
    if log.log_start_offset >= log.high_watermark:
        return partition.leader_epoch
    return log.epochs.epoch_for(log.log_start_offset)


def _segment_offsets(log: Log, requested: ListOffsetsPartition, now_ms: int) -> list[int]:
    """Return the log end and the segments' start offsets, newest first (`UnifiedLog.legacyFetchOffsetsBefore`)."""
    segments = [
        (max(segment.base_offset, log.log_start_offset), _last_written_ms(log, segment)) for segment in log.segments
    ]
    if log.segments[-1].size:
        segments.append((log.high_watermark, now_ms))
    if requested.timestamp == _EARLIEST:
        count = 1
    elif requested.timestamp == _LATEST:
        count = len(segments)
    else:
        count = next((n for n in range(len(segments), 0, -1) if segments[n - 1][1] <= requested.timestamp), 0)
    offsets = [offset for offset, _ in reversed(segments[:count])]
    return offsets[: max(requested.max_num_offsets, 0)]


def _last_written_ms(log: Log, segment: LogSegment) -> int:
    """Return the time of the last write to a segment, or of its creation if it has no file yet.

    Raises:
        OSError: The file cannot be read.
    """
    return os.stat(segment.log.path).st_mtime_ns // 1_000_000 if log.has_directory else segment.created_ms


@handles(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    needs=on_each(Operation.DESCRIBE, ResourceType.TOPIC, Operation.CLUSTER_ACTION),
    names=topics_at("topics.topic", "partitions.partition"),
)
def offset_for_leader_epoch(request: OffsetForLeaderEpochRequest, call: Call) -> ForEach[OffsetForLeaderEpochResponse]:
    """OffsetForLeaderEpoch: return the ends of leader epochs, for consumers that check for truncation (KIP-320).

    Versions 0-4 are served. Partitions are looked up one by one (`ReplicaManager.lastOffsetForLeaderEpoch`). The
    response has the largest epoch that is not above the requested one, and its end offset. The current epoch ends
    at the log end offset. If the log has no such epoch, epoch and offset are -1.

    Error codes:

    - NOT_LEADER_OR_FOLLOWER: the broker does not lead the partition.
    - FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH: the client has a different leader epoch, which is checked since
      version 2.
    """
    return for_each_partition(
        request.topics,
        "partitions",
        lambda topic, requested: _epoch_end(topic.topic, requested, call),
        lambda topic, partitions: OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions),
        lambda topics: OffsetForLeaderEpochResponse(topics=topics),
    )


def _epoch_end(name: str, requested: OffsetForLeaderPartition, call: Call) -> EpochEndOffset:
    response = EpochEndOffset(error_code=ErrorCode.NONE, partition=requested.partition)
    partition = call.core.topics.find_partition(name, requested.partition)
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


_HIGH_WATERMARK: Final = -1


@handles(
    ApiKey.DELETE_RECORDS,
    needs=on_each(Operation.DELETE, ResourceType.TOPIC),
    names=topics_at("topics.name", "partitions.partition_index"),
)
def delete_records(request: DeleteRecordsRequest, call: Call) -> ForEach[DeleteRecordsResponse]:
    """DeleteRecords: raise the log start offset of partitions.

    Versions 0-2 are served. Offset -1 means the high watermark. The low watermark in the response is the new log
    start offset, since there are no other replicas. Once this offset is on disk, whole segments below it are
    deleted immediately.

    Error codes:

    - POLICY_VIOLATION: the topic's `cleanup.policy` lacks `delete`.
    - INVALID_TOPIC_EXCEPTION: the topic is one of Kafka's internal topics.
    - OFFSET_OUT_OF_RANGE: the offset is outside the log.
    - NOT_LEADER_OR_FOLLOWER: the broker does not lead the partition.
    """
    moved: dict[Partition, LogShape] = {}
    offsets = {
        (topic.name, requested.partition_index): requested.offset
        for topic in request.topics
        for requested in topic.partitions
    }
    topics: dict[str, DeleteRecordsTopicResult] = {}

    def delete(item: tuple[TopicPartition, int]) -> None:
        (name, index), offset = item
        topic = topics.setdefault(name, DeleteRecordsTopicResult(name=name, partitions=[]))
        topic.partitions.append(_delete(name, index, offset, call, moved))

    def conclude(_: object) -> DeleteRecordsResponse:
        for partition, before in moved.items():
            call.core.hooks.records_deleted(partition, before)
        return DeleteRecordsResponse(topics=list(topics.values()))

    return ForEach(offsets.items(), delete, lambda _: then(call.core.logs.save_moved_starts(moved), conclude))


def _delete(
    name: str, index: int, offset: int, call: Call, moved: dict[Partition, LogShape]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=index, error_code=ErrorCode.NONE)
    partition = call.core.topics.find_partition(name, index)
    if partition is None:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif partition.topic.is_internal:
        result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif not partition.topic.log_config.delete:
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
