from collections.abc import Callable

import pytest

from minibroker.server.handlers.delegation_tokens import describe_delegation_token
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delegation_tokens import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from tests.broker.harness import Harness
from tests.broker.security.tokens import SECRET, call_of, create

Configured = Callable[[dict[str, str]], Harness]


@pytest.fixture
def harness(configured: Configured) -> Harness:
    return configured(SECRET)


def describe(harness: Harness, *owners: str, everybody: bool = False) -> list[str]:
    named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    request = DescribeDelegationTokenRequest(owners=None if everybody else named)
    response = describe_delegation_token(request, call_of(harness))
    assert response.error_code == 0
    return [each.token_id for each in response.tokens]


def test_tokens_are_told_by_their_owners_and_renewers(harness: Harness) -> None:
    mine = create(harness)
    shared = create(harness, "alice", call=call_of(harness, "bob"))
    theirs = create(harness, call=call_of(harness, "carol"))
    assert describe(harness, everybody=True) == [mine.token_id, shared.token_id, theirs.token_id]
    assert describe(harness, "alice") == [mine.token_id, shared.token_id]
    assert describe(harness, "carol", "bob") == [shared.token_id, theirs.token_id]
    assert describe(harness, "dora") == []
    assert describe(harness) == []


def test_a_token_is_told_with_all_that_was_said_at_its_making(harness: Harness) -> None:
    made = create(harness, "bob")
    (token,) = describe_delegation_token(DescribeDelegationTokenRequest(owners=None), call_of(harness)).tokens
    assert (token.principal_name, token.token_requester_principal_name, bytes(token.hmac)) == (
        "alice",
        "alice",
        made.hmac,
    )
    assert (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp) == (
        made.issue_timestamp_ms,
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )
    assert [(each.principal_type, each.principal_name) for each in token.renewers] == [("User", "bob")]


def test_tokens_are_told_to_nobody_over_plaintext(harness: Harness) -> None:
    response = harness.ask(DescribeDelegationTokenRequest(owners=None), 3)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_without_a_secret_there_are_no_tokens(configured: Configured) -> None:
    refused = describe_delegation_token(DescribeDelegationTokenRequest(owners=None), call_of(configured({})))
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
