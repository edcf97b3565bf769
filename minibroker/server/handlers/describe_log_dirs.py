"""DescribeLogDirs: where the replicas of a broker are, and how many bytes they take (KIP-113).

Versions 0-5. There is one log directory, the data directory, which all brokers of a cluster share; each returns the
partitions that it keeps. A partition that it does not keep, or that there is not, is left out, as in Kafka. A size is
that of the log's segments without their indexes. Nothing lags behind and nothing is moved between directories. From
version 4 on the response has the bytes of the volume (KIP-827). The directory is never cordoned (version 5, KIP-1066).
"""

import os
from typing import Final

from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.slices import Steps
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

NEEDS: Final = on_cluster(Operation.DESCRIBE)


def handle(request: DescribeLogDirsRequest, call: Call) -> Steps[DescribeLogDirsResponse]:
    """Measure the replicas of the broker that was asked."""
    named: dict[str, set[int]] | None = None
    if request.topics is not None:
        named = {}
        for asked in request.topics:
            named.setdefault(asked.topic, set()).update(asked.partitions)
    described: list[DescribeLogDirsTopic] = []
    for topic in tuple(call.core.topics):
        indexes = None if named is None else named.get(topic.name, set())
        partitions: list[DescribeLogDirsPartition] = []
        for each in tuple(topic.partitions) if indexes is None or indexes else ():
            if call.node.id in each.replicas and (indexes is None or each.index in indexes):
                partitions.append(
                    DescribeLogDirsPartition(
                        partition_index=each.index, partition_size=_size(each), offset_lag=0, is_future_key=False
                    )
                )
                yield
        if partitions:
            described.append(DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    directory = os.path.abspath(call.core.topics.data_dir)
    result = DescribeLogDirsResult(error_code=ErrorCode.NONE, log_dir=directory, topics=described)
    try:
        volume = os.statvfs(directory)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        result.total_bytes = volume.f_frsize * volume.f_blocks
        result.usable_bytes = volume.f_frsize * volume.f_bavail
    return DescribeLogDirsResponse(error_code=ErrorCode.NONE, results=[result])


def refuse(_request: DescribeLogDirsRequest, _version: int, code: ErrorCode) -> DescribeLogDirsResponse:
    """No directory is listed, also in the versions before 3, which have no error of the whole."""
    return DescribeLogDirsResponse(error_code=code, results=[])


def _size(partition: Partition) -> int:
    """The bytes of its segments; looking into the directory leaves an unused log closed."""
    if partition.opened_log is not None:
        return partition.opened_log.size
    try:
        with os.scandir(partition.directory) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(".log"))
    except OSError:
        return 0
