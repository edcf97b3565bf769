"""AlterUserScramCredentials (key 51): store and remove SCRAM credentials (KIP-554)."""

from minibroker_protocol.schema import (
    Array,
    Bytes,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    message,
    structure,
)


@structure
class ScramCredentialDeletion:
    """A credential to remove; the numbers of mechanisms are those of DescribeUserScramCredentials."""

    name: String
    mechanism: Int8


@structure
class ScramCredentialUpsertion:
    """A credential to store: `salted_password` is what PBKDF2 makes of the password, `salt` and `iterations`."""

    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """The credentials to remove, and those to store or to replace."""

    deletions: Array[ScramCredentialDeletion]
    upsertions: Array[ScramCredentialUpsertion]


@structure
class AlterUserScramCredentialsResult:
    """The result of one user."""

    user: String
    error_code: Int16
    error_message: NullableString


@message(versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """One result for each user that the request names."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterUserScramCredentialsResult]
