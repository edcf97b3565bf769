"""ListConfigResources (key 74): TODO."""

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
    """TODO."""

    resource_types: Annotated[Array[Int8], since(1)] = field(default_factory=empty)


@structure
class ConfigResource:
    """TODO."""

    resource_name: String
    resource_type: Annotated[Int8, since(1)] = 16


@structure
class ClientMetricsResource:
    """TODO."""

    name: String


@message(versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    config_resources: Array[ConfigResource]
    client_metrics_resources: Array[ClientMetricsResource]
