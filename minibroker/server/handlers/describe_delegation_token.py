"""DescribeDelegationToken: the tokens of some owners, or all that the client may see (KIP-48, KIP-373).

Versions 0-3. A user sees the tokens that it owns or may renew; others need DESCRIBE of the token or
DESCRIBE_TOKENS of its owner. An empty list of owners has no tokens, null has those of all. Errors are those of
CreateDelegationToken. Deviation: expired tokens are not returned, while Kafka returns them until it removes them.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.security.delegation_tokens import DelegationToken
from minibroker.security.principals import Principal
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import asked_by_handler
from minibroker.server.requests.token_requests import may_ask
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delegation_tokens import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

NEEDS: Final = asked_by_handler(
    "DESCRIBE on the token or DESCRIBE_TOKENS on its owner, for another user's tokens, which are hidden otherwise"
)


def handle(request: DescribeDelegationTokenRequest, call: Call) -> DescribeDelegationTokenResponse:
    """Return the tokens."""
    tokens = call.services.security.tokens
    if not may_ask(call):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, tokens=[])
    if not tokens.is_enabled:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, tokens=[])
    owners = None
    if request.owners is not None:
        owners = {Principal(owner.principal_type, owner.principal_name) for owner in request.owners}
    described: list[DescribedDelegationToken] = []
    for each in tokens.all():
        if owners is not None and each.owner not in owners and owners.isdisjoint(each.renewers):
            continue
        if _may_see(each, call):
            described.append(_described(each, tokens.hmac_of(each)))
    return DescribeDelegationTokenResponse(error_code=ErrorCode.NONE, tokens=described)


def _described(token: DelegationToken, proof: bytes) -> DescribedDelegationToken:
    renewers = [
        DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name) for each in token.renewers
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


def _may_see(token: DelegationToken, call: Call) -> bool:
    return (
        token.may_be_renewed_by(call.principal)
        or call.allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
        or call.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )
