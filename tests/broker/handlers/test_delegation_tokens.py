import hmac

import pytest

from minibroker.security.principals import ANONYMOUS
from minibroker.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512
from minibroker.server.handlers.delegation_tokens import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tests.broker.harness import Configured, Harness
from tests.broker.security.tokens import DAY_MS, SECRET, call_of, create


@pytest.fixture
def harness(configured: Configured) -> Harness:
    return configured(SECRET)


def test_a_token_has_a_name_a_password_and_an_end(harness: Harness) -> None:
    now_ms = harness.clock.now_ms()
    token = create(harness)
    assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "alice")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == ("User", "alice")
    times = token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms
    assert times == (now_ms, now_ms + DAY_MS, now_ms + 7 * DAY_MS)
    assert (len(token.token_id), len(token.hmac)) == (22, 64)
    other = create(harness, max_lifetime_ms=1000)
    assert (other.expiry_timestamp_ms, other.max_timestamp_ms) == (now_ms + 1000, now_ms + 1000)
    assert other.hmac != token.hmac


def test_a_token_may_be_made_for_somebody_else(harness: Harness) -> None:
    token = create(harness, owner_principal_type="User", owner_principal_name="bob")
    assert (token.principal_name, token.token_requester_principal_name) == ("bob", "alice")
    account = harness.services.security.tokens.account(SCRAM_SHA_512, token.token_id)
    assert account is not None
    assert (account.user, account.expires_ms) == ("bob", token.expiry_timestamp_ms)


def test_only_who_has_proved_his_name_gets_a_token(harness: Harness) -> None:
    for call in (call_of(harness, protocol="PLAINTEXT"), call_of(harness, ANONYMOUS.name, protocol="SSL")):
        refused = create(harness, call=call)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (refused.expiry_timestamp_ms, refused.token_id, refused.hmac) == (-1, "", b"")
    assert create(harness, call=call_of(harness, "CN=alice", protocol="SSL")).error_code == 0
    for request in (
        CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
        DescribeDelegationTokenRequest(owners=None),
        ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=-1),
        RenewDelegationTokenRequest(hmac=b"", renew_period_ms=-1),
    ):
        assert harness.ask(request, 2).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_renewers_are_users(harness: Harness) -> None:
    group = CreatableRenewers(principal_type="Group", principal_name="x")
    request = CreateDelegationTokenRequest(renewers=[group], max_lifetime_ms=-1)
    refused = create_delegation_token(request, call_of(harness))
    assert isinstance(refused, CreateDelegationTokenResponse)
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_without_a_secret_there_are_no_tokens(configured: Configured) -> None:
    assert create(configured({})).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_tokens_outlive_the_broker(harness: Harness) -> None:
    token = create(harness, "bob")
    harness.restart()
    stored = harness.services.security.tokens.with_hmac(bytes(token.hmac))
    assert stored is not None
    assert (stored.id, [str(renewer) for renewer in stored.renewers]) == (token.token_id, ["User:bob"])


@pytest.mark.parametrize("newer", [{}, {"delegation.token.secret.key": "newer"}])
def test_the_secret_may_have_its_older_name_and_the_newer_one_goes_first(
    configured: Configured, newer: dict[str, str]
) -> None:
    token = create(configured({"delegation.token.master.key": "older", **newer}))
    secret = b"newer" if newer else b"older"
    assert token.hmac == hmac.digest(secret, token.token_id.encode(), "sha512")


def describe(harness: Harness, *owners: str, everybody: bool = False) -> list[str]:
    owner_requests = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    request = DescribeDelegationTokenRequest(owners=None if everybody else owner_requests)
    response = describe_delegation_token(request, call_of(harness))
    assert response.error_code == 0
    return [token.token_id for token in response.tokens]


def test_tokens_are_told_by_their_owners_and_renewers(harness: Harness) -> None:
    own = create(harness)
    shared = create(harness, "alice", call=call_of(harness, "bob"))
    others = create(harness, call=call_of(harness, "carol"))
    assert describe(harness, everybody=True) == [own.token_id, shared.token_id, others.token_id]
    assert describe(harness, "alice") == [own.token_id, shared.token_id]
    assert describe(harness, "carol", "bob") == [shared.token_id, others.token_id]
    assert describe(harness, "dora") == []
    assert describe(harness) == []


def test_a_token_is_told_with_all_that_was_said_at_its_making(harness: Harness) -> None:
    created = create(harness, "bob")
    (token,) = describe_delegation_token(DescribeDelegationTokenRequest(owners=None), call_of(harness)).tokens
    assert (token.principal_name, token.token_requester_principal_name, bytes(token.hmac)) == (
        "alice",
        "alice",
        created.hmac,
    )
    assert (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp) == (
        created.issue_timestamp_ms,
        created.expiry_timestamp_ms,
        created.max_timestamp_ms,
    )
    assert [(renewer.principal_type, renewer.principal_name) for renewer in token.renewers] == [("User", "bob")]


def test_without_a_secret_no_tokens_are_told(configured: Configured) -> None:
    refused = describe_delegation_token(DescribeDelegationTokenRequest(owners=None), call_of(configured({})))
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


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
