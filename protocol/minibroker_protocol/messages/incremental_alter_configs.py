"""IncrementalAlterConfigs (key 44): TODO."""

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
    """TODO."""

    name: String
    config_operation: Int8
    value: NullableString


@structure
class AlterConfigsResource:
    """TODO."""

    resource_type: Int8
    resource_name: String
    configs: Array[AlterableConfig]


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """TODO."""

    resources: Array[AlterConfigsResource]
    validate_only: Bool


@structure
class AlterConfigsResourceResponse:
    """TODO."""

    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse]
