"""DescribeConfigs (key 32): TODO."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    empty,
    message,
    since,
    structure,
    versions,
)


@structure
class DescribeConfigsResource:
    """TODO."""

    resource_type: Int8
    resource_name: String
    configuration_keys: NullableArray[String]


@message(versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    """TODO."""

    resources: Array[DescribeConfigsResource]
    include_synonyms: Annotated[Bool, since(1)] = False
    include_documentation: Annotated[Bool, since(3)] = False


@structure
class DescribeConfigsSynonym:
    """TODO."""

    name: Annotated[String, since(1)] = ""
    value: Annotated[NullableString, since(1)] = ""
    source: Annotated[Int8, since(1)] = 0


@structure
class DescribeConfigsResourceResult:
    """TODO."""

    name: String
    value: NullableString
    read_only: Bool
    is_default: Annotated[Bool, versions("0")] = False
    config_source: Annotated[Int8, since(1)] = -1
    is_sensitive: Bool
    synonyms: Annotated[Array[DescribeConfigsSynonym], since(1)] = field(default_factory=empty)
    config_type: Annotated[Int8, since(3)] = 0
    documentation: Annotated[NullableString, since(3)] = ""


@structure
class DescribeConfigsResult:
    """TODO."""

    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String
    configs: Array[DescribeConfigsResourceResult]


@message(versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult]
