"""AlterUserScramCredentials (key 51): TODO."""

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
    """TODO."""

    name: String
    mechanism: Int8


@structure
class ScramCredentialUpsertion:
    """TODO."""

    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """TODO."""

    deletions: Array[ScramCredentialDeletion]
    upsertions: Array[ScramCredentialUpsertion]


@structure
class AlterUserScramCredentialsResult:
    """TODO."""

    user: String
    error_code: Int16
    error_message: NullableString


@message(versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterUserScramCredentialsResult]
