"""DescribeConfigs (key 32): the configuration of topics, brokers, loggers, groups and client metrics."""

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
    """One resource to describe.

    Attributes:
        resource_type: 2 topic, 4 broker, 8 logger of a broker, 16 client metrics, 32 group.
        resource_name: a topic's or group's name, a broker's id; an empty one is what all brokers have in common.
        configuration_keys: the keys that are wanted; None, and up to version 4 an empty list too, for all.
    """

    resource_type: Int8
    resource_name: String
    configuration_keys: NullableArray[String]


@message(versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    """The resources, and whether synonyms and words on each key are wanted."""

    resources: Array[DescribeConfigsResource]
    include_synonyms: Annotated[Bool, since(1)] = False
    include_documentation: Annotated[Bool, since(3)] = False


@structure
class DescribeConfigsSynonym:
    """A setting that the value could have come from; `source` as in `DescribeConfigsResourceResult`."""

    name: Annotated[String, since(1)] = ""
    value: Annotated[NullableString, since(1)] = ""
    source: Annotated[Int8, since(1)] = 0


@structure
class DescribeConfigsResourceResult:
    """A key and its value.

    Attributes:
        value: None for null and for what must not be shown.
        is_default: version 0 only, in the place of the source.
        config_source: 1 topic, 2 broker at run time, 3 all brokers at run time, 4 broker at its start, 5 default,
            6 logger, 7 client metrics, 8 group.
        synonyms: what the value could have come from, the one that counts first.
        config_type: 0 unknown, 1 BOOLEAN, 2 STRING, 3 INT, 4 SHORT, 5 LONG, 6 DOUBLE, 7 LIST, 8 CLASS, 9 PASSWORD.
        documentation: None unless it was asked for.
    """

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
    """The configuration of a resource, or why there is none."""

    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String
    configs: Array[DescribeConfigsResourceResult]


@message(versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    """The configuration of each resource, in the order of the request."""

    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult]
