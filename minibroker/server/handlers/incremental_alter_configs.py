"""IncrementalAlterConfigs: single keys of configurations, each resource with its own outcome (KIP-339).

Versions 0-1. Topics, brokers (an empty name for all of them), loggers (KIP-412), client metrics (KIP-714) and groups
(KIP-848). What is altered counts at once and is kept, but the levels of loggers, which end with the broker.
INVALID_CONFIG and INVALID_REQUEST are Kafka's, with its sentences; UNKNOWN_TOPIC_OR_PARTITION. Brokers refuse to alter
what Kafka calls read-only, and their listeners. An operation that does not exist is INVALID_REQUEST for all resources,
where Kafka has UNKNOWN_SERVER_ERROR for most.
"""

from typing import Final

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.server.requests.call import Call
from minibroker.server.requests.configs.changes import Resource, alter
from minibroker.server.requests.declarations import config_resources_at
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.messages.configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

NAMES: Final = config_resources_at("resources")
NEEDS: Final = asked_by_handler("ALTER_CONFIGS on each topic or group; on the cluster, for brokers and client metrics")


def handle(request: IncrementalAlterConfigsRequest, call: Call) -> IncrementalAlterConfigsResponse | DelayedResponse:
    """Check and alter one resource after the other."""
    altered = [
        (
            Resource(resource.resource_type, resource.resource_name),
            [(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    responses = [
        AlterConfigsResourceResponse(
            error_code=code, error_message=message, resource_type=resource.kind, resource_name=resource.name
        )
        for resource, code, message in alter(altered, call, replaces=False, validate_only=request.validate_only)
    ]
    return hold(IncrementalAlterConfigsResponse(responses=responses), request, call)
