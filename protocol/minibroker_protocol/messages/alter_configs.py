"""AlterConfigs (key 33): put whole configurations instead of the present ones; older than the incremental one."""

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    message,
    structure,
)


@structure
class AlterableConfig:
    """A key and its new value, which must not be null."""

    name: String
    value: NullableString


@structure
class AlterConfigsResource:
    """A resource and all that it is configured with from now on; its other keys go back to their defaults."""

    resource_type: Int8
    resource_name: String
    configs: Array[AlterableConfig]


@message(versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """The resources; with `validate_only` they are checked, and nothing changes."""

    resources: Array[AlterConfigsResource]
    validate_only: Bool


@structure
class AlterConfigsResourceResponse:
    """The result of one resource."""

    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String


@message(versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """One answer for each resource, in the order of the request."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse]
