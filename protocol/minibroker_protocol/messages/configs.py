"""Configurations of topics, brokers and groups."""

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
    """A resource to describe.

    Attributes:
        resource_type: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
        resource_name: the name of a topic or group, or the id of a broker. An empty name stands for the defaults of
            all brokers.
        configuration_keys: the keys to describe. None selects all keys. Up to version 4, an empty list also does.
    """

    resource_type: Int8
    resource_name: String
    configuration_keys: NullableArray[String]


@message(versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    """DescribeConfigs (key 32) describes the configurations of topics, brokers, loggers, groups and client metrics.

    A client can also request the synonyms and the documentation of each key.
    """

    resources: Array[DescribeConfigsResource]
    include_synonyms: Annotated[Bool, since(1)] = False
    include_documentation: Annotated[Bool, since(3)] = False


@structure
class DescribeConfigsSynonym:
    """A setting that can determine the value; `source` is numbered as in `DescribeConfigsResourceResult`."""

    name: Annotated[String, since(1)] = ""
    value: Annotated[NullableString, since(1)] = ""
    source: Annotated[Int8, since(1)] = 0


@structure
class DescribeConfigsResourceResult:
    """A key and its value.

    Attributes:
        value: None if the value is null or sensitive.
        is_default: whether the value is the default. It exists in version 0 only; `config_source` replaced it.
        config_source: 1 topic, 2 dynamic broker, 3 dynamic default of all brokers, 4 static broker, 5 default, 6
            logger, 7 client metrics, 8 group.
        synonyms: the settings that can determine the value, in order of precedence.
        config_type: 0 unknown, 1 BOOLEAN, 2 STRING, 3 INT, 4 SHORT, 5 LONG, 6 DOUBLE, 7 LIST, 8 CLASS, 9 PASSWORD.
        documentation: None unless requested.
    """

    name: String
    value: NullableString
    read_only: Bool
    is_default: Annotated[Bool, versions("0")] = False
    config_source: Annotated[Int8, since(1)] = -1
    is_sensitive: Bool
    synonyms: Annotated[Array[DescribeConfigsSynonym], since(1)] = empty()
    config_type: Annotated[Int8, since(3)] = 0
    documentation: Annotated[NullableString, since(3)] = ""


@structure
class DescribeConfigsResult:
    """The configuration of a resource, or an error."""

    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String
    configs: Array[DescribeConfigsResourceResult]


@message(versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    """The configuration of each resource, in request order."""

    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult]


@structure
class AlterableConfig:
    """A key and its new value, which must not be null."""

    name: String
    value: NullableString


@structure
class AlterConfigsResource:
    """A resource and its complete new configuration. Keys that are not listed return to their defaults."""

    resource_type: Int8
    resource_name: String
    configs: Array[AlterableConfig]


@message(versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """AlterConfigs (key 33) replaces the whole configuration of each resource.

    IncrementalAlterConfigs supersedes it. If `validate_only` is true, the changes are checked but not made.
    """

    resources: Array[AlterConfigsResource]
    validate_only: Bool


@structure
class AlterConfigsResourceResponse:
    """The result for one resource."""

    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String


@message(versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """One result per resource, in request order."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse]


@structure
class IncrementallyAlteredConfig:
    """A key and the operation on it: 0 set, 1 delete, 2 append to a list, 3 subtract from a list."""

    name: String
    config_operation: Int8
    value: NullableString


@structure
class IncrementallyAlteredResource:
    """A resource and the keys to change. Other keys keep their values."""

    resource_type: Int8
    resource_name: String
    configs: Array[IncrementallyAlteredConfig]


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """IncrementalAlterConfigs (key 44) changes individual configuration keys (KIP-339).

    If `validate_only` is true, the changes are checked but not made.
    """

    resources: Array[IncrementallyAlteredResource]
    validate_only: Bool


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """One result per resource, in request order."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse]


@message(versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """ListConfigResources (key 74) lists the resources that have a configuration (KIP-1142).

    Version 0 is the ListClientMetricsResources of Kafka 3.9, which lists client metrics only. Later versions list
    resources of the requested types, or of all types if the list of types is empty. The types are numbered as in
    DescribeConfigs.
    """

    resource_types: Annotated[Array[Int8], since(1)] = empty()


@structure
class ConfigResource:
    """A resource with a configuration. In version 0 every resource is of type client metrics."""

    resource_name: String
    resource_type: Annotated[Int8, since(1)] = 16


@message(versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """The resources that have a configuration."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    config_resources: Array[ConfigResource]
