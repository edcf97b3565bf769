"""DescribeDelegationToken: the tokens of some owners, or all that the client may see (KIP-48, KIP-373).

Versions 0-3. Everybody sees the tokens that he owns or may renew; those of others take DESCRIBE of the token or
DESCRIBE_TOKENS of its owner. An empty list of owners has no tokens, null has those of all. Errors are those of
CreateDelegationToken. Deviation: tokens that have ended are not told, while Kafka tells them until it removes them.
"""

from minibroker.call import Call
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.security.delegation_tokens import DelegationToken
from minibroker.security.principals import Principal
from minibroker.security.token_requests import may_ask
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(request: DescribeDelegationTokenRequest, call: Call) -> DescribeDelegationTokenResponse:
    """Tell tokens."""
    tokens = call.state.security.tokens
    if not may_ask(call):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, tokens=[])
    if not tokens.is_enabled:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, tokens=[])
    owners = None
    if request.owners is not None:
        owners = [Principal(each.principal_type, each.principal_name) for each in request.owners]
    told = [
        DescribedDelegationToken(
            principal_type=each.owner.type,
            principal_name=each.owner.name,
            token_requester_principal_type=each.requester.type,
            token_requester_principal_name=each.requester.name,
            issue_timestamp=each.issued_ms,
            expiry_timestamp=each.expires_ms,
            max_timestamp=each.max_ms,
            token_id=each.id,
            hmac=tokens.hmac_of(each),
            renewers=[
                DescribedDelegationTokenRenewer(principal_type=other.type, principal_name=other.name)
                for other in each.renewers
            ],
        )
        for each in tokens.all()
        if (owners is None or any(each.may_be_renewed_by(owner) for owner in owners)) and _may_see(each, call)
    ]
    return DescribeDelegationTokenResponse(error_code=ErrorCode.NONE, tokens=told)


def _may_see(token: DelegationToken, call: Call) -> bool:
    return (
        token.may_be_renewed_by(call.principal)
        or call.allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
        or call.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )
