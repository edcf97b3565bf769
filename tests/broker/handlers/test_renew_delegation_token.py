from collections.abc import Callable

import pytest

from minibroker.server.handlers.delegation_tokens import renew_delegation_token
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delegation_tokens import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from tests.broker.harness import Harness
from tests.broker.security.tokens import DAY_MS, SECRET, call_of, create


@pytest.fixture
def harness(configured: Callable[[dict[str, str]], Harness]) -> Harness:
    return configured(SECRET)


def renew(
    harness: Harness,
    hmac: bytes | bytearray | memoryview,
    user: str = "alice",
    period_ms: int = -1,
    *,
    protocol: str = "SASL_SSL",
) -> tuple[int, int]:
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    response = renew_delegation_token(request, call_of(harness, user, protocol=protocol))
    assert isinstance(response, RenewDelegationTokenResponse)
    return response.error_code, response.expiry_timestamp_ms


def test_owners_and_renewers_put_the_end_off_but_never_beyond_the_last_one(harness: Harness) -> None:
    token = create(harness, "bob")
    harness.clock.advance(3_600_000)
    now_ms = harness.clock.now_ms()
    assert renew(harness, token.hmac) == (0, now_ms + DAY_MS)
    assert renew(harness, token.hmac, "bob", 1000) == (0, now_ms + 1000)
    assert renew(harness, token.hmac, "bob", 30 * DAY_MS) == (0, now_ms + DAY_MS)
    short = create(harness, max_lifetime_ms=5000)
    harness.clock.advance(4000)
    assert renew(harness, short.hmac, period_ms=3000) == (0, short.max_timestamp_ms)


def test_nobody_else_may_and_nothing_else_can_be_renewed(harness: Harness) -> None:
    token = create(harness, max_lifetime_ms=5000)
    assert renew(harness, token.hmac, "carol") == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
    assert renew(harness, bytes(64)) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
    assert renew(harness, b"") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
    refused = renew(harness, token.hmac, protocol="PLAINTEXT")
    assert refused == (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1)
    harness.clock.advance(5001)
    assert renew(harness, token.hmac) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)


def test_over_plaintext_it_is_not_allowed(harness: Harness) -> None:
    response = harness.ask(RenewDelegationTokenRequest(hmac=b"", renew_period_ms=-1), 2)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
