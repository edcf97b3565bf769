"""SaslHandshake: which SASL mechanism a client will use.

Versions 0-1: after version 0 its tokens come bare, after version 1 in SaslAuthenticate requests. A mechanism that is
not enabled is answered with UNSUPPORTED_SASL_MECHANISM and the list of those that are, and the connection closes. Where
no authentication is under way (a listener without SASL, or a client that is known already): ILLEGAL_SASL_STATE.
"""

from typing import Final

from minibroker.cluster.advice import SECURITY, about_needless_login
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import NOTHING
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse

NEEDS: Final = NOTHING


def handle(request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse | DelayedResponse:
    """Begin an exchange."""
    authentication = call.session.authentication
    if authentication is None:
        advice = about_needless_login(call.session.listener, call.session.protocol)
        call.core.advised.advise(SECURITY, advice, advice)
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    return authentication.handshake(request, call.api_version)
