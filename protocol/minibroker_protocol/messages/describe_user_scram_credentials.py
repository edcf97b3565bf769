"""DescribeUserScramCredentials (key 50): the users with SCRAM credentials (KIP-554)."""

from minibroker_protocol.schema import (
    Array,
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
    """One user."""

    name: String


@message(versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """Null or an empty list asks for all users."""

    users: NullableArray[UserName]


@structure
class CredentialInfo:
    """A credential: mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    mechanism: Int8
    iterations: Int32


@structure
class DescribeUserScramCredentialsResult:
    """The credentials of one user, or why there are none to tell."""

    user: String
    error_code: Int16
    error_message: NullableString
    credential_infos: Array[CredentialInfo]


@message(versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """One result for each user."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
    results: Array[DescribeUserScramCredentialsResult]
