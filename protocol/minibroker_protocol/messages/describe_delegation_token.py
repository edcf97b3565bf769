"""DescribeDelegationToken (key 41): which tokens there are (KIP-48, KIP-373)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bytes,
    Int16,
    Int32,
    Int64,
    NullableArray,
    String,
    message,
    since,
    structure,
)


@structure
class DescribeDelegationTokenOwner:
    """An owner, or a renewer."""

    principal_type: String
    principal_name: String


@message(versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """Null asks for the tokens of all users, as far as the client may see them."""

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
