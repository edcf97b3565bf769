"""Configurations of topics, brokers and groups."""

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
    """DescribeConfigs (key 32): the configuration of topics, brokers, loggers, groups and client metrics.

    The resources, and whether synonyms and words on each key are wanted.
    """

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
    """AlterConfigs (key 33): put whole configurations instead of the present ones; older than the incremental one.

    The resources; with `validate_only` they are checked, and nothing changes.
    """

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


@structure
class IncrementallyAlteredConfig:
    """A key and what to do with it: 0 set, 1 delete, 2 append to a list, 3 subtract from a list."""

    name: String
    config_operation: Int8
    value: NullableString


@structure
class IncrementallyAlteredResource:
    """A resource and the keys to change; the others stay."""

    resource_type: Int8
    resource_name: String
    configs: Array[IncrementallyAlteredConfig]


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """IncrementalAlterConfigs (key 44): change single keys of configurations (KIP-339).

    The resources; with `validate_only` they are checked, and nothing changes.
    """

    resources: Array[IncrementallyAlteredResource]
    validate_only: Bool


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """One answer for each resource, in the order of the request."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse]


@message(versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """ListConfigResources (key 74): which resources have a configuration (KIP-1142).

    Version 0 is Kafka 3.9's ListClientMetricsResources.

    Which types are asked for, numbered as in DescribeConfigs; none means all. Version 0 asks for client metrics.
    """

    resource_types: Annotated[Array[Int8], since(1)] = field(default_factory=empty)


@structure
class ConfigResource:
    """One resource; those of version 0 are client metrics."""

    resource_name: String
    resource_type: Annotated[Int8, since(1)] = 16


@message(versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """The resources that have a configuration."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    config_resources: Array[ConfigResource]
