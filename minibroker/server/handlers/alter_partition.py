"""AlterPartition: refused, as what no broker of this cluster has sent.

Versions 0-3. The nodes of this cluster need not ask each other, so a client that asks is none: STALE_BROKER_EPOCH,
with which a Kafka controller answers a broker that is not registered with the epoch that it says.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import AlterPartitionRequest, AlterPartitionResponse

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)


def handle(_request: AlterPartitionRequest, _call: Call) -> AlterPartitionResponse:
    """Alter nothing."""
    return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[])
