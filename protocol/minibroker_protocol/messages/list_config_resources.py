"""ListConfigResources (key 74): which resources have a configuration (KIP-1142).

Version 0 is Kafka 3.9's ListClientMetricsResources.
"""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    String,
    empty,
    message,
    since,
    structure,
)


@message(versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """Which types are asked for, numbered as in DescribeConfigs; none means all. Version 0 asks for client metrics."""

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
