"""Access control lists (KIP-140, KIP-290)."""

from typing import Annotated

from minibroker_protocol.schema import Array, Int8, Int16, Int32, NullableString, String, message, since, structure


@message(versions="0-3", flexible="2+")
class DescribeAclsRequest:
    """DescribeAcls (key 29) lists the ACLs that match a filter (KIP-140).

    In the filter, a null field or the number of ANY matches everything. The pattern type can also be ANY or MATCH
    (KIP-290). Version 0 supports literal patterns only.
    """

    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Annotated[Int8, since(1)] = 3
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


@structure
class AclDescription:
    """An ACL of a resource pattern."""

    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@structure
class DescribeAclsResource:
    """A resource pattern and its ACLs."""

    resource_type: Int8
    resource_name: String
    pattern_type: Annotated[Int8, since(1)] = 3
    acls: Array[AclDescription]


@message(versions="0-3", flexible="2+")
class DescribeAclsResponse:
    """The ACLs that match the filter, grouped by resource pattern."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    resources: Array[DescribeAclsResource]


@structure
class AclCreation:
    """An ACL to create. A `resource_pattern_type` of 3 means literal, and 4 means prefixed (KIP-290)."""

    resource_type: Int8
    resource_name: String
    resource_pattern_type: Annotated[Int8, since(1)] = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(versions="0-3", flexible="2+")
class CreateAclsRequest:
    """CreateAcls (key 30) creates ACLs (KIP-140).

    The numbers for resource types, pattern types, operations and permissions are defined in
    `minibroker.security.authorization.acls`. Version 0 supports literal patterns only.
    """

    creations: Array[AclCreation]


@structure
class AclCreationResult:
    """The result of creating one ACL."""

    error_code: Int16
    error_message: NullableString


@message(versions="0-3", flexible="2+")
class CreateAclsResponse:
    """One result per ACL, in request order."""

    throttle_time_ms: Int32 = 0
    results: Array[AclCreationResult]


@structure
class DeleteAclsFilter:
    """A filter that selects ACLs to delete. The pattern type can also be ANY or MATCH (KIP-290)."""

    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Annotated[Int8, since(1)] = 3
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


@message(versions="0-3", flexible="2+")
class DeleteAclsRequest:
    """DeleteAcls (key 31) deletes the ACLs that match any of its filters (KIP-140).

    In a filter, a null field or the number of ANY matches everything. Version 0 supports literal patterns only.
    """

    filters: Array[DeleteAclsFilter]


@structure
class DeleteAclsMatchingAcl:
    """An ACL that matched, and the error if the ACL could not be deleted."""

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
    """The ACLs that matched one filter, or the reason why the filter was rejected."""

    error_code: Int16
    error_message: NullableString
    matching_acls: Array[DeleteAclsMatchingAcl]


@message(versions="0-3", flexible="2+")
class DeleteAclsResponse:
    """One result per filter, in request order."""

    throttle_time_ms: Int32 = 0
    filter_results: Array[DeleteAclsFilterResult]
