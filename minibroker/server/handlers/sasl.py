"""Logins with SASL (KIP-43, KIP-152)."""

from minibroker.cluster.advice import SECURITY, about_needless_login
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import handles
from minibroker.server.requests.requirements import NOTHING
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


@handles(ApiKey.SASL_HANDSHAKE, needs=NOTHING)
def sasl_handshake(request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse | DelayedResponse:
    """SaslHandshake: which SASL mechanism a client will use.

    Versions 0-1: after version 0 its tokens come bare, after version 1 in SaslAuthenticate requests. A mechanism
    that is not enabled is answered with UNSUPPORTED_SASL_MECHANISM and the list of those that are, and the
    connection closes. Where no authentication is under way (a listener without SASL, or a client that is known
    already): ILLEGAL_SASL_STATE.
    """
    authentication = call.session.authentication
    if authentication is None:
        advice = about_needless_login(call.session.listener, call.session.protocol)
        call.core.advised.advise(SECURITY, advice, advice)
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    return authentication.handshake(request, call.api_version)


_DONE = "SaslAuthenticate request received after successful authentication"


@handles(ApiKey.SASL_AUTHENTICATE, needs=NOTHING)
def sasl_authenticate(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse | DelayedResponse:
    """SaslAuthenticate: one token of the exchange that SaslHandshake v1 has begun.

    Versions 0-2. From version 1 on the answer to the last token says how long the session lasts (KIP-368). A client
    that fails gets SASL_AUTHENTICATION_FAILED, late, and the connection closes. Where no authentication is under
    way: ILLEGAL_SASL_STATE. Deviation: another request between SaslHandshake and its token closes the connection,
    while Kafka first answers it with ILLEGAL_SASL_STATE.
    """
    authentication = call.session.authentication
    if authentication is None:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_DONE, auth_bytes=b"")
    return authentication.authenticate(request)
