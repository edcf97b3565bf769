import hmac
from collections.abc import Callable

import pytest

from minibroker.security.principals import ANONYMOUS
from minibroker.security.sasl.mechanism import SCRAM_SHA_512
from minibroker.server.handlers.delegation_tokens import create_delegation_token
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tests.broker.harness import Harness
from tests.broker.security.tokens import DAY_MS, SECRET, call_of, create

Configured = Callable[[dict[str, str]], Harness]


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
    over_the_wire = harness.ask(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
    assert over_the_wire.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


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
    found = harness.services.security.tokens.with_hmac(bytes(token.hmac))
    assert found is not None
    assert (found.id, [str(each) for each in found.renewers]) == (token.token_id, ["User:bob"])


@pytest.mark.parametrize("newer", [{}, {"delegation.token.secret.key": "newer"}])
def test_the_secret_may_have_its_older_name_and_the_newer_one_goes_first(
    configured: Configured, newer: dict[str, str]
) -> None:
    token = create(configured({"delegation.token.master.key": "older", **newer}))
    secret = b"newer" if newer else b"older"
    assert token.hmac == hmac.digest(secret, token.token_id.encode(), "sha512")
