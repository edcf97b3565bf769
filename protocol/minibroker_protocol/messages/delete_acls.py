"""DeleteAcls (key 31): TODO."""

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


@structure
class DeleteAclsFilter:
    """TODO."""

    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Annotated[Int8, since(1)] = 3
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


@message(versions="0-3", flexible="2+")
class DeleteAclsRequest:
    """TODO."""

    filters: Array[DeleteAclsFilter]


@structure
class DeleteAclsMatchingAcl:
    """TODO."""

    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String
    pattern_type: Annotated[Int8, since(1)] = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@structure
class DeleteAclsFilterResult:
    """TODO."""

    error_code: Int16
    error_message: NullableString
    matching_acls: Array[DeleteAclsMatchingAcl]


@message(versions="0-3", flexible="2+")
class DeleteAclsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    filter_results: Array[DeleteAclsFilterResult]
