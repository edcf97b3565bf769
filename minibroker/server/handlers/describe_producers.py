"""DescribeProducers: the producers that partitions know (KIP-664).

Version 0. INVALID_TOPIC_EXCEPTION for a name that no topic can have, UNKNOWN_TOPIC_OR_PARTITION,
NOT_LEADER_OR_FOLLOWER from a broker that has no replica.
"""

from typing import Final

from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.routing.slices import Steps
from minibroker.cluster.topics import topic_name_error
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.requirements import on_each
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from minibroker_storage.log import Log

NAMES: Final = topics_at("topics.name", "partition_indexes")
NEEDS: Final = on_each(Operation.READ, ResourceType.TOPIC)


def handle(request: DescribeProducersRequest, call: Call) -> Steps[DescribeProducersResponse]:
    """Look every partition up by itself."""
    response = DescribeProducersResponse(topics=[])
    for topic in request.topics:
        described = TopicResponse(name=topic.name, partitions=[])
        response.topics.append(described)
        for index in topic.partition_indexes:
            described.partitions.append(_describe(topic.name, index, call))
            yield
    return response


def _describe(name: str, index: int, call: Call) -> PartitionResponse:
    reason = topic_name_error(name)
    if reason is not None:
        return _error(index, ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    topic = call.core.topics.get(name)
    if topic is None:
        return _error(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    partition = topic.partition(index)
    if partition is None:
        return _error(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    mistaken = partition.access_error(call.node, leader_only=False)
    if mistaken:
        return _error(index, mistaken, None)
    try:
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.NONE, active_producers=_producers(partition.log)
        )
    except MAPPED as error:
        return _error(index, error_code_of(error), str(error))


def _producers(log: Log) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.current_txn_first_offset,
        )
        for producer_id, entry in log.producers.active.items()
    ]


def _error(index: int, code: ErrorCode, message: str | None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=message, active_producers=[])
