"""CreateDelegationToken: a name and a password for a client that has proved who it is (KIP-48).

Versions 0-3; from version 3 on a token may be for another user (KIP-373). Over plaintext, and from clients that have
come with a token themselves: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. Without `delegation.token.secret.key`:
DELEGATION_TOKEN_AUTH_DISABLED. Renewers have to be users (INVALID_PRINCIPAL_TYPE).
"""

from typing import Final

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.security.principals import ANONYMOUS, USER, Principal
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import asked_by_handler
from minibroker.server.requests.token_requests import NO_TIME, may_ask, named
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delegation_tokens import CreateDelegationTokenRequest, CreateDelegationTokenResponse

NEEDS: Final = asked_by_handler("CREATE_TOKENS on the user, for another user's token")
REFUSAL: Final = Refusal(
    {
        "principal_type": ANONYMOUS.type,
        "principal_name": ANONYMOUS.name,
        "token_requester_principal_type": ANONYMOUS.type,
        "token_requester_principal_name": ANONYMOUS.name,
        "issue_timestamp_ms": -1,
        "expiry_timestamp_ms": -1,
        "max_timestamp_ms": -1,
    }
)


def handle(request: CreateDelegationTokenRequest, call: Call) -> CreateDelegationTokenResponse | DelayedResponse:
    """Make a token."""
    requester = call.principal
    owner = named(request.owner_principal_type, request.owner_principal_name) or requester
    renewers = [Principal(each.principal_type, each.principal_name) for each in request.renewers]
    tokens = call.services.security.tokens
    if not may_ask(call):
        return _refusal(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, owner, requester)
    if owner != requester and not call.allows(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        return _refusal(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, owner, requester)
    if any(each.type != USER for each in renewers):
        return _refusal(ErrorCode.INVALID_PRINCIPAL_TYPE, owner, requester)
    if not tokens.is_enabled:
        return _refusal(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, owner, requester)
    try:
        token = tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except OSError:
        return _refusal(ErrorCode.KAFKA_STORAGE_ERROR, owner, requester)
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.NONE,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.id,
        hmac=tokens.hmac_of(token),
    )
    return hold(response, request, call)


def _refusal(code: ErrorCode, owner: Principal, requester: Principal) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
        token_id="",
        hmac=b"",
    )
