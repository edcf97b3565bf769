"""Handlers for delegation tokens (KIP-48)."""

from collections.abc import Callable
from typing import Final

from minibroker.cluster.listeners import PLAINTEXT
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.security.delegation_tokens import DelegationToken
from minibroker.security.principals import ANONYMOUS, USER, Principal
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

_NO_TIME: Final = -1
"""The timestamp in responses without a token."""


def _may_request_tokens(call: Call) -> bool:
    """Return whether the client has authenticated, and not with a token."""
    session = call.session
    if session.protocol == PLAINTEXT or (session.protocol == "SSL" and session.principal == ANONYMOUS):
        return False
    return session.authentication is None or not session.authentication.by_token


def _request_error(call: Call) -> ErrorCode:
    """Return the error that any request for tokens gets, or NONE."""
    if not _may_request_tokens(call):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    is_enabled = call.services.security.tokens.is_enabled
    return ErrorCode.NONE if is_enabled else ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def _change_expiry(
    proof: bytes | bytearray | memoryview, call: Call, change: Callable[[DelegationToken], int]
) -> tuple[ErrorCode, int]:
    """Change when the token with this HMAC expires.

    Returns:
        NONE and the new timestamp from `change`, or the error that prevents the change and -1.
    """
    tokens = call.services.security.tokens
    code = _request_error(call)
    token = None if code else tokens.with_hmac(bytes(proof))
    if token is None:
        return code or ErrorCode.DELEGATION_TOKEN_NOT_FOUND, _NO_TIME
    if tokens.is_expired(token):
        return ErrorCode.DELEGATION_TOKEN_EXPIRED, _NO_TIME
    if not token.may_be_renewed_by(call.principal):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, _NO_TIME
    try:
        return ErrorCode.NONE, change(token)
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR, _NO_TIME


@handles(
    ApiKey.CREATE_DELEGATION_TOKEN,
    needs=asked_by_handler("CREATE_TOKENS on the user, for another user's token"),
    refusal=Refusal(
        {
            "principal_type": ANONYMOUS.type,
            "principal_name": ANONYMOUS.name,
            "token_requester_principal_type": ANONYMOUS.type,
            "token_requester_principal_name": ANONYMOUS.name,
            "issue_timestamp_ms": -1,
            "expiry_timestamp_ms": -1,
            "max_timestamp_ms": -1,
        }
    ),
)
def create_delegation_token(
    request: CreateDelegationTokenRequest, call: Call
) -> CreateDelegationTokenResponse | DelayedResponse:
    """CreateDelegationToken: create a token that an authenticated client can later log in with (KIP-48).

    Versions 0-3 are served. Since version 3 a token can be created for another user (KIP-373).

    Error codes:

    - DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: the listener is plaintext, or the client logged in with a token.
    - DELEGATION_TOKEN_AUTH_DISABLED: `delegation.token.secret.key` is not set.
    - INVALID_PRINCIPAL_TYPE: a renewer is not a user.
    """
    requester = call.principal
    owner_name = request.owner_principal_name
    owner = Principal(request.owner_principal_type or "", owner_name) if owner_name else requester
    renewers = [Principal(renewer.principal_type, renewer.principal_name) for renewer in request.renewers]
    tokens = call.services.security.tokens
    code, token = ErrorCode.NONE, None
    if not _may_request_tokens(call):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != requester and not call.allows(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif any(renewer.type != USER for renewer in renewers):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
    elif not tokens.is_enabled:
        code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    else:
        try:
            token = tokens.create(owner, requester, renewers, request.max_lifetime_ms)
        except OSError:
            code = ErrorCode.KAFKA_STORAGE_ERROR
    response = CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=_NO_TIME if token is None else token.issued_ms,
        expiry_timestamp_ms=_NO_TIME if token is None else token.expires_ms,
        max_timestamp_ms=_NO_TIME if token is None else token.max_ms,
        token_id="" if token is None else token.id,
        hmac=b"" if token is None else tokens.hmac_of(token),
    )
    return response if token is None else hold(response, request, call)


@handles(ApiKey.RENEW_DELEGATION_TOKEN, needs=asked_by_handler("to be the token's owner or one of its renewers"))
def renew_delegation_token(
    request: RenewDelegationTokenRequest, call: Call
) -> RenewDelegationTokenResponse | DelayedResponse:
    """RenewDelegationToken: extend the life of a token, up to its maximum lifetime (KIP-48).

    Versions 0-2 are served. The HMAC identifies the token. The owner and the renewers may renew it.

    Error codes:

    - DELEGATION_TOKEN_OWNER_MISMATCH: the client is neither the owner nor a renewer.
    - DELEGATION_TOKEN_NOT_FOUND: no token has this HMAC.
    - DELEGATION_TOKEN_EXPIRED: the token has expired.
    """
    tokens = call.services.security.tokens
    code, expires_ms = _change_expiry(
        request.hmac, call, lambda token: tokens.renew(token, request.renew_period_ms).expires_ms
    )
    response = RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_ms)
    return response if code else hold(response, request, call)


@handles(ApiKey.EXPIRE_DELEGATION_TOKEN, needs=asked_by_handler("to be the token's owner or one of its renewers"))
def expire_delegation_token(
    request: ExpireDelegationTokenRequest, call: Call
) -> ExpireDelegationTokenResponse | DelayedResponse:
    """ExpireDelegationToken: shorten the life of a token, or with a negative period expire it immediately (KIP-48).

    Versions 0-2 are served. The required rights and the errors are those of RenewDelegationToken.
    """
    period_ms = request.expiry_time_period_ms

    def expire(token: DelegationToken) -> int:
        updated = call.services.security.tokens.expire(token, period_ms)
        return period_ms if updated is None else updated.expires_ms

    code, expires_ms = _change_expiry(request.hmac, call, expire)
    response = ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_ms)
    return response if code else hold(response, request, call)


@handles(
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    needs=asked_by_handler(
        "DESCRIBE on the token or DESCRIBE_TOKENS on its owner, for another user's tokens, which are hidden otherwise"
    ),
)
def describe_delegation_token(request: DescribeDelegationTokenRequest, call: Call) -> DescribeDelegationTokenResponse:
    """DescribeDelegationToken: return the tokens of some owners, or all that the client may see (KIP-48, KIP-373).

    Versions 0-3 are served. Users see the tokens that they own or can renew. Other tokens require DESCRIBE on the
    token or DESCRIBE_TOKENS on its owner. Null owners select all tokens, and an empty list selects none. The errors
    are those of CreateDelegationToken. Unlike Kafka, which returns expired tokens until it removes them, minibroker
    leaves them out.
    """
    code = _request_error(call)
    if code:
        return DescribeDelegationTokenResponse(error_code=code, tokens=[])
    tokens = call.services.security.tokens
    owners = None
    if request.owners is not None:
        owners = {Principal(owner.principal_type, owner.principal_name) for owner in request.owners}
    described = [
        _describe_token(token, tokens.hmac_of(token))
        for token in tokens.all()
        if owners is None or token.owner in owners or not owners.isdisjoint(token.renewers)
        if _may_describe(token, call)
    ]
    return DescribeDelegationTokenResponse(error_code=ErrorCode.NONE, tokens=described)


def _describe_token(token: DelegationToken, proof: bytes) -> DescribedDelegationToken:
    renewers = [
        DescribedDelegationTokenRenewer(principal_type=renewer.type, principal_name=renewer.name)
        for renewer in token.renewers
    ]
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=proof,
        renewers=renewers,
    )


def _may_describe(token: DelegationToken, call: Call) -> bool:
    return (
        token.may_be_renewed_by(call.principal)
        or call.allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
        or call.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )
