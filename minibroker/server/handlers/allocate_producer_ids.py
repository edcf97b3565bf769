"""AllocateProducerIds: refused, as what no broker of this cluster has sent.

Version 0. See AlterPartition. Producers ask with InitProducerId.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import AllocateProducerIdsRequest, AllocateProducerIdsResponse

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)


def handle(_request: AllocateProducerIdsRequest, _call: Call) -> AllocateProducerIdsResponse:
    """Allocate nothing."""
    return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, producer_id_start=0, producer_id_len=0)
