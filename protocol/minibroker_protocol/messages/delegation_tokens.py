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
    """A principal other than the owner that is allowed to renew the token."""

    principal_type: String
    principal_name: String


@message(versions="0-3", flexible="2+")
class CreateDelegationTokenRequest:
    """CreateDelegationToken (key 38) creates a token that replaces a password for logins (KIP-48, KIP-373).

    If no owner is given, the authenticated client becomes the owner. A `max_lifetime_ms` of -1 requests the longest
    allowed lifetime.
    """

    owner_principal_type: Annotated[NullableString, since(3)] = ""
    owner_principal_name: Annotated[NullableString, since(3)] = ""
    renewers: Array[CreatableRenewers]
    max_lifetime_ms: Int64


@message(versions="0-3", flexible="2+")
class CreateDelegationTokenResponse:
    """The new token. Times are in milliseconds since the epoch.

    A client logs in with `token_id` as its user name and the Base64 form of `hmac` as its password.
    """

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
    """RenewDelegationToken (key 39) extends the lifetime of a token (KIP-48).

    The token is identified by its HMAC. A `renew_period_ms` of -1 selects the broker's default period.
    """

    hmac: Bytes
    renew_period_ms: Int64


@message(versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    """The new expiry time, in milliseconds since the epoch."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0


@message(versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """ExpireDelegationToken (key 40) changes the expiry time of a token (KIP-48).

    The token is identified by its HMAC. With a negative `expiry_time_period_ms`, the token expires immediately.
    """

    hmac: Bytes
    expiry_time_period_ms: Int64


@message(versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """The new expiry time, in milliseconds since the epoch."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0


@structure
class DescribeDelegationTokenOwner:
    """An owner whose tokens are requested."""

    principal_type: String
    principal_name: String


@message(versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """DescribeDelegationToken (key 41) lists delegation tokens (KIP-48, KIP-373).

    If `owners` is null, the response has the tokens of all users that the client is allowed to describe.
    """

    owners: NullableArray[DescribeDelegationTokenOwner]


@structure
class DescribedDelegationTokenRenewer:
    """A principal that is allowed to renew the token."""

    principal_type: String
    principal_name: String


@structure
class DescribedDelegationToken:
    """A token. Times are in milliseconds since the epoch."""

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
    """The tokens that match the request."""

    error_code: Int16
    tokens: Array[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
