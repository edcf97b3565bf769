from collections.abc import Callable

import pytest

from minibroker.security.sasl.mechanism import SCRAM_SHA_256
from minibroker.server.handlers.delegation_tokens import expire_delegation_token
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delegation_tokens import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from tests.broker.harness import Harness
from tests.broker.security.tokens import SECRET, call_of, create


@pytest.fixture
def harness(configured: Callable[[dict[str, str]], Harness]) -> Harness:
    return configured(SECRET)


def expire(
    harness: Harness, hmac: bytes | bytearray | memoryview, period_ms: int = -1, user: str = "alice"
) -> tuple[int, int]:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    response = expire_delegation_token(request, call_of(harness, user))
    assert isinstance(response, ExpireDelegationTokenResponse)
    return response.error_code, response.expiry_timestamp_ms


def test_a_token_ends_at_once_or_after_a_period(harness: Harness) -> None:
    token, other = create(harness), create(harness)
    tokens = harness.services.security.tokens
    assert expire(harness, other.hmac, 1000) == (0, harness.clock.now_ms() + 1000)
    assert expire(harness, token.hmac) == (0, -1)
    assert tokens.account(SCRAM_SHA_256, token.token_id) is None
    assert expire(harness, token.hmac) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
    assert tokens.account(SCRAM_SHA_256, other.token_id) is not None
    harness.clock.advance(1001)
    assert tokens.account(SCRAM_SHA_256, other.token_id) is None
    assert expire(harness, other.hmac) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)


def test_only_owners_and_renewers_may(harness: Harness) -> None:
    token = create(harness, "bob")
    assert expire(harness, token.hmac, user="carol") == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
    assert expire(harness, token.hmac, user="bob") == (0, -1)
    response = harness.ask(ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=-1), 2)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
