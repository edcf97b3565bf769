"""StopReplica: a controller takes replicas from a broker, in clusters with ZooKeeper.

Versions 0-4. Nobody but this broker controls its cluster, so that whoever sends this is a controller of the past:
STALE_CONTROLLER_EPOCH, as Kafka up to 3.9 answers one whose epoch is over. Kafka without ZooKeeper closes the
connection.
"""

from typing import Any

from minibroker.call import Call
from minibroker.faults.error_answers import refusal
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.stop_replica import StopReplicaRequest


def handle(request: StopReplicaRequest, call: Call) -> Any:
    """Refuse it."""
    return refusal("StopReplica", request, call.api_version, ErrorCode.STALE_CONTROLLER_EPOCH)
