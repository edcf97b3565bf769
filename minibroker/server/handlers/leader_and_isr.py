"""LeaderAndIsr: a controller assigns a broker the partitions to lead and to follow, in clusters with ZooKeeper.

Versions 0-7. Only this broker controls its cluster, so a client that sends this is an outdated controller:
STALE_CONTROLLER_EPOCH, as Kafka up to 3.9 answers one whose epoch is over. Kafka without ZooKeeper closes the
connection.
"""

from typing import Any, Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from minibroker_protocol.schema import first_version

_FIRST_WITH_TOPIC_ERRORS: Final = first_version(LeaderAndIsrResponse, "topics")

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)


def handle(request: LeaderAndIsrRequest, call: Call) -> Any:
    """Refuse it."""
    return refuse(request, call.api_version, ErrorCode.STALE_CONTROLLER_EPOCH)


def refuse(request: LeaderAndIsrRequest, version: int, code: ErrorCode) -> LeaderAndIsrResponse:
    """The error stands at each partition, which the versions before 5 list without their topics."""
    if version >= _FIRST_WITH_TOPIC_ERRORS:
        topics = [
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[_error("", each.partition_index, code) for each in topic.partition_states],
            )
            for topic in request.topic_states
        ]
        return LeaderAndIsrResponse(error_code=code, topics=topics)
    errors = [_error(each.topic_name, each.partition_index, code) for each in request.ungrouped_partition_states]
    for topic in request.topic_states:
        errors += [_error(topic.topic_name, each.partition_index, code) for each in topic.partition_states]
    return LeaderAndIsrResponse(error_code=code, partition_errors=errors)


def _error(topic: str, index: int, code: ErrorCode) -> LeaderAndIsrPartitionError:
    return LeaderAndIsrPartitionError(topic_name=topic, partition_index=index, error_code=code)
