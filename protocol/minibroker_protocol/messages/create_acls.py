"""CreateAcls (key 30): TODO."""

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
class AclCreation:
    """TODO."""

    resource_type: Int8
    resource_name: String
    resource_pattern_type: Annotated[Int8, since(1)] = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(versions="0-3", flexible="2+")
class CreateAclsRequest:
    """TODO."""

    creations: Array[AclCreation]


@structure
class AclCreationResult:
    """TODO."""

    error_code: Int16
    error_message: NullableString


@message(versions="0-3", flexible="2+")
class CreateAclsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    results: Array[AclCreationResult]
