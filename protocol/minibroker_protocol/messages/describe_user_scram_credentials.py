"""DescribeUserScramCredentials (key 50): TODO."""

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
    """TODO."""

    name: String


@message(versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """TODO."""

    users: NullableArray[UserName]


@structure
class CredentialInfo:
    """TODO."""

    mechanism: Int8
    iterations: Int32


@structure
class DescribeUserScramCredentialsResult:
    """TODO."""

    user: String
    error_code: Int16
    error_message: NullableString
    credential_infos: Array[CredentialInfo]


@message(versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
    results: Array[DescribeUserScramCredentialsResult]
