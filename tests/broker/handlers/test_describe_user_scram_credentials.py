import pytest

from minibroker.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512
from minibroker.security.sasl.scram import credential_of
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tests.broker.harness import Harness


@pytest.fixture
def stored(harness: Harness) -> Harness:
    """Two credentials are of alice, and one of bob."""
    harness.services.security.scram.alter(
        {
            (SCRAM_SHA_256, "alice"): credential_of(SCRAM_SHA_256, "secret"),
            (SCRAM_SHA_512, "alice"): credential_of(SCRAM_SHA_512, "secret", iterations=8192),
            (SCRAM_SHA_512, "bob"): credential_of(SCRAM_SHA_512, "secret"),
        }
    )
    return harness


def describe(harness: Harness, *users: str) -> DescribeUserScramCredentialsResponse:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users] if users else None)
    response: DescribeUserScramCredentialsResponse = harness.ask(request, 0)
    assert (response.error_code, response.error_message) == (0, "")
    return response


def test_everybody_who_has_credentials_is_told(stored: Harness) -> None:
    described = {each.user: each.credential_infos for each in describe(stored).results}
    assert described == {
        "alice": [CredentialInfo(mechanism=1, iterations=4096), CredentialInfo(mechanism=2, iterations=8192)],
        "bob": [CredentialInfo(mechanism=2, iterations=4096)],
    }
    assert stored.ask(DescribeUserScramCredentialsRequest(users=[]), 0).results == describe(stored).results


def test_users_who_have_none_or_are_named_twice_have_an_error_of_their_own(stored: Harness) -> None:
    results = {each.user: each for each in describe(stored, "nobody", "bob", "alice", "alice").results}
    assert results["nobody"].error_code == ErrorCode.RESOURCE_NOT_FOUND
    assert results["nobody"].error_message == "Attempt to describe a user credential that does not exist: nobody"
    assert results["alice"].error_code == ErrorCode.DUPLICATE_RESOURCE
    assert (results["bob"].error_code, len(results["bob"].credential_infos)) == (0, 1)


def test_credentials_outlive_the_broker_and_go_with_a_reset(stored: Harness) -> None:
    stored.restart()
    assert stored.services.security.scram.users() == ["alice", "bob"]
    stored.core.metadata.keep()
    stored.services.security.scram.alter({(SCRAM_SHA_256, "carol"): credential_of(SCRAM_SHA_256, "x")})
    stored.core.metadata.write_first(stored.data_dir)
    stored.core.metadata.load()
    assert stored.services.security.scram.users() == ["alice", "bob"]
