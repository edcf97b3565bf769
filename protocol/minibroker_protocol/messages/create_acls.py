"""CreateAcls (key 30): make access control lists, one rule each (KIP-140; Kafka's `CreateAclsRequest.json`).

Numbers of resources, patterns, operations and permissions are those of `minibroker.security.authorization.acls`.
Version 0 knows literal patterns only.
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
    """The rules to make."""

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
