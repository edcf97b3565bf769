"""IncrementalAlterConfigs (key 44): change single keys of configurations (KIP-339)."""

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
    """A key and what to do with it: 0 set, 1 delete, 2 append to a list, 3 subtract from a list."""

    name: String
    config_operation: Int8
    value: NullableString


@structure
class AlterConfigsResource:
    """A resource and the keys to change; the others stay."""

    resource_type: Int8
    resource_name: String
    configs: Array[AlterableConfig]


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
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


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """One answer for each resource, in the order of the request."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse]
