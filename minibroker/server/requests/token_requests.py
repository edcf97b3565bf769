"""Checks of requests for delegation tokens (`KafkaApis.allowTokenRequests`)."""

from typing import Final

from minibroker.cluster.listeners import PLAINTEXT
from minibroker.security.delegation_tokens import DelegationToken
from minibroker.security.principals import ANONYMOUS, Principal
from minibroker.server.requests.call import Call
from minibroker_protocol.error_codes import ErrorCode

NO_TIME: Final = -1
"""In place of a time where there is no token."""


def may_ask(call: Call) -> bool:
    """Whether the client has proved who it is, and that not with a token."""
    session = call.session
    if session.protocol == PLAINTEXT or (session.protocol == "SSL" and session.principal == ANONYMOUS):
        return False
    return session.authentication is None or not session.authentication.by_token


def named(kind: str | None, name: str | None) -> Principal | None:
    """A principal of a request; None where it names none."""
    return Principal(kind or "", name) if name else None


def find(proof: bytes | bytearray | memoryview, call: Call) -> tuple[ErrorCode, DelegationToken | None]:
    """The token that a client wants to change, or the error that speaks against it."""
    tokens = call.services.security.tokens
    if not may_ask(call):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, None
    if not tokens.is_enabled:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, None
    token = tokens.with_hmac(bytes(proof))
    if token is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND, None
    if tokens.is_over(token):
        return ErrorCode.DELEGATION_TOKEN_EXPIRED, None
    if not token.may_be_renewed_by(call.principal):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, None
    return ErrorCode.NONE, token
