"""Access control lists (KIP-140, KIP-290)."""

from typing import Annotated

from minibroker_protocol.schema import Array, Int8, Int16, Int32, NullableString, String, message, since, structure


@message(versions="0-3", flexible="2+")
class DescribeAclsRequest:
    """DescribeAcls (key 29): the access control lists that a filter finds (KIP-140).

    Version 0 knows literal patterns only. A field that is null, or the number of ANY, lets everything through.

    The filter; the pattern's type may be ANY or MATCH, too (KIP-290).
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


@structure
class AclCreation:
    """One rule; `resource_pattern_type` 3 is literal, 4 prefixed (KIP-290)."""

    resource_type: Int8
    resource_name: String
    resource_pattern_type: Annotated[Int8, since(1)] = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(versions="0-3", flexible="2+")
class CreateAclsRequest:
    """CreateAcls (key 30): make access control lists, one rule each (KIP-140).

    Numbers of resources, patterns, operations and permissions are those of
    `minibroker.security.authorization.acls`. Version 0 knows literal patterns only.

    The rules to make.
    """

    creations: Array[AclCreation]


@structure
class AclCreationResult:
    """The result of one rule."""

    error_code: Int16
    error_message: NullableString


@message(versions="0-3", flexible="2+")
class CreateAclsResponse:
    """An outcome for each rule, in the order of the request."""

    throttle_time_ms: Int32 = 0
    results: Array[AclCreationResult]


@structure
class DeleteAclsFilter:
    """A filter of the rules to remove; the pattern's type may be ANY or MATCH, too (KIP-290)."""

    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Annotated[Int8, since(1)] = 3
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


@message(versions="0-3", flexible="2+")
class DeleteAclsRequest:
    """DeleteAcls (key 31): remove the access control lists that filters find (KIP-140).

    Version 0 knows literal patterns only. A field that is null, or the number of ANY, lets everything through.

    The filters; what any of them finds is removed.
    """

    filters: Array[DeleteAclsFilter]


@structure
class DeleteAclsMatchingAcl:
    """One rule that was removed, or the reason why it was not."""

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
    """The rules that one filter has matched, or why it was refused."""

    error_code: Int16
    error_message: NullableString
    matching_acls: Array[DeleteAclsMatchingAcl]


@message(versions="0-3", flexible="2+")
class DeleteAclsResponse:
    """An outcome for each filter, in the order of the request."""

    throttle_time_ms: Int32 = 0
    filter_results: Array[DeleteAclsFilterResult]
