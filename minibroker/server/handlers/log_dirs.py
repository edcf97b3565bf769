"""Handlers for log directories and the replicas in them (KIP-113)."""

from collections.abc import Sequence
from typing import Final

from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.slices import ForEach
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles, topics_at
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from minibroker_storage.portability import os


def _refuse_describe_log_dirs(
    _request: DescribeLogDirsRequest, _version: int, code: ErrorCode
) -> DescribeLogDirsResponse:
    """Refuse a request without listing directories, even before version 3, which added a top-level error."""
    return DescribeLogDirsResponse(error_code=code, results=[])


@handles(
    ApiKey.DESCRIBE_LOG_DIRS, needs=on_cluster(Operation.DESCRIBE), refusal=Refusal(whole=_refuse_describe_log_dirs)
)
def describe_log_dirs(request: DescribeLogDirsRequest, call: Call) -> ForEach[DescribeLogDirsResponse]:
    """DescribeLogDirs: return the directories of a broker's replicas, and their sizes in bytes (KIP-113).

    Versions 0-5 are served. All brokers of a cluster share one log directory, the data directory. Each broker
    returns the partitions that it has replicas of. Other and unknown partitions are left out, as in Kafka. A size
    counts the log's segments but not their indexes. Replicas never lag and are never moved between directories.
    Since version 4 the response has the total and usable bytes of the volume (KIP-827). The directory is never
    cordoned (version 5, KIP-1066).
    """
    requested = None
    if request.topics is not None:
        requested = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    replicas = [
        partition
        for topic in call.core.topics
        for partition in topic.partitions
        if call.node.id in partition.replicas and (requested is None or (topic.name, partition.index) in requested)
    ]
    return ForEach(replicas, _size_of, lambda sizes: _describe_log_dirs(replicas, sizes, call))


def _describe_log_dirs(replicas: Sequence[Partition], sizes: Sequence[int], call: Call) -> DescribeLogDirsResponse:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition, size in zip(replicas, sizes, strict=True):
        name = partition.topic.name
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name, partitions=[]))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index, partition_size=size, offset_lag=0, is_future_key=False
            )
        )
    directory = os.path.abspath(call.core.topics.data_dir)
    result = DescribeLogDirsResult(error_code=ErrorCode.NONE, log_dir=directory, topics=list(topics.values()))
    try:
        volume = os.statvfs(directory)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        result.total_bytes = volume.f_frsize * volume.f_blocks
        result.usable_bytes = volume.f_frsize * volume.f_bavail
    return DescribeLogDirsResponse(error_code=ErrorCode.NONE, results=[result])


def _size_of(partition: Partition) -> int:
    """Return the total size of a partition's segments, in bytes. An unused log stays closed."""
    if partition.opened_log is not None:
        return partition.opened_log.size
    try:
        with os.scandir(partition.directory) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(".log"))
    except OSError:
        return 0


_FUTURE_SUFFIX_SIZE: Final = 40
"""The length of the UUID and "-future" that Kafka appends to the directory of a log being moved."""
_MAX_FILE_NAME: Final = 255


def _refuse_alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, _version: int, code: ErrorCode
) -> AlterReplicaLogDirsResponse:
    """Refuse a request with an error for each partition. The response lists the topics of all directories together."""
    results = [
        AlterReplicaLogDirTopicResult(
            topic_name=topic.name,
            partitions=[
                AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code) for index in topic.partitions
            ],
        )
        for directory in request.dirs
        for topic in directory.topics
    ]
    return AlterReplicaLogDirsResponse(results=results)


@handles(
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    needs=on_cluster(Operation.ALTER),
    names=topics_at("dirs.topics.name", "partitions"),
    refusal=Refusal(whole=_refuse_alter_replica_log_dirs, parts=_refuse_alter_replica_log_dirs),
)
def alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, call: Call) -> AlterReplicaLogDirsResponse:
    """AlterReplicaLogDirs: move replicas to another log directory of their broker (KIP-113).

    Versions 0-2 are served. There is only one log directory. Moving a replica to that directory succeeds and
    changes nothing.

    Error codes:

    - LOG_DIR_NOT_FOUND: the request names any other directory.
    - INVALID_TOPIC_EXCEPTION: the topic's name is too long for the suffix of Kafka's directories.
    - UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist.
    - REPLICA_NOT_AVAILABLE: only other brokers have replicas of the partition.
    """
    data_dir = os.path.abspath(call.core.topics.data_dir)
    results: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            outcomes = results.setdefault(topic.name, {})
            for index in topic.partitions:
                outcomes[index] = _move_error(topic.name, index, call, is_data_dir=directory.path == data_dir)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index, code in outcomes.items()
                ],
            )
            for name, outcomes in results.items()
        ]
    )


def _move_error(name: str, index: int, call: Call, *, is_data_dir: bool) -> ErrorCode:
    """Return the error for a replica that cannot be moved to a directory, or NONE."""
    if len(f"{name}-{index}") + _FUTURE_SUFFIX_SIZE > _MAX_FILE_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not is_data_dir:
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = call.core.topics.find_partition(name, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if call.node.id in partition.replicas else ErrorCode.REPLICA_NOT_AVAILABLE
