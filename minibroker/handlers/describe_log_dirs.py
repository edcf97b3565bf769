"""DescribeLogDirs: where the replicas of a broker are, and how many bytes they take (KIP-113).

Versions 0-5. There is one log directory, the data directory, which all brokers of a cluster share; each tells of the
partitions that it keeps. A partition that it does not keep, or that there is not, is left out, as in Kafka. A size is
that of the log's segments without their indexes. Nothing lags behind and nothing is moved between directories. From
version 4 on the bytes of the volume are told, too (KIP-827). The directory is never cordoned (version 5, KIP-1066).
"""

import os

from minibroker.call import Call
from minibroker.metadata.partition import Partition
from minibroker.metadata.topics import Topic
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    """Measure the replicas of the broker that was asked."""
    directory = os.path.abspath(call.state.topics.data_dir)
    result = DescribeLogDirsResult(error_code=ErrorCode.NONE, log_dir=directory, topics=_topics(request, call))
    try:
        volume = os.statvfs(directory)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        result.total_bytes = volume.f_frsize * volume.f_blocks
        result.usable_bytes = volume.f_frsize * volume.f_bavail
    return DescribeLogDirsResponse(error_code=ErrorCode.NONE, results=[result])


def _topics(request: DescribeLogDirsRequest, call: Call) -> list[DescribeLogDirsTopic]:
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {}
        for each in request.topics:
            wanted.setdefault(each.topic, set()).update(each.partitions)
    described = (
        _describe(topic, None if wanted is None else wanted.get(topic.name, set()), call) for topic in call.state.topics
    )
    return [topic for topic in described if topic.partitions]


def _describe(topic: Topic, indexes: set[int] | None, call: Call) -> DescribeLogDirsTopic:
    return DescribeLogDirsTopic(
        name=topic.name,
        partitions=[
            DescribeLogDirsPartition(
                partition_index=each.index, partition_size=_size(each), offset_lag=0, is_future_key=False
            )
            for each in topic.partitions
            if call.node.id in each.replicas and (indexes is None or each.index in indexes)
        ],
    )


def _size(partition: Partition) -> int:
    """The bytes of its segments; looking into the directory leaves a log closed that nobody has used."""
    if partition.opened_log is not None:
        return partition.opened_log.size
    try:
        with os.scandir(partition.directory) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(".log"))
    except OSError:
        return 0
