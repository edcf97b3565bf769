"""Envelope: refused, as by any Kafka broker that is asked by a client (KIP-590).

Version 0. Envelopes are for controllers, from brokers that they know: CLUSTER_AUTHORIZATION_FAILED, whatever is inside.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import EnvelopeRequest, EnvelopeResponse

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)


def handle(_request: EnvelopeRequest, _call: Call) -> EnvelopeResponse:
    """Open nothing."""
    return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
