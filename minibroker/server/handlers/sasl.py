"""Handlers for SASL authentication (KIP-43, KIP-152)."""

from typing import Final

from minibroker.cluster.advice import SECURITY, explain_needless_login
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
    """SaslHandshake: select the SASL mechanism of a client.

    Versions 0-1 are served. After version 0 the client sends raw tokens, after version 1 SaslAuthenticate requests.

    Error codes:

    - UNSUPPORTED_SASL_MECHANISM: the mechanism is not enabled. The response lists the enabled mechanisms, and the
      connection closes.
    - ILLEGAL_SASL_STATE: the listener has no SASL, or the client is authenticated already.
    """
    authentication = call.session.authentication
    if authentication is None:
        advice = explain_needless_login(call.session.listener, call.session.protocol)
        call.core.advice.advise(SECURITY, advice, advice)
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    return authentication.handshake(request, call.api_version)


_ALREADY_AUTHENTICATED: Final = "SaslAuthenticate request received after successful authentication"


@handles(ApiKey.SASL_AUTHENTICATE, needs=NOTHING)
def sasl_authenticate(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse | DelayedResponse:
    """SaslAuthenticate: process a token in the exchange that SaslHandshake v1 started.

    Versions 0-2 are served. Since version 1 the response to the last token has the lifetime of the session
    (KIP-368). Any other request between SaslHandshake and its token closes the connection, while Kafka first
    returns ILLEGAL_SASL_STATE.

    Error codes:

    - SASL_AUTHENTICATION_FAILED: the login failed. The response is delayed, and the connection closes.
    - ILLEGAL_SASL_STATE: no authentication is in progress.
    """
    authentication = call.session.authentication
    if authentication is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_ALREADY_AUTHENTICATED, auth_bytes=b""
        )
    return authentication.authenticate(request)
