"""SCRAM credentials of users (KIP-554)."""

from minibroker_protocol.schema import (
    Array,
    Bytes,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    message,
    structure,
)


@structure
class UserName:
    """The name of a user whose credentials are requested."""

    name: String


@message(versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """DescribeUserScramCredentials (key 50) lists users with SCRAM credentials (KIP-554).

    If `users` is null or empty, all users are listed.
    """

    users: NullableArray[UserName]


@structure
class CredentialInfo:
    """A credential. Mechanism 1 is SCRAM-SHA-256, and 2 is SCRAM-SHA-512."""

    mechanism: Int8
    iterations: Int32


@structure
class DescribeUserScramCredentialsResult:
    """The credentials of one user, or an error."""

    user: String
    error_code: Int16
    error_message: NullableString
    credential_infos: Array[CredentialInfo]


@message(versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """One result per user."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
    results: Array[DescribeUserScramCredentialsResult]


@structure
class ScramCredentialDeletion:
    """A credential to delete; the mechanism is numbered as in DescribeUserScramCredentials."""

    name: String
    mechanism: Int8


@structure
class ScramCredentialUpsertion:
    """A credential to store.

    `salted_password` is derived from the password with PBKDF2, using `salt` and `iterations`.
    """

    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """AlterUserScramCredentials (key 51) stores, replaces and deletes SCRAM credentials (KIP-554)."""

    deletions: Array[ScramCredentialDeletion]
    upsertions: Array[ScramCredentialUpsertion]


@structure
class AlterUserScramCredentialsResult:
    """The result for one user."""

    user: String
    error_code: Int16
    error_message: NullableString


@message(versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """One result per user in the request."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterUserScramCredentialsResult]
