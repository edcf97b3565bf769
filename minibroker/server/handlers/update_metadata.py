"""UpdateMetadata: a controller sends a broker the metadata for clients, in clusters with ZooKeeper.

Versions 0-8. Only this broker controls its cluster, so a client that sends this is an outdated controller:
STALE_CONTROLLER_EPOCH, as Kafka up to 3.9 answers one whose epoch is over. Kafka without ZooKeeper closes the
connection.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import UpdateMetadataRequest, UpdateMetadataResponse

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)


def handle(_request: UpdateMetadataRequest, _call: Call) -> UpdateMetadataResponse:
    """Refuse it."""
    return UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
