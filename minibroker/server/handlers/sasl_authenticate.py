"""SaslAuthenticate: one token of the exchange that SaslHandshake v1 has begun.

Versions 0-2. From version 1 on the answer to the last token says how long the session lasts (KIP-368). A client that
fails gets SASL_AUTHENTICATION_FAILED, late, and the connection closes. Where no authentication is under way:
ILLEGAL_SASL_STATE. Deviation: another request between SaslHandshake and its token closes the connection, while Kafka
first answers it with ILLEGAL_SASL_STATE.
"""

from typing import Final

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import NOTHING
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse

_DONE = "SaslAuthenticate request received after successful authentication"

NEEDS: Final = NOTHING


def handle(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse | DelayedResponse:
    """Go on with the exchange."""
    authentication = call.session.authentication
    if authentication is None:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_DONE, auth_bytes=b"")
    return authentication.authenticate(request)
