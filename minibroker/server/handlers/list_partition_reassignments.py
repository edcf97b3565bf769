"""ListPartitionReassignments: which partitions are on their way to other brokers (KIP-455).

Version 0. None ever is: brokers share one log, so that a reassignment is over at once.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

NEEDS: Final = on_cluster(Operation.DESCRIBE)


def handle(_request: ListPartitionReassignmentsRequest, _call: Call) -> ListPartitionReassignmentsResponse:
    """List nothing; partitions that there are not are no error."""
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])


def refuse(
    request: ListPartitionReassignmentsRequest, _version: int, code: ErrorCode
) -> ListPartitionReassignmentsResponse:
    """The partitions stand there without an error of their own."""
    topics = [
        OngoingTopicReassignment(
            name=topic.name,
            partitions=[
                OngoingPartitionReassignment(
                    partition_index=index, replicas=[], adding_replicas=[], removing_replicas=[]
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return ListPartitionReassignmentsResponse(error_code=code, error_message=None, topics=topics)
