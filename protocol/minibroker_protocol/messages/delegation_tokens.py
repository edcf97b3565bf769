"""Delegation tokens (KIP-48)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bytes,
    Int16,
    Int32,
    Int64,
    NullableArray,
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
    """CreateDelegationToken (key 38): a token to log in with, in the place of a password (KIP-48, KIP-373).

    Without an owner the token is for the client's user. `max_lifetime_ms` of -1 is the longest allowed.
    """

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


@message(versions="0-2", flexible="2+")
class RenewDelegationTokenRequest:
    """RenewDelegationToken (key 39): put the end of a token off (KIP-48).

    The token by its HMAC, and a period in milliseconds; -1 is the broker's usual one.
    """

    hmac: Bytes
    renew_period_ms: Int64


@message(versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    """When it ends now, in milliseconds since the epoch."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0


@message(versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """ExpireDelegationToken (key 40): bring the end of a token nearer (KIP-48).

    The token by its HMAC, and a period in milliseconds; a negative one ends it at once.
    """

    hmac: Bytes
    expiry_time_period_ms: Int64


@message(versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """When it ends now, in milliseconds since the epoch."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0


@structure
class DescribeDelegationTokenOwner:
    """An owner, or a renewer."""

    principal_type: String
    principal_name: String


@message(versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """DescribeDelegationToken (key 41): which tokens there are (KIP-48, KIP-373).

    Null asks for the tokens of all users, as far as the client may see them.
    """

    owners: NullableArray[DescribeDelegationTokenOwner]


@structure
class DescribedDelegationTokenRenewer:
    """A principal that may renew a token."""

    principal_type: String
    principal_name: String


@structure
class DescribedDelegationToken:
    """One token; times are in milliseconds since the epoch."""

    principal_type: String
    principal_name: String
    token_requester_principal_type: Annotated[String, since(3)] = ""
    token_requester_principal_name: Annotated[String, since(3)] = ""
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: Array[DescribedDelegationTokenRenewer]


@message(versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse:
    """The tokens."""

    error_code: Int16
    tokens: Array[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
