"""RenewDelegationToken: put a token's end off, at most until its longest life is over (KIP-48).

Versions 0-2. The owner and the renewers may do it (DELEGATION_TOKEN_OWNER_MISMATCH for others); a token is named by its
HMAC (DELEGATION_TOKEN_NOT_FOUND), and one that has ended cannot be renewed (DELEGATION_TOKEN_EXPIRED).
"""

from typing import Final

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.server.requests.call import Call
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import asked_by_handler
from minibroker.server.requests.token_requests import NO_TIME, find
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delegation_tokens import RenewDelegationTokenRequest, RenewDelegationTokenResponse

NEEDS: Final = asked_by_handler("to be the token's owner or one of its renewers")


def handle(request: RenewDelegationTokenRequest, call: Call) -> RenewDelegationTokenResponse | DelayedResponse:
    """Renew a token."""
    code, token = find(request.hmac, call)
    if token is None:
        return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)
    try:
        renewed = call.services.security.tokens.renew(token, request.renew_period_ms)
    except OSError:
        return RenewDelegationTokenResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR, expiry_timestamp_ms=NO_TIME)
    return hold(
        RenewDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=renewed.expires_ms), request, call
    )
