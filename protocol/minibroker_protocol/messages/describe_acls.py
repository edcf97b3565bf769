"""DescribeAcls (key 29): the access control lists that a filter finds (KIP-140; Kafka's `DescribeAclsRequest.json`).

Version 0 knows literal patterns only. A field that is null, or the number of ANY, lets everything through.
"""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    message,
    since,
    structure,
)


@message(versions="0-3", flexible="2+")
class DescribeAclsRequest:
    """The filter; the pattern's type may be ANY or MATCH, too (KIP-290)."""

    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Annotated[Int8, since(1)] = 3
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


@structure
class AclDescription:
    """One rule for a pattern."""

    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@structure
class DescribeAclsResource:
    """A pattern of resources, and the rules for it."""

    resource_type: Int8
    resource_name: String
    pattern_type: Annotated[Int8, since(1)] = 3
    acls: Array[AclDescription]


@message(versions="0-3", flexible="2+")
class DescribeAclsResponse:
    """The patterns that have rules which the filter finds, with those rules."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    resources: Array[DescribeAclsResource]
