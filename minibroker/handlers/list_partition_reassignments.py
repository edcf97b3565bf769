"""ListPartitionReassignments: which partitions are on their way to other brokers (KIP-455).

Version 0. None ever is: brokers share one log, so that a reassignment is over at once.
"""

from minibroker.call import Call
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(_request: ListPartitionReassignmentsRequest, _call: Call) -> ListPartitionReassignmentsResponse:
    """List nothing; partitions that there are not are no error."""
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])
