"""DescribeAcls (key 29): TODO."""

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
    """TODO."""

    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Annotated[Int8, since(1)] = 3
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


@structure
class AclDescription:
    """TODO."""

    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@structure
class DescribeAclsResource:
    """TODO."""

    resource_type: Int8
    resource_name: String
    pattern_type: Annotated[Int8, since(1)] = 3
    acls: Array[AclDescription]


@message(versions="0-3", flexible="2+")
class DescribeAclsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
    resources: Array[DescribeAclsResource]
