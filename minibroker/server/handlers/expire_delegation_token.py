"""ExpireDelegationToken: bring a token's end nearer, or have it end at once with a negative period (KIP-48).

Versions 0-2. Who may do it, and the errors, are those of RenewDelegationToken.
"""

from typing import Final

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.server.requests.call import Call
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import asked_by_handler
from minibroker.server.requests.token_requests import NO_TIME, find
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delegation_tokens import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

NEEDS: Final = asked_by_handler("to be the token's owner or one of its renewers")


def handle(request: ExpireDelegationTokenRequest, call: Call) -> ExpireDelegationTokenResponse | DelayedResponse:
    """Expire a token."""
    period_ms = request.expiry_time_period_ms
    code, token = find(request.hmac, call)
    if token is None:
        return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)
    try:
        left = call.services.security.tokens.expire(token, period_ms)
    except OSError:
        return ExpireDelegationTokenResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR, expiry_timestamp_ms=NO_TIME)
    ends_ms = period_ms if left is None else left.expires_ms
    return hold(ExpireDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=ends_ms), request, call)
