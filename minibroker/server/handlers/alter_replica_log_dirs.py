"""AlterReplicaLogDirs: move replicas to another log directory of their broker (KIP-113).

Versions 0-2. There is one log directory: to be moved there is no change and succeeds, everything else is
LOG_DIR_NOT_FOUND. INVALID_TOPIC_EXCEPTION for a name that leaves no room for the suffix of Kafka's directories.
UNKNOWN_TOPIC_OR_PARTITION, and REPLICA_NOT_AVAILABLE for a partition that other brokers keep.
"""

import os
from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

_FUTURE_SUFFIX_SIZE: Final = 40
"""Kafka moves a log by way of a directory with a UUID and "-future" after its name."""
_MAX_FILE_NAME: Final = 255

NAMES: Final = topics_at("dirs.topics.name", "partitions")
NEEDS: Final = on_cluster(Operation.ALTER)


def handle(request: AlterReplicaLogDirsRequest, call: Call) -> AlterReplicaLogDirsResponse:
    """Look whether each replica is where it shall be."""
    ours = os.path.abspath(call.core.topics.data_dir)
    results: dict[str, dict[int, ErrorCode]] = {}
    for asked in request.dirs:
        for topic in asked.topics:
            outcomes = results.setdefault(topic.name, {})
            for index in topic.partitions:
                outcomes[index] = _check(topic.name, index, call, is_ours=asked.path == ours)
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


def refuse(request: AlterReplicaLogDirsRequest, _version: int, code: ErrorCode) -> AlterReplicaLogDirsResponse:
    """The response lists the topics of all directories."""
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


refuse_parts = refuse


def _check(name: str, index: int, call: Call, *, is_ours: bool) -> ErrorCode:
    if len(f"{name}-{index}") + _FUTURE_SUFFIX_SIZE > _MAX_FILE_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not is_ours:
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = call.core.topics.get(name)
    partition = None if topic is None else topic.partition(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if call.node.id in partition.replicas else ErrorCode.REPLICA_NOT_AVAILABLE
