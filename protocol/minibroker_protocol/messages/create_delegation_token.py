"""CreateDelegationToken (key 38): a token to log in with, in the place of a password (KIP-48, KIP-373)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bytes,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    message,
    since,
    structure,
)


@structure
class CreatableRenewers:
    """A principal that may renew the token, beside its owner."""

    principal_type: String
    principal_name: String


@message(versions="0-3", flexible="2+")
class CreateDelegationTokenRequest:
    """Without an owner the token is for the client's user. `max_lifetime_ms` of -1 is the longest allowed."""

    owner_principal_type: Annotated[NullableString, since(3)] = ""
    owner_principal_name: Annotated[NullableString, since(3)] = ""
    renewers: Array[CreatableRenewers]
    max_lifetime_ms: Int64


@message(versions="0-3", flexible="2+")
class CreateDelegationTokenResponse:
    """Times are in ms since the epoch; `token_id` is the name to log in with, and `hmac` in base64 the password."""

    error_code: Int16
    principal_type: String
    principal_name: String
    token_requester_principal_type: Annotated[String, since(3)] = ""
    token_requester_principal_name: Annotated[String, since(3)] = ""
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32 = 0
