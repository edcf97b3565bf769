import hashlib
from pathlib import Path

import pytest

from minibroker.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512
from minibroker.security.sasl.scram import derive_credential
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from tests.broker.harness import Harness

SALTED = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)


def upsertion(name: str = "alice", mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=SALTED
    )


def deletion(name: str = "alice", mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(
    harness: Harness, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    return {each.user: (each.error_code, each.error_message) for each in harness.ask(request, 0).results}


def test_a_credential_is_stored_replaced_and_removed(harness: Harness) -> None:
    assert alter(harness, upsertion()) == {"alice": (0, None)}
    credential = harness.services.security.scram.find(SCRAM_SHA_256, "alice")
    assert credential == derive_credential(SCRAM_SHA_256, "secret", salt=b"salt")
    assert alter(harness, upsertion(iterations=5000), upsertion("bob")) == {"alice": (0, None), "bob": (0, None)}
    assert harness.services.security.scram.of_user("alice")[SCRAM_SHA_256].iterations == 5000
    assert alter(harness, deletion()) == {"alice": (0, None)}
    assert harness.services.security.scram.users() == ["bob"]


@pytest.mark.parametrize("change", [upsertion(), deletion()])
@pytest.mark.parametrize(("level", "is_early"), [(10, True), (11, False)])
def test_a_metadata_version_before_scram_has_no_credentials(
    harness: Harness, change: ScramCredentialUpsertion | ScramCredentialDeletion, level: int, *, is_early: bool
) -> None:
    harness.core.features.finalize({"metadata.version": level})
    too_early = (ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    assert (alter(harness, change) == {"alice": too_early}) is is_early


def test_what_is_stored_is_no_password(harness: Harness) -> None:
    alter(harness, upsertion())
    stored = Path(harness.data_dir, "minibroker-cluster.json").read_text(encoding="utf-8")
    assert "alice" in stored
    assert "secret" not in stored
    assert SALTED.hex() not in stored


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(mechanism=-5), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (deletion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (deletion("nobody"), ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
    ],
)
def test_a_change_that_cannot_be_has_an_error_and_others_are_made(
    harness: Harness, change: ScramCredentialUpsertion | ScramCredentialDeletion, code: ErrorCode, message: str
) -> None:
    assert alter(harness, change, upsertion("bob")) == {change.name: (code, message), "bob": (0, None)}
    assert harness.services.security.scram.users() == ["bob"]


def test_a_user_may_be_named_once_in_a_request(harness: Harness) -> None:
    alter(harness, upsertion())
    twice = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    assert alter(harness, deletion(), upsertion()) == {"alice": twice}
    assert alter(harness, upsertion("bob"), upsertion("bob", 2), upsertion("bob")) == {"bob": twice}
    assert harness.services.security.scram.users() == ["alice"]


def test_more_changes_than_kafka_writes_together_are_refused(harness: Harness) -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[], upsertions=[upsertion(f"u{number}") for number in range(10_001)]
    )
    assert {result.error_code for result in harness.ask(request, 0).results} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert harness.services.security.scram.users() == []


@pytest.fixture
def stored(harness: Harness) -> Harness:
    """A broker with two credentials of alice and one of bob."""
    harness.services.security.scram.alter(
        {
            (SCRAM_SHA_256, "alice"): derive_credential(SCRAM_SHA_256, "secret"),
            (SCRAM_SHA_512, "alice"): derive_credential(SCRAM_SHA_512, "secret", iterations=8192),
            (SCRAM_SHA_512, "bob"): derive_credential(SCRAM_SHA_512, "secret"),
        }
    )
    return harness


def describe(harness: Harness, *users: str) -> DescribeUserScramCredentialsResponse:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users] if users else None)
    response: DescribeUserScramCredentialsResponse = harness.ask(request, 0)
    assert (response.error_code, response.error_message) == (0, "")
    return response


def test_everybody_who_has_credentials_is_told(stored: Harness) -> None:
    described = {result.user: result.credential_infos for result in describe(stored).results}
    assert described == {
        "alice": [CredentialInfo(mechanism=1, iterations=4096), CredentialInfo(mechanism=2, iterations=8192)],
        "bob": [CredentialInfo(mechanism=2, iterations=4096)],
    }
    assert stored.ask(DescribeUserScramCredentialsRequest(users=[]), 0).results == describe(stored).results


def test_users_who_have_none_or_are_named_twice_have_an_error_of_their_own(stored: Harness) -> None:
    results = {result.user: result for result in describe(stored, "nobody", "bob", "alice", "alice").results}
    assert results["nobody"].error_code == ErrorCode.RESOURCE_NOT_FOUND
    assert results["nobody"].error_message == "Attempt to describe a user credential that does not exist: nobody"
    assert results["alice"].error_code == ErrorCode.DUPLICATE_RESOURCE
    assert (results["bob"].error_code, len(results["bob"].credential_infos)) == (0, 1)


def test_credentials_outlive_the_broker_and_go_with_a_reset(stored: Harness) -> None:
    stored.restart()
    assert stored.services.security.scram.users() == ["alice", "bob"]
    stored.services.security.scram.alter({(SCRAM_SHA_256, "carol"): derive_credential(SCRAM_SHA_256, "x")})
    stored.core.metadata.write_first(stored.data_dir)
    stored.core.metadata.load()
    assert stored.services.security.scram.users() == ["alice", "bob"]
